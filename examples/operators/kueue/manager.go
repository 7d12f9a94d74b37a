//go:build ignore

// The complete manager of Kueue (cmd/kueue) serves webhooks and waits for certificates that
// only an installation by Kustomize has. This program starts the same controllers from the
// same configuration file: scheduler, core controllers, batch Jobs and MultiKueue. It leaves
// out webhooks, leader election, provisioning requests and other kinds of jobs.
//
// It exports how long requests wait for a client's rate limiter, which controller-runtime
// leaves out of its metrics.
//
// --remote-qps sets the client-side rate limit of the clients for other clusters, for which
// release 0.17.0 has no option: a controller calls builderOverride in place of its own
// function where it is set, as in Kueue's own unit tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuealpha "sigs.k8s.io/kueue/apis/kueue/v1alpha1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/multikueue"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/job"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	dispatcher "sigs.k8s.io/kueue/pkg/controller/workloaddispatcher"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
)

func main() {
	file := flag.String("config", "", "configuration `FILE` of Kueue")
	qps := flag.Float64("remote-qps", 0, "requests per second to each other cluster and kind; 0: as in the release")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel)))
	if err := run(ctrl.SetupSignalHandler(), *file, float32(*qps)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, remoteQPS float32) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kueue.AddToScheme, kueuealpha.AddToScheme, configapi.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	options, cfg, err := config.Load(scheme, file)
	if err != nil {
		return err
	}
	options.Metrics.BindAddress, options.LeaderElection = cfg.Metrics.BindAddress, false
	metrics.Register()
	waits := limiterWaits{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rest_client_rate_limiter_duration_seconds", Help: "Time that requests wait for the client-side rate limiter, by verb and host.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
	}, []string{"verb", "host"})}
	ctrlmetrics.Registry.MustRegister(waits)
	clientmetrics.RateLimiterLatency = waits
	kubeConfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	kubeConfig.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(*cfg.ClientConnection.QPS, int(*cfg.ClientConnection.Burst))
	mgr, err := ctrl.NewManager(kubeConfig, options)
	if err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("healthz", healthz.Ping), mgr.AddReadyzCheck("readyz", synced(mgr))); err != nil {
		return err
	}
	if err := setUp(ctx, mgr, &cfg, remoteQPS); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// limiterWaits are the waits for rate limiters.
type limiterWaits struct{ *prometheus.HistogramVec }

// Observe takes note of one.
func (l limiterWaits) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

// synced is ready once the caches of the manager are filled.
func synced(mgr ctrl.Manager) healthz.Checker {
	return func(r *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(r.Context()) {
			return errors.New("caches are not filled")
		}
		return nil
	}
}

// setUp adds to the manager what cmd/kueue adds.
func setUp(ctx context.Context, mgr ctrl.Manager, cfg *configapi.Configuration, remoteQPS float32) error {
	frameworks := []string{job.FrameworkName}
	if err := errors.Join(indexer.Setup(ctx, mgr.GetFieldIndexer()), tasindexer.SetupIndexes(ctx, mgr.GetFieldIndexer()),
		multikueue.SetupIndexer(ctx, mgr.GetFieldIndexer(), *cfg.Namespace),
		jobframework.SetupIndexes(ctx, mgr.GetFieldIndexer(), jobframework.WithEnabledFrameworks(frameworks))); err != nil {
		return err
	}
	cache, expectations, requeuer := schdcache.New(mgr.GetClient()), preemptexpectations.New(), qcache.NewRequeuer()
	queues := qcache.NewManager(mgr.GetClient(), cache, requeuer, qcache.WithPreemptionExpectations(expectations))
	if err := mgr.Add(requeuer); err != nil {
		return err
	}
	if name, err := core.SetupControllers(mgr, queues, cache, cfg, nil, expectations, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	adapters, err := jobframework.GetMultiKueueAdapters(sets.New(frameworks...))
	if err != nil {
		return err
	}
	if err := multikueue.SetupControllers(limiting{mgr, remoteQPS}, *cfg.Namespace,
		multikueue.WithGCInterval(cfg.MultiKueue.GCInterval.Duration), multikueue.WithOrigin(*cfg.MultiKueue.Origin),
		multikueue.WithWorkerLostTimeout(cfg.MultiKueue.WorkerLostTimeout.Duration), multikueue.WithAdapters(adapters),
		multikueue.WithDispatcherName(*cfg.MultiKueue.DispatcherName)); err != nil {
		return err
	}
	if name, err := dispatcher.SetupControllers(mgr, cfg, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	jobframework.EnableIntegration(job.FrameworkName)
	reconciler, err := job.NewReconciler(ctx, mgr.GetClient(), mgr.GetFieldIndexer(), mgr.GetEventRecorderFor("batch/job-kueue-controller"),
		jobframework.WithManagerName(constants.KueueName), jobframework.WithEnabledFrameworks(frameworks), jobframework.WithCache(cache), jobframework.WithQueues(queues))
	if err != nil {
		return err
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	return mgr.Add(scheduler.New(queues, cache, mgr.GetClient(), mgr.GetEventRecorderFor(constants.AdmissionName), scheduler.WithPreemptionExpectations(expectations)))
}

// limiting is a manager that sets the rate limit of the clients for other clusters in the
// controller that makes them.
type limiting struct {
	ctrl.Manager
	qps float32
}

// Add adds a controller.
func (l limiting) Add(r manager.Runnable) error {
	v := reflect.ValueOf(r)
	if l.qps == 0 || v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return l.Manager.Add(r)
	}
	if builder := v.Elem().FieldByName("builderOverride"); builder.IsValid() {
		settable := reflect.NewAt(builder.Type(), unsafe.Pointer(builder.UnsafeAddr())).Elem()
		settable.Set(reflect.MakeFunc(builder.Type(), func(args []reflect.Value) []reflect.Value {
			c, err := l.newClient(args[0].Elem().FieldByName("Kubeconfig").Bytes(), args[1].Interface().(client.Options))
			return []reflect.Value{valueOf(&c), valueOf(&err)}
		}))
	}
	return l.Manager.Add(r)
}

// newClient returns a client for another cluster.
func (l limiting) newClient(kubeconfig []byte, o client.Options) (client.WithWatch, error) {
	c, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = l.qps, int(2*l.qps)
	return client.NewWithWatch(c, o)
}

// valueOf returns a value of the type of the pointer's target, also of a nil interface.
func valueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }
