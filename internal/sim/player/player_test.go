package player_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/player"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

const stages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: start}
spec:
  resourceRef: {apiGroup: example.org/v1, kind: Widget}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: DoesNotExist}
    - {key: .spec.manual, operator: DoesNotExist}
  delay: {durationMilliseconds: 200}
  steps:
  - event: {type: Normal, reason: Started, message: it starts}
  - finalizers: {add: [{value: example.org/hold}]}
  - patch: {root: status, template: "phase: Running\nip: {{ Quote PodIP }}"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: done}
spec:
  resourceRef: {apiGroup: example.org/v1, kind: Widget}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: .spec.quick, operator: Exists}
  steps:
  - patch: {root: status, template: "phase: Done"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: broken}
spec:
  resourceRef: {apiGroup: example.org/v1, kind: Widget}
  selector:
    matchExpressions:
    - {key: .spec.broken, operator: Exists}
    - {key: .spec.manual, operator: Exists}
  steps:
  - patch: {root: status, template: "phase: {{ index .spec.list 3 }}"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: forever}
spec:
  resourceRef: {apiGroup: example.org/v1, kind: Widget}
  selector:
    matchExpressions:
    - {key: .spec.loop, operator: Exists}
    - {key: .spec.manual, operator: Exists}
  steps:
  - patch: {root: status, template: "at: {{ Quote Now }}"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: other}
spec:
  resourceRef: {apiGroup: example.org/v1, kind: Widget}
  selector:
    matchExpressions:
    - {key: .spec.apply, operator: Exists}
    - {key: .spec.manual, operator: Exists}
    - {key: .status.phase, operator: DoesNotExist}
  steps:
  - apply:
      template: |
        apiVersion: example.org/v1
        kind: Gadget
        metadata: {name: {{ .metadata.name }}-made}
  - patch: {root: status, template: "phase: Bound"}
