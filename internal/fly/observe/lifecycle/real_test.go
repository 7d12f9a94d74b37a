package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},
"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// real is a real plane with a client of it.
type real struct {
	t *testing.T
	*plane.Plane
	client *wire.Client
	clock  clock.Clock
}

func startReal(t *testing.T, o plane.Options) *real {
	t.Helper()
	path := repotest.Binary(t)
	o.LogDir, o.Executable = t.TempDir(), path
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, o))(t)
	t.Cleanup(func() { _ = p.Close() })
	r := &real{t: t, Plane: p, clock: clock.Start()}
	r.client = r.dial(plane.Load)
	return r
}

func (r *real) dial(who string) *wire.Client {
	r.t.Helper()
	c := repotest.Must(wire.New(r.Endpoint(who), wire.Options{Clock: r.clock}))(r.t)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// do asks until the server takes it, and returns what it answered.
func (r *real) do(method, path, body string) map[string]any {
	for ctx := r.t.Context(); ctx.Err() == nil; {
		kind := "application/json"
		if method == http.MethodPatch {
			kind = "application/merge-patch+json"
		}
		answer, err := r.client.Do(ctx, &wire.Request{Method: method, Path: path, Body: []byte(body), ContentType: kind, Timeout: 5 * time.Second})
		switch {
		case err == nil && (answer.Code < 300 || method == http.MethodDelete && answer.Code == 404):
			var out map[string]any
			_ = json.Unmarshal(answer.Body, &out)
			return out
		case err == nil && answer.Code == 409: // an answer was lost: it is there
			return r.do(http.MethodGet, path+"/"+name(body), "")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func name(body string) string {
	var o struct{ Metadata struct{ Name string } }
	_ = json.Unmarshal([]byte(body), &o)
	return o.Metadata.Name
}

func uid(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	text, _ := metadata["uid"].(string)
	return text
}

// list returns the UIDs of all objects of a collection.
func (r *real) list(path string) []string {
	var out []string
	items, _ := r.do(http.MethodGet, path, "")["items"].([]any)
	for _, one := range items {
		out = append(out, uid(one.(map[string]any)))
	}
	return out
}

// seenLifecycle is what the records say of one object.
type seenLifecycle struct {
	record.Object
	phases map[string]int
	within time.Duration // the most
}

// read returns the lifecycles of a name by UID, and the objects that are there twice.
func read(t *testing.T, path, name string) (lifecycles map[string]*seenLifecycle, doubled []string) {
	t.Helper()
	lifecycles = map[string]*seenLifecycle{}
	byID := map[record.ObjectID]*seenLifecycle{}
	repotest.Must(record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Phase: func(p record.Phase) {
			o := s.Objects[p.Object]
			if o.Lifecycle != name {
				return
			}
			if byID[p.Object] == nil {
				byID[p.Object] = &seenLifecycle{Object: o, phases: map[string]int{}}
				if lifecycles[o.UID] != nil {
					doubled = append(doubled, o.Name)
				}
				lifecycles[o.UID] = byID[p.Object]
			}
			byID[p.Object].phases[p.Phase]++
			byID[p.Object].within = max(byID[p.Object].within, p.Within)
		}}
	}))(t)
	return lifecycles, doubled
}

// alive are the UIDs of lifecycles that did not end.
func alive(lifecycles map[string]*seenLifecycle) []string {
	var out []string
	for uid, l := range lifecycles {
		if l.phases[record.PhaseDeleted] == 0 {
			out = append(out, uid)
		}
	}
	return out
}

// TestLivesAgreeWithAFinalList: custom resources and Jobs are made, changed,
// deleted and made again under the same name while the API server is killed and
// started again and connections are cut. Each object has one lifecycle, each phase
// is there at most once, and those that live are those that a list shows.
func TestLivesAgreeWithAFinalList(t *testing.T) {
	r := startReal(t, plane.Options{Proxies: []string{plane.Observe}})
	path := filepath.Join(t.TempDir(), "r.wt")
	records := repotest.Must(record.Create(path))(t)
	lifecycles := []scenario.Lifecycle{
		scenario.Lifecycle{Use: "job"}.Resolved(),
		scenario.Lifecycle{Name: "widget", Of: "example.org/v1 Widget",
			Links:  []scenario.Link{{Name: "part", Of: "configmaps", By: "label", Label: "widget"}},
			Phases: []scenario.Phase{{Name: "hasPart", On: "part"}, {Name: "busy", When: `self.status.phase in ["Busy", "Done"]`}, {Name: "done", When: "{.status.phase}=Done"}, {Name: "partGone", On: "part", Deleted: true}},
		}.Resolved(),
	}
	probe := lifecycle.NewProbe(records, r.clock)
	d := repotest.Must(lifecycle.Declare(records, r.clock, probe, lifecycles))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	watching := r.dial(plane.Observe)
	var wait sync.WaitGroup
	aside := r.dial(plane.Admin)
	wait.Go(func() { probe.Run(ctx, aside) })
	wait.Go(func() { d.Run(ctx, watching, discovery.New(watching)) })
	if err := d.Synced(ctx); err != nil { // widgets are not served yet
		t.Fatal(err)
	}
	r.do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets)
	const collection = "/apis/example.org/v1/namespaces/default/widgets"
	r.do(http.MethodGet, collection, "")
	repotest.NoError(t, d.Synced(ctx))
	made := r.churn(collection)
	live := r.settle(path, collection)
	// While all was cut and changed at once each sample may be late, on a busy machine.
	repotest.Eventually(t, "the probe sees that the watch of widgets keeps up", func() bool {
		r.do(http.MethodPatch, collection+"/"+made[live[0]].name, fmt.Sprintf(`{"metadata":{"annotations":{"at":"%d"}}}`, r.clock.Now()))
		return slices.ContainsFunc(lagsOf(t, path, "widgets.example.org"), func(lag float64) bool { return lag <= 0.1 })
	})
	stop()
	wait.Wait()
	repotest.NoError(t, records.Close())
	seen, doubled := read(t, path, "widget")
	if len(doubled) > 0 {
		t.Errorf("there twice: %v", doubled)
	}
	censored := 0
	interrupted := gaps(t, path, "widgets.example.org")
	for uid, m := range made {
		l := seen[uid]
		if l == nil {
			if !slices.ContainsFunc(interrupted, m.inside) {
				t.Errorf("%s (%s) was made and never seen", m.name, uid)
			}
			continue
		}
		for phase, n := range l.phases {
			if n > 1 {
				t.Errorf("%s was %s %d times", l.Name, phase, n)
			}
		}
		if l.phases["created"] != 1 || slices.Contains(live, uid) && (l.phases["done"] != 1 || l.phases["hasPart"] != 1) {
			t.Errorf("%s: %v", l.Name, l.phases)
		}
		if l.within > 0 {
			censored++
		}
	}
	if got := alive(seen); !equal(got, live) {
		t.Errorf("%d widgets live by the records, %d by a list", len(got), len(live))
	}
	jobs, doubled := read(t, path, "job")
	if got := alive(jobs); !equal(got, r.list("/apis/batch/v1/jobs")) || len(got) != 20 || len(doubled) > 0 {
		t.Errorf("%d jobs live by the records; twice: %v", len(got), doubled)
	}
	for _, j := range jobs {
		if j.phases["started"] != 1 || j.phases["complete"] != 1 || j.phases["failed"] != 0 {
			t.Errorf("job %s: %v", j.Name, j.phases)
		}
	}
	t.Logf("%d lifecycles of widgets, %d at the end, %d with phases that are known within bounds only", len(seen), len(live), censored)
}

