package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windtunnel/windtunnel"
	v1 "github.com/windtunnel/windtunnel/examples/operator/api/v1"
	"github.com/windtunnel/windtunnel/examples/operator/website"
)

// TestHollow runs the whole operator, with manager, caches and watches, on a cluster
// in the test's memory: it needs no program, and takes a second.
func TestHollow(t *testing.T) {
	ctrl.SetLogger(testr.New(t))
	cluster := windtunnel.Hollow(t, windtunnel.HollowOptions{Objects: []string{"config/website.yaml"}, Stages: []string{"deployments"}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- website.Run(ctx, cluster.Config, website.Options{Metrics: "0", Workers: 2}) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	site := &v1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "home"}, Spec: v1.Spec{Page: "<p>"}}
	if err := c.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if site.Spec.Replicas != 1 {
		t.Errorf("the default of the schema is not filled in: %+v", site.Spec)
	}
	ready := func() bool {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(site), site)
		return err == nil && site.Status.ObservedGeneration == site.Generation && meta.IsStatusConditionTrue(site.Status.Conditions, v1.ConditionReady)
	}
	eventually(t, "the website is ready", ready)
	cluster.Forget() // the operator's watches begin anew
	site.Spec.Replicas = 3
	if err := c.Update(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready with three replicas", ready)
	if err := c.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the page goes with its website", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "home"}, &corev1.ConfigMap{}))
	})
}

// eventually waits until something is so; only a failure takes a minute.
func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !met(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
