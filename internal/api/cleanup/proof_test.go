package cleanup_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// labeled is an object with the label of the run r1.
func labeled(name, uid string, owners ...string) metav1.PartialObjectMetadata {
	o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{object.RunLabel: "r1"}}}
	for _, owner := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: types.UID(owner)})
	}
	return o
}

const maps = "/api/v1/namespaces/default/configmaps/"

// TestALabelAloneDeletesNothing has objects that somebody has labeled: they stay, and are named.
func TestALabelAloneDeletesNothing(t *testing.T) {
	s := cluster(t)
	s.Add(maps+"precious", labeled("precious", "p1"))
	labelBy(s, maps+"precious", "kubectl-label")
	s.Add(maps+"of-it", labeled("of-it", "p2", "p1")) // owned by what is not ours either
	labelBy(s, maps+"of-it", "kube-controller-manager")
	s.Add(maps+"another", labeled("another", "p3"))
	labelBy(s, maps+"another", "windtunnel-load")
	s.Remove(maps + "owned") // there is no garbage collector here
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	err := cleanup.Sweeper{Client: client, Within: time.Minute}.Sweep(t.Context(), "r1", nil)
	if err == nil || !strings.Contains(err.Error(), "2 objects carry the label windtunnel.dev/run, but windtunnel did not set it: configmaps default/of-it (labeled by kube-controller-manager), configmaps default/precious (labeled by kubectl-label)") {
		t.Error(err)
	}
	if s.Get(maps+"precious") == nil || s.Get(maps+"of-it") == nil || s.Get(maps+"another") != nil {
		t.Error("precious and of-it must stay, another must go")
	}
}

// TestNothingIsLeftUnsaid sweeps what owns itself, a chain of owners, and what somebody
// makes again and again.
func TestNothingIsLeftUnsaid(t *testing.T) {
	s := cluster(t)
	add := func(name, uid string, owners ...string) {
		s.Add(maps+name, labeled(name, uid, owners...))
		labelBy(s, maps+name, "windtunnel-load")
	}
	s.Remove(maps + "owned")
	add("itself", "s1", "s1")
	add("ring-a", "a", "b")
	add("ring-b", "b", "a")
	for i := range 6 { // nobody collects the garbage: each look finds the next one without its owner
		add(fmt.Sprintf("chain-%d", i), fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i-1))
	}
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	sweeper := cleanup.Sweeper{Client: client, Within: time.Minute}
	if err := sweeper.Sweep(t.Context(), "r1", nil); err != nil {
		t.Error(err)
	}
	if left, _, _ := (cleanup.Look{Client: client, Run: "r1"}).Find(t.Context()); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
	add("again", "g")
	n := 0
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/v1/configmaps") && s.Get(maps+"again") == nil { // a controller
			n++
			add("again", fmt.Sprint("g", n))
		}
		return nil
	})
	if err := sweeper.Sweep(t.Context(), "r1", nil); err == nil || !strings.Contains(err.Error(), "1 object left after 8 deletions, or made again: configmaps default/again") {
		t.Error(err)
	}
}

// TestWhatIsCollectedIsWaitedFor has a pod whose owner, a Job of the run's CronJob, carries no
// label: it is not deleted, and not named either, since the garbage collector takes it.
func TestWhatIsCollectedIsWaitedFor(t *testing.T) {
	s := cluster(t)
	s.Remove(maps + "owned")
	s.Add(maps+"pod", labeled("pod", "p1", "job"))
	labelBy(s, maps+"pod", "kube-controller-manager")
	looks := 0
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/v1/configmaps") {
			if looks++; looks == 3 { // the first finds what is the run's, the second that only this is left
				s.Remove(maps + "pod")
			}
		}
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pod") {
			t.Error("it is deleted")
		}
		return nil
	})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute}).Sweep(t.Context(), "r1", nil); err != nil {
		t.Error(err)
	}
}

// TestFinalizersOfKilledControllersAreTaken cleans up after a run whose controllers were
// killed: objects of the kind that it has defined lose the finalizers that these would have
// removed. Another controller's finalizer, on an object of the cluster's own kinds, stays.
func TestFinalizersOfKilledControllersAreTaken(t *testing.T) {
	s := cluster(t)
	s.Define(apitest.Resource{Version: "example.com/v1", Plural: "ds", Kind: "D", Namespaced: true})
	add := func(path, uid string, finalizers ...string) {
		o := labeled(path[strings.LastIndex(path, "/")+1:], uid)
		o.Finalizers = finalizers
		s.Add(path, o)
		labelBy(s, path, "windtunnel-load")
	}
	const ds, definition = "/apis/example.com/v1/namespaces/mine/ds/", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ds.example.com"
	crd := s.Get(definition)
	crd.SetLabels(map[string]string{object.RunLabel: "r1"})
	s.Add(definition, crd)
	labelBy(s, definition, "windtunnel-setup")
	add(ds+"free", "d1")
	add(ds+"held", "d2", "example.com/a", "example.com/b")
	s.Remove(maps + "owned")
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute, Orphaned: true}).Sweep(t.Context(), "r1", nil); err != nil {
		t.Error(err)
	}
	if s.Get(ds+"held") != nil || s.Get(ds+"free") != nil || s.Get(definition) != nil {
		t.Error("held, free and their definition must go")
	}
	add(maps+"of-others", "d3", "example.org/theirs") // by itself: its deadline passes
	err := cleanup.Sweeper{Client: client, Within: time.Second, Orphaned: true}.Sweep(t.Context(), "r1", nil)
	if err == nil || !strings.Contains(err.Error(), "of-others") {
		t.Error(err)
	}
	if o := s.Get(maps + "of-others"); o == nil || len(o.GetFinalizers()) != 1 {
		t.Error("of-others must stay, with its finalizer")
	}
}

// TestARunIsComparedWhereSelectorsAreIgnored has a server that gives all objects, whatever
// is asked for.
func TestARunIsComparedWhereSelectorsAreIgnored(t *testing.T) {
	s := cluster(t)
	s.Inject(func(r *http.Request) *apitest.Injection {
		q := r.URL.Query()
		q.Del("labelSelector")
		r.URL.RawQuery = q.Encode()
		return nil
	})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	found, _, err := cleanup.Look{Client: client, Run: "r2"}.Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Name != "of-another-run" {
		t.Errorf("of r2 there are %v, %v", found, err)
	}
}

// TestProveIsNeverForged draws clusters by chance: what is taken for a run's has been
// labeled by windtunnel, or leads to something that was, by owners or a namespace.
func TestProveIsNeverForged(t *testing.T) {
	for seed := range uint64(1000) {
		dice := rand.New(rand.NewPCG(seed, 1))
		s := cleanup.Drawn(dice, 12)
		made, others := cleanup.Prove(s, nil)
		if len(made)+len(others) != len(s) {
			t.Fatalf("seed %d: %d and %d of %d", seed, len(made), len(others), len(s))
		}
		for _, f := range made {
			if !f.LeadsToOurs(s) {
				t.Fatalf("seed %d: %v is taken for the run's", seed, f)
			}
		}
		for _, f := range others {
			if f.LeadsToOurs(s) {
				t.Fatalf("seed %d: %v is the run's", seed, f)
			}
		}
	}
}