// lagsOf are the samples of how late the watch of a resource was.
func lagsOf(t *testing.T, path, resource string) (out []float64) {
	t.Helper()
	repotest.Must(record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Sample: func(v record.Sample) {
			if one := s.Series[v.Series]; one.Name == lifecycle.LagSeconds && one.Labels[0].Value == resource {
				out = append(out, v.Value)
			}
		}}
	}))(t)
	return out
}

// made is one widget: when it was asked for, and when its deletion was answered.
type made struct {
	name     string
	from, to clock.Time // to is 0 where it was not deleted
}

// inside tells whether a widget came and went while the watch was interrupted.
func (m made) inside(gap [2]clock.Time) bool { return m.to > 0 && m.to >= gap[0] && m.from <= gap[1] }

// gaps are the times when a watch was interrupted.
func gaps(t *testing.T, path, resource string) (out [][2]clock.Time) {
	t.Helper()
	repotest.Must(record.Read(path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(m record.Event) {
			if m.Type != record.EventWatchGap || m.Name != resource {
				return
			}
			t.Logf("interrupted at %.3f s for %v: %s", m.At.Seconds(), m.For, m.Text)
			out = append(out, [2]clock.Time{m.At - clock.Time(m.For), m.At})
		}}
	}))(t)
	return out
}