`

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), s)
}

// start starts a player of the stages above.
func start(t *testing.T, change func(*player.Options)) (*player.Player, server, *lines) {
	t.Helper()
	s, c, watch := newServer(t)
	f := repotest.Must(kwok.Load("stages.yaml", []byte(stages)))(t)
	m := repotest.Must(machine.Compile(f.Stages))(t)
	r := machine.Resource{APIVersion: "example.org/v1", Kind: "Widget"}
	log := &lines{}
	o := player.Options{
		Client: c, Served: discovery.New(c), Clock: watch, Seed: 1, Resource: r, Stages: m.Stages(r), Workers: 4,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if change != nil {
		change(&o)
	}
	p := repotest.Must(player.Start(t.Context(), o))(t)
	t.Cleanup(p.Close)
	return p, s, log
}

func TestStagesPlayInOrder(t *testing.T) {
	p, s, _ := start(t, nil)
	begin := time.Now()
	s.create("a", object{"quick": true})
	s.create("b", object{})
	repotest.Eventually(t, "both", func() bool { return s.status("a", "phase") == "Done" && s.status("b", "phase") == "Running" })
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("after %v: the delay is 200 ms", took)
	}
	if f := fmt.Sprint(s.Get(widgets + "b").GetFinalizers()); f != "[example.org/hold]" {
		t.Errorf("finalizers %s", f)
	}
	e, n := s.events()[0].Object, len(s.events())
	if about := e["involvedObject"].(object); n != 2 || e["reason"] != "Started" || about["kind"] != "Widget" || about["uid"] == "" {
		t.Errorf("%d events, the first %v", n, e)
	}
	repotest.Eventually(t, "nothing is kept of objects at rest", func() bool { return p.Stats().Objects == 0 })
	if st := p.Stats(); st.Played != 3 || st.Dropped+st.Faults+st.Retries != 0 || st.StageLag <= 0 || st.SendLag > st.StageLag {
		t.Errorf("%+v", st)
	}
}

// TestWhatTheServerRefuses: nothing is lost, whatever is answered, and a step
// that was done is not done again.
func TestWhatTheServerRefuses(t *testing.T) {
	for _, code := range []int{429, 500, 503, 409, 408} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			p, s, _ := start(t, nil)
			s.refuse("PATCH /apis/example.org/v1/namespaces/ns/widgets/a", code)
			s.create("a", object{"quick": true})
			repotest.Eventually(t, "done", func() bool { return s.status("a", "phase") == "Done" })
			if n := len(s.events()); n != 1 {
				t.Errorf("%d events: the retry began at the first step again", n)
			}
			if st := p.Stats(); st.Retries != 1 || st.Dropped != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
	t.Run("422", func(t *testing.T) {
		p, s, log := start(t, nil)
		s.refuse("PATCH", 422)
		s.create("a", object{})
		repotest.Eventually(t, "dropped", func() bool { return p.Stats().Dropped == 1 })
		repotest.Eventually(t, "said", func() bool { return log.has("refused on purpose") && log.has("stage start") })
	})
}

func TestObjectsAtFaultAreLeftAlone(t *testing.T) {
	p, s, log := start(t, nil)
	s.create("bad", object{"broken": true, "manual": true, "list": []any{}})
	repotest.Eventually(t, "counted", func() bool { return p.Stats().Faults == 1 })
	repotest.Eventually(t, "named", func() bool {
		return log.has("stages.yaml:") && log.has("stage broken: spec.steps[0].patch.template") && log.has("ns/bad")
	})
	s.create("loop", object{"loop": true, "manual": true})
	repotest.Eventually(t, "loop", func() bool { return p.Stats().Loops == 1 })
	const patches = "PATCH /apis/example.org/v1/namespaces/ns/widgets/loop"
	calls := s.Count(patches)
	repotest.Eventually(t, "named", func() bool { return log.has("stage forever: spec.selector") && log.has("ns/loop") })
	s.create("good", object{"quick": true})
	repotest.Eventually(t, "others play on", func() bool { return s.status("good", "phase") == "Done" })
	if n := s.Count(patches); n != calls || n > 60 {
		t.Errorf("%d patches, then %d: it goes on", calls, n)
	}
}

func TestApplyMakesOtherObjects(t *testing.T) {
	_, s, _ := start(t, nil)
	s.create("a", object{"apply": true, "manual": true})
	repotest.Eventually(t, "bound", func() bool { return s.status("a", "phase") == "Bound" })
	if s.Get("/apis/example.org/v1/namespaces/ns/gadgets/a-made") == nil {
		t.Error("the gadget was not made")
	}
	// The second time it exists and is patched.
	s.remove("a")
	s.create("a", object{"apply": true, "manual": true})
	repotest.Eventually(t, "patched", func() bool {
		return s.status("a", "phase") == "Bound" && s.Count("PATCH /apis/example.org/v1/namespaces/ns/gadgets/a-made") == 1
	})
}

func TestNothingIsLostWhenTheWatchTears(t *testing.T) {
	p, s, _ := start(t, nil)
	s.create("before", object{"quick": true})
	s.CutWatches() // and while they are, one comes and one goes, and it is forgotten
	s.create("during", object{"quick": true})
	s.create("short", object{"quick": true})
	s.remove("short")
	s.Compact()
	repotest.Eventually(t, "all", func() bool { return s.status("before", "phase") == "Done" && s.status("during", "phase") == "Done" })
	repotest.Eventually(t, "rest", func() bool { return p.Stats().Objects == 0 })
	if p.Stats().Relists == 0 {
		t.Error("no list after 410")
	}
	if s.Count("PATCH /apis/example.org/v1/namespaces/ns/widgets/short") != 0 {
		t.Error("played on what was gone")
	}
}

func TestDeletedWhileWaiting(t *testing.T) {
	var mu sync.Mutex
	gone := map[string]int{}
	p, s, _ := start(t, func(o *player.Options) {
		o.Deleted = func(uid string) { mu.Lock(); gone[uid]++; mu.Unlock() }
	})
	for i := range 20 {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		before := time.Now()
		s.create(a, object{})
		uid := string(s.Get(widgets + a).GetUID())
		repotest.Eventually(t, "waits or has played", func() bool { return p.Stats().Waiting == 1 || s.status(a, "phase") != "" })
		s.remove(a)
		repotest.Eventually(t, "forgotten", func() bool { return p.Stats().Objects == 0 })
		if time.Since(before) > 200*time.Millisecond {
			continue // its stage was due before it was gone
		}
		s.create(b, object{}) // whose stage is due later than that of a was
		repotest.Eventually(t, "b plays", func() bool { return s.status(b, "phase") == "Running" })
		mu.Lock()
		defer mu.Unlock()
		if n := s.Count("PATCH /apis/example.org/v1/namespaces/ns/widgets/" + a); n != 0 || gone[uid] != 1 {
			t.Errorf("%d patches, gone %v", n, gone)
		}
		return
	}
	t.Skip("the machine shows no deletion within 200 ms")
}

func TestHeldAndSlower(t *testing.T) {
	var mu sync.Mutex
	hold, asked := true, 0
	_, s, _ := start(t, func(o *player.Options) {
		o.Held = func(player.Object) bool { mu.Lock(); defer mu.Unlock(); asked++; return hold }
		o.Slower = func(player.Object) time.Duration { return 300 * time.Millisecond }
	})
	begin := time.Now()
	s.create("a", object{})
	repotest.Eventually(t, "held", func() bool { mu.Lock(); defer mu.Unlock(); return asked == 2 })
	if took := time.Since(begin); took < 500*time.Millisecond {
		t.Errorf("due after %v: the stage waits 200ms, the slow node 300ms more", took)
	}
	if s.Count("PATCH") != 0 {
		t.Error("played while held")
	}
	mu.Lock()
	hold = false
	mu.Unlock()
	repotest.Eventually(t, "played", func() bool { return s.status("a", "phase") == "Running" })
}

// TestHeldIsNotLate: what was held is due when it is let go.
func TestHeldIsNotLate(t *testing.T) {
	dir := t.TempDir()
	w := repotest.Must(record.Create(filepath.Join(dir, "records.wt")))(t)
	var hold atomic.Bool
	hold.Store(true)
	var watch clock.Clock
	p, s, _ := start(t, func(o *player.Options) {
		watch = o.Clock
		o.Records, o.Held = w, func(player.Object) bool { return hold.Load() }
	})
	s.create("a", object{})
	held := p.Stats // it is looked at again after a second
	repotest.Eventually(t, "held", func() bool { return held().Waiting == 1 && held().Playing == 0 && held().Events > 0 })
	repotest.NoError(t, clock.Sleep(t.Context(), 1500*time.Millisecond))
	released := watch.Now()
	hold.Store(false)
	repotest.Eventually(t, "played", func() bool { return p.Stats().Played == 1 })
	p.Close()
	repotest.NoError(t, w.Close())
	if _, err := record.Read(filepath.Join(dir, "records.wt"), func(*record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) {
			if c.Due < released {
				t.Errorf("a call was due at %v, before its node spoke again at %v", c.Due, released)
			}
		}}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestCallsAreRecordedFromWhenTheyWereDue(t *testing.T) {
	dir := t.TempDir()
	w := repotest.Must(record.Create(filepath.Join(dir, "records.wt")))(t)
	p, s, _ := start(t, func(o *player.Options) { o.Records = w })
	s.create("a", object{})
	repotest.Eventually(t, "played", func() bool { return p.Stats().Played == 1 })
	p.Close()
	repotest.NoError(t, w.Close())
	raw := calls(t, filepath.Join(dir, "records.wt"))
	want := []string{"fleet create events ok", "fleet patch widgets.example.org ok", "fleet patch widgets.example.org ok"}
	if fmt.Sprint(raw) != fmt.Sprint(want) {
		t.Errorf("recorded %v, want %v", raw, want)
	}
}

func TestResourceThatIsNotServed(t *testing.T) {
	_, c, watch := newServer(t)
	r := machine.Resource{APIVersion: "example.org/v1", Kind: "Thing"}
	_, err := player.Start(t.Context(), player.Options{Client: c, Served: discovery.New(c), Clock: watch, Resource: r})
	if !errors.Is(err, discovery.ErrNotServed) || !strings.Contains(err.Error(), "Thing of example.org/v1") {
		t.Errorf("err = %v", err)
	}
}

func TestResourceThatMayNotBeListed(t *testing.T) {
	s, c, watch := newServer(t)
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.URL.Path == "/apis/example.org/v1/widgets" {
			return &apitest.Injection{Code: 403}
		}
		return nil
	})
	r := machine.Resource{APIVersion: "example.org/v1", Kind: "Widget"}
	_, err := player.Start(t.Context(), player.Options{Client: c, Served: discovery.New(c), Clock: watch, Resource: r})
	if err == nil || !strings.Contains(err.Error(), "play stages on widgets.example.org: follow") || !strings.Contains(err.Error(), "403") {
		t.Errorf("err = %v", err)
	}
}

// calls reads the calls of a record stream.
func calls(t *testing.T, path string) (out []string) {
	t.Helper()
	repotest.Must(record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) {
			op := s.Ops[c.Op]
			if c.Due > c.Sent || c.Sent > c.Done || c.Due == 0 {
				t.Errorf("times %v %v %v", c.Due, c.Sent, c.Done)
			}
			out = append(out, fmt.Sprintf("%s %s %s %v", op.Source, op.Verb, op.Resource, c.Outcome))
		}}
	}))(t)
	return out
}

// TestLongDelaysKeepNoObject: an object whose stage is due in an hour is read
// again then; here the hour passes at once.
func TestLongDelaysKeepNoObject(t *testing.T) {
	p, s, _ := start(t, func(o *player.Options) {
		o.Slower = func(player.Object) time.Duration { return time.Hour }
	})
	s.create("a", object{})
	repotest.Eventually(t, "waits", func() bool { return p.Stats().Waiting == 1 })
	if n := player.Kept(p); n != 0 {
		t.Errorf("%d bytes are kept for an hour", n)
	}
	s.refuse("GET /apis/example.org/v1/namespaces/ns/widgets/a", 503)
	player.Hurry(p)
	repotest.Eventually(t, "played", func() bool { return s.status("a", "phase") == "Running" })
	if n := s.Count("GET /apis/example.org/v1/namespaces/ns/widgets/a"); n != 2 || p.Stats().Retries != 1 {
		t.Errorf("%d reads, %d retries", n, p.Stats().Retries)
	}
}
