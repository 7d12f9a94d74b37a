package website

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/windtunnel/windtunnel/examples/operator/api/v1"
)

// Options say how the operator runs.
type Options struct {
	Metrics string        // address of /metrics; "0": none
	Probes  string        // address of /readyz and /healthz; empty: none
	Workers int           // reconciliations at the same time; default 1
	Resync  time.Duration // between reconciliations of all websites; default 10 hours
	Ready   func()        // called when the caches are filled; may be nil
}

// Run runs the operator until ctx ends.
func Run(ctx context.Context, c *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("scheme: %w", err)
		}
	}
	ours := true
	var objects cache.Options
	if o.Resync > 0 {
		objects.SyncPeriod = &o.Resync
	}
	m, err := ctrl.NewManager(c, ctrl.Options{
		Scheme: scheme, Cache: objects, Metrics: server.Options{BindAddress: o.Metrics}, HealthProbeBindAddress: o.Probes,
		// A test process may run one operator after another.
		Controller: config.Controller{SkipNameValidation: &ours},
	})
	if err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	err = ctrl.NewControllerManagedBy(m).Named("website").
		For(&v1.Website{}).Owns(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, o.Workers)}).
		Complete(&Reconciler{Client: m.GetClient()})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if err := m.AddReadyzCheck("caches", healthz.Ping); err != nil {
		return err
	}
	err = m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if o.Ready != nil && m.GetCache().WaitForCacheSync(ctx) {
			o.Ready()
		}
		return nil
	}))
	if err != nil {
		return err
	}
	return m.Start(ctx)
}
