package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// labelBy writes down that a manager has labeled an object.
func labelBy(s *apitest.Server, path, manager string) {
	o := s.Get(path)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:windtunnel.dev/run":{}}}}`)}})
	s.Add(path, o)
}

func cluster(t *testing.T) *apitest.Server {
	s := apitest.New(t,
		apitest.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"},
		apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
		apitest.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true},
		apitest.Resource{Version: "v1", Plural: "nodes", Kind: "Node"},
		apitest.Resource{Version: "apiextensions.k8s.io/v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"},
		apitest.Resource{Version: "admissionregistration.k8s.io/v1", Plural: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration"},
	)
	add := func(path, run, uid string, owners ...string) {
		name := path[strings.LastIndex(path, "/")+1:]
		defer func() { labelBy(s, path, "windtunnel-load") }()
		o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
		if run != "" {
			o.Labels = map[string]string{object.RunLabel: run}
		}
		for _, uid := range owners {
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: types.UID(uid)})
		}
		s.Add(path, o)
	}
	add("/api/v1/namespaces/mine", "r1", "u1")
	add("/api/v1/namespaces/mine/configmaps/inside", "r1", "u2")
	add("/api/v1/namespaces/default/configmaps/outside", "r1", "u3")
	add("/api/v1/namespaces/default/configmaps/owned", "r1", "u4", "u3")
	add("/api/v1/namespaces/default/configmaps/foreign", "", "u5")
	add("/api/v1/namespaces/default/configmaps/of-another-run", "r2", "u6")
	add("/api/v1/nodes/n", "r1", "u7")
	add("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/d.example.com", "r1", "u8")
	add("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/w", "r1", "u9")
	return s
}

func TestSweep(t *testing.T) {
	s := cluster(t)
	var mu sync.Mutex
	var deleted []string
	s.Inject(func(r *http.Request) *apitest.Injection {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodDelete {
			deleted = append(deleted, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
			if strings.HasSuffix(r.URL.Path, "/outside") { // there is no garbage collector here
				s.Remove("/api/v1/namespaces/default/configmaps/owned")
			}
		}
		if strings.Contains(r.URL.Path, "/secrets") {
			return &apitest.Injection{Code: http.StatusForbidden}
		}
		return nil
	})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	found, unread, err := cleanup.Look{Client: client, Run: "r1"}.Find(t.Context())
	if err != nil || len(found) != 7 || !strings.Contains(fmt.Sprint(unread), "1 of 6 resources may not be listed by this user: secrets") {
		t.Fatalf("%v, %v, %v", found, unread, err)
	}
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute}).Sweep(t.Context(), "r1", nil); err == nil || !strings.Contains(err.Error(), "1 of 6 resources may not be listed by this user: secrets") {
		t.Errorf("what could not be looked at is not said: %v", err)
	}
	s.Inject(nil)
	deleted = slices.DeleteFunc(deleted, func(name string) bool { return name == "inside" }) // its namespace ends it, or a second look does
	deleted = slices.Compact(deleted)                                                        // one that takes its time to go is deleted again
	slices.Sort(deleted[1:3])
	if want := []string{"w", "mine", "outside", "n", "d.example.com"}; !slices.Equal(deleted, want) {
		t.Errorf("deleted %v, want %v", deleted, want)
	}
	for _, path := range []string{"/api/v1/namespaces/default/configmaps/foreign", "/api/v1/namespaces/default/configmaps/of-another-run"} {
		if s.Get(path) == nil {
			t.Errorf("%s is gone", path)
		}
	}
	if all, _, _ := (cleanup.Look{Client: client, Run: ""}).Find(t.Context()); len(all) != 1 || all[0].String() != "configmaps default/of-another-run" {
		t.Errorf("there are %v", all)
	}
}