func equal(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// churn makes widgets with a part each, and Jobs, changes them, deletes some
// and makes them again, while the API server is killed once and the
// instrument's connections are cut now and then. It returns all UIDs.
func (r *real) churn(collection string) map[string]*made {
	var mu sync.Mutex
	out := map[string]*made{}
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 60 {
				name := fmt.Sprintf("w%d-%d", worker, i)
				for again := range 1 + random.IntN(2) {
					one := &made{name: name, from: r.clock.Now()}
					o := r.do(http.MethodPost, collection, fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":%q}}`, name))
					mu.Lock()
					out[uid(o)] = one
					mu.Unlock()
					r.do(http.MethodPost, "/api/v1/namespaces/default/configmaps",
						fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%d","labels":{"widget":%q}}}`, name, again, uid(o)))
					for _, phase := range []string{"Busy", "Done"} {
						r.do(http.MethodPatch, collection+"/"+name, fmt.Sprintf(`{"status":{"phase":%q}}`, phase))
					}
					if again > 0 || random.IntN(2) == 0 {
						break
					}
					r.do(http.MethodDelete, collection+"/"+name, "")
					mu.Lock()
					one.to = r.clock.Now()
					mu.Unlock()
				}
				if i%12 == 0 {
					r.do(http.MethodPost, "/apis/batch/v1/namespaces/default/jobs", fmt.Sprintf(
						`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q},"spec":{"completions":0,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`, name))
				}
			}
		})
	}
	done := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for tick := 0; ; tick++ {
			select {
			case <-done:
				return
			case <-time.After(300 * time.Millisecond):
			}
			r.Proxy(plane.Observe).Cut()
			if c, _ := r.Component("kube-apiserver"); tick == 3 {
				if err := c.Restart(r.t.Context()); err != nil {
					r.t.Errorf("restart: %v", err)
				}
			}
		}
	})
	wait.Wait()
	close(done)
	cutter.Wait()
	return out
}

// settle waits until the records have caught up with what a list shows, and
// returns the list.
func (r *real) settle(path, collection string) []string {
	live := r.list(collection)
	repotest.Eventually(r.t, "the records show what the list shows", func() bool {
		seen, _ := read(r.t, path, "widget")
		jobs, _ := read(r.t, path, "job")
		complete := 0
		for _, j := range jobs {
			complete += j.phases["complete"]
		}
		return equal(alive(seen), live) && complete == 20 && !slices.ContainsFunc(slices.Collect(maps.Values(seen)), func(l *seenLifecycle) bool {
			return l.phases["deleted"] == 0 && (l.phases["done"] == 0 || l.phases["hasPart"] == 0)
		})
	})
	return live
}
