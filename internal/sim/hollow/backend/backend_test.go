package backend

import (
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// TestChangeTimesOut lets another write be faster each time: the change is repeated until
// its time is over.
func TestChangeTimesOut(t *testing.T) {
	var running guard.Group
	c := clock.Start()
	b := New(registry.New(registry.Options{Store: store.New(store.Options{Clock: c, History: time.Hour})}), c, &running, nil)
	b.Enqueue(b.Registry().CreateSystemNamespaces(b.Now()))
	w := registry.Write{Target: registry.Target{Kind: b.Registry().Kinds().Find("", "v1", "namespaces"), Name: "default"}}
	label := func(key string) func(runtime.Object, time.Time) (runtime.Object, error) {
		return func(old runtime.Object, _ time.Time) (runtime.Object, error) {
			next := old.DeepCopyObject()
			kind.Meta(next).SetLabels(map[string]string{key: kind.Meta(old).GetResourceVersion()})
			return next, nil
		}
	}
	races, tries := 3, 0
	change := func() error {
		_, err := b.Change(registry.Change{Write: w, Replace: func(old runtime.Object, now time.Time) (runtime.Object, error) {
			if tries++; tries <= races {
				if _, err := b.Registry().Change(registry.Change{Write: w, Replace: label("theirs")}); err != nil {
					t.Error(err)
				}
			}
			return label("mine")(old, now)
		}})
		return err
	}
	if err := change(); err != nil || tries != races+1 {
		t.Errorf("%d tries: %v", tries, err)
	}
	b.timeout, tries = -1, 0
	var status apierrors.APIStatus
	if err := change(); !errors.As(err, &status) || status.Status().Code != http.StatusGatewayTimeout || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
	running.Wait()
}