// TestFindLooksWhereItMay has a user who may list in one namespace alone.
func TestFindLooksWhereItMay(t *testing.T) {
	s := cluster(t)
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/api/v1/") && r.URL.Path != "/api/v1/namespaces/default/configmaps" {
			return &apitest.Injection{Code: http.StatusForbidden}
		}
		return nil
	})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	found, unread, err := cleanup.Look{Client: client, Run: "r2", Namespaces: []string{"none", "default"}}.Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Name != "of-another-run" || unread == nil || !strings.Contains(unread.Error(), "3 of 6 resources may not be listed by this user: namespaces, nodes, secrets") {
		t.Errorf("%v, %v, %v", found, unread, err)
	}
	if _, unread, _ := (cleanup.Look{Client: client, Run: "r2", Namespaces: []string{"default"}, Exact: true}).Find(t.Context()); unread != nil {
		t.Errorf("what is not for this user to read is missed: %v", unread)
	}
}

// TestNobodyIsWaitedForAfterAKill has objects of a run whose controllers died with it: of a
// kind that the run has defined, which a webhook of the run guards as well, and of another.
func TestNobodyIsWaitedForAfterAKill(t *testing.T) {
	s := apitest.New(t,
		apitest.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"},
		apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
		apitest.Resource{Version: "apiextensions.k8s.io/v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"},
		apitest.Resource{Version: "example.com/v1", Plural: "members", Kind: "Any"},
	)
	const member, theirs = "/apis/example.com/v1/members/a", "/api/v1/namespaces/default/configmaps/b"
	for path, finalizers := range map[string][]string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/members.example.com": nil,
		member: {"example.com/controller"},
		theirs: {"example.org/controller"},
	} {
		s.Add(path, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: path[strings.LastIndex(path, "/")+1:], UID: types.UID(path), Labels: map[string]string{object.RunLabel: "r1"}, Finalizers: finalizers}})
		labelBy(s, path, "windtunnel-load")
	}
	var refusals, patches atomic.Int64
	s.Inject(func(r *http.Request) *apitest.Injection {
		switch {
		case r.Method != http.MethodPatch:
		case r.URL.Path != member:
			patches.Add(1)
		case refusals.Add(1) < 3: // the webhook is dead, and its end not known yet
			return &apitest.Injection{Code: http.StatusInternalServerError}
		}
		if r.Method == http.MethodGet && r.URL.Path == theirs {
			go s.Remove(theirs) // its controller lets it go
		}
		return nil
	})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute, Orphaned: true}).Sweep(t.Context(), "r1", nil); err != nil {
		t.Error(err)
	}
	if found, _, _ := (cleanup.Look{Client: client, Run: "r1"}).Find(t.Context()); len(found) != 0 || patches.Load() > 0 {
		t.Errorf("there are %v, after %d patches of what is not the run's to release", found, patches.Load())
	}
}

// TestWhatDeadControllersMade has objects without a label: one of a kind that a killed run has
// defined, what that owns over another object, and what only looks like it.
func TestWhatDeadControllersMade(t *testing.T) {
	s := apitest.New(t,
		apitest.Resource{Version: "v1", Plural: "nodes", Kind: "Node"},
		apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
		apitest.Resource{Version: "apiextensions.k8s.io/v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"},
		apitest.Resource{Version: "example.com/v1", Plural: "claims", Kind: "Any"},
	)
	const definition, claim, node = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/claims.example.com", "/apis/example.com/v1/claims/a", "/api/v1/nodes/made"
	const between, unowned, held = "/api/v1/namespaces/default/configmaps/between", "/api/v1/nodes/unowned", "/api/v1/nodes/held"
	for path, m := range map[string]metav1.ObjectMeta{
		definition: {Labels: map[string]string{object.RunLabel: "r1"}},
		claim:      {Finalizers: []string{"example.com/termination"}},
		between:    {OwnerReferences: []metav1.OwnerReference{{UID: claim}}},
		node:       {Finalizers: []string{"sub.example.com/node", "example.org/other"}, OwnerReferences: []metav1.OwnerReference{{UID: between}}},
		unowned:    {Finalizers: []string{"example.com/node"}},
		held:       {Finalizers: []string{"notexample.com/node"}, OwnerReferences: []metav1.OwnerReference{{UID: claim}}},
	} {
		m.Name, m.UID = path[strings.LastIndex(path, "/")+1:], types.UID(path)
		s.Add(path, metav1.PartialObjectMetadata{ObjectMeta: m})
	}
	labelBy(s, definition, "windtunnel-load")
	var mu sync.Mutex
	changed, kept := map[string]bool{}, ""
	s.Inject(func(r *http.Request) *apitest.Injection {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodGet {
			changed[r.URL.Path] = true
		}
		if o := s.Get(node); o != nil && len(o.GetFinalizers()) == 1 {
			kept = o.GetFinalizers()[0]
			s.Remove(node) // whose finalizer that is lets it go
		}
		return nil
	})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute, Orphaned: true}).Sweep(t.Context(), "r1", nil); err != nil {
		t.Error(err)
	}
	if s.Get(definition) != nil || s.Get(claim) != nil || s.Get(node) != nil || kept != "example.org/other" {
		t.Errorf("definition %v, claim %v, node %v, whose finalizer %q was kept", s.Get(definition), s.Get(claim), s.Get(node), kept)
	}
	if len(changed) != 3 || !changed[definition] || !changed[claim] || !changed[node] {
		t.Errorf("changed %v", changed)
	}
}

// TestPodsOfDeletedNodesEndAtOnce has a pod on a node of a killed run and one on a node with a
// kubelet: only the first is deleted without a grace period, and after it was deleted as usual.
func TestPodsOfDeletedNodesEndAtOnce(t *testing.T) {
	s := apitest.New(t,
		apitest.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, apitest.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true},
	)
	const ours, theirs = "/api/v1/namespaces/default/pods/ours", "/api/v1/namespaces/default/pods/theirs"
	of := map[string]string{object.RunLabel: "r1"}
	s.AddNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "simulated", Labels: of}})
	labelBy(s, "/api/v1/nodes/simulated", "windtunnel-fleet")
	for path, node := range map[string]string{ours: "simulated", theirs: "real"} {
		pod := apitest.Pod(path[strings.LastIndex(path, "/")+1:], node)
		pod.Labels = of
		s.AddPod(pod)
		labelBy(s, path, "windtunnel-load")
	}
	s.Inject(func(r *http.Request) *apitest.Injection {
		if o := s.Get(theirs); o != nil && o.GetDeletionTimestamp() != nil && r.URL.Path == theirs {
			go s.Remove(theirs) // its kubelet has ended it
		}
		return nil
	})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute, Orphaned: true}).Sweep(t.Context(), "r1", nil); err != nil {
		t.Error(err)
	}
	if pods, last := s.Pods(), s.Body("DELETE "+theirs); len(pods) != 0 || strings.Contains(last, "gracePeriodSeconds") {
		t.Errorf("%d pods are left; the one with a kubelet was deleted with %s", len(pods), last)
	}
}

// busy is a client whose server fails once in discovery: of the groups, and, when an object is
// gone, of one API.
type busy struct {
	discovery.Doer
	gone          func() bool
	groups, later atomic.Int64
}

func (b *busy) Do(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	switch path, _, _ := strings.Cut(req.Path, "?"); {
	case path == "/apis" && b.groups.Add(1) == 1:
		return nil, errors.New("no answer in time")
	case path == "/apis/apiextensions.k8s.io/v1" && b.gone() && b.later.Add(1) == 1:
		return &wire.Response{Code: http.StatusServiceUnavailable}, nil
	}
	return b.Doer.Do(ctx, req)
}

// TestASweepOutlastsABusyServer has discovery fail at first, and an API that is unavailable for
// a moment after the run's objects are gone.
func TestASweepOutlastsABusyServer(t *testing.T) {
	const ours = "/api/v1/namespaces/default/configmaps/ours"
	s := cluster(t)
	s.Add(ours, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "ours", Labels: map[string]string{object.RunLabel: "r1"}}})
	labelBy(s, ours, "windtunnel-load")
	client := &busy{Doer: apitest.Client(t, s.Endpoint(), clock.Start()), gone: func() bool { return s.Get(ours) == nil }}
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute}).Sweep(t.Context(), "r1", nil); err != nil {
		t.Error(err)
	}
	if !client.gone() || client.groups.Load() < 2 || client.later.Load() < 2 {
		t.Errorf("gone %t; the groups were asked for %d times, the API %d times", client.gone(), client.groups.Load(), client.later.Load())
	}
}
