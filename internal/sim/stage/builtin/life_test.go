package builtin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

func together(t *testing.T, names ...string) *machine.Machine {
	t.Helper()
	var all []*kwok.Stage
	for _, name := range names {
		f := repotest.Must(builtin.Load(name))(t)
		all = append(all, f.Stages...)
	}
	return repotest.Must(machine.Compile(all))(t)
}

// world applies what stages ask for as an API server does.
type world struct {
	t    *testing.T
	m    *machine.Machine
	now  time.Time
	rng  *rand.Rand
	pod  []byte // nil when it is gone
	told []string
}

// step plays one stage; false when none matches.
func (w *world) step() bool {
	w.t.Helper()
	if w.pod == nil {
		return false
	}
	tree := repotest.Must(machine.Decode(w.pod))(w.t)
	c := repotest.Must(w.m.Match(tree, w.now, w.rng))(w.t)
	if c.Stage == nil {
		return false
	}
	w.now = w.now.Add(c.Delay)
	ip := func(...any) (any, error) { return []any{"10.0.0.1"}, nil }
	env := &machine.Env{Now: w.now, Rand: w.rng, Functions: map[string]render.Function{"NodeIPsWith": ip, "PodIPsWith": ip}}
	for i := range c.Stage.Steps() {
		effects := repotest.Must(c.Stage.Play(i, tree, env))(w.t)
		for _, e := range effects {
			w.apply(e)
		}
	}
	w.told = append(w.told, fmt.Sprintf("%s %s", c.Stage.Name(), w.look()))
	return true
}

func (w *world) apply(e machine.Effect) {
	w.t.Helper()
	switch e.Kind {
	case machine.Delete:
		w.pod = nil
	case machine.Patch:
		if e.Type != machine.StrategicPatch {
			w.t.Fatalf("a patch of type %s", e.Type)
		}
		var err error
		if w.pod, err = strategicpatch.StrategicMergePatch(w.pod, e.Body, corev1.Pod{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// look writes a pod's state in one line: phase, then each container.
func (w *world) look() string {
	if w.pod == nil {
		return "gone"
	}
	var p corev1.Pod
	repotest.NoError(w.t, json.Unmarshal(w.pod, &p))
	out := string(p.Status.Phase)
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		state := "waits"
		if c.State.Running != nil {
			state = "runs"
		} else if e := c.State.Terminated; e != nil {
			state = fmt.Sprint("ended:", e.ExitCode)
		}
		out += fmt.Sprintf(" %s=%s", c.Name, state)
		if c.RestartCount > 0 {
			out += fmt.Sprintf("x%d", c.RestartCount)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			out += " Ready"
		}
	}
	return out
}

// TestLives follows pods through the set general: init containers one after
// another, sidecars, probes, Jobs, failures and restarts.
func TestLives(t *testing.T) {
	m := together(t, "general", "chaos")
	for name, c := range map[string]struct {
		pod  string
		want []string
		most int // of stages to play; 0 until none matches
	}{
		"plain": {pod: `"spec":{"containers":[{"name":"a","image":"i"}]}`, want: []string{
			"pod-create Pending a=waits", "pod-start Running a=runs Ready",
		}},
		"init containers": {
			pod: `"spec":{"initContainers":[{"name":"x","image":"i"},{"name":"s","image":"i","restartPolicy":"Always"},{"name":"y","image":"i"}],
				"containers":[{"name":"a","image":"i","readinessProbe":{"initialDelaySeconds":3}}]}`,
			want: []string{
				"pod-create Pending x=waits s=waits y=waits a=waits",
				"pod-init-start Pending x=runs s=waits y=waits a=waits",
				"pod-init-complete Pending x=ended:0 s=waits y=waits a=waits",
				"pod-init-start Pending x=ended:0 s=runs y=waits a=waits",
				"pod-init-start Pending x=ended:0 s=runs y=runs a=waits",
				"pod-init-complete Pending x=ended:0 s=runs y=ended:0 a=waits",
				"pod-start Running x=ended:0 s=runs y=ended:0 a=runs",
				"pod-ready Running x=ended:0 s=runs y=ended:0 a=runs Ready",
			},
		},
		"a Job's": {
			pod:  `"metadata":{"ownerReferences":[{"kind":"Job"}]},"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}`,
			want: []string{"pod-create Pending a=waits", "pod-start Running a=runs Ready", "pod-complete Succeeded a=ended:0"},
		},
		"a failing one": {
			pod: `"metadata":{"annotations":{"chaos.windtunnel.dev/container-failed":"true"}},"spec":{"containers":[{"name":"a","image":"i"}]}`,
			want: []string{
				"pod-create Pending a=waits", "pod-start Running a=runs Ready",
				"pod-container-failed Running a=ended:1", "pod-restart Running a=runsx1",
				"pod-ready Running a=runsx1 Ready", "pod-container-failed Running a=ended:1x1", "pod-restart Running a=runsx2",
			},
			most: 7,
		},
		"one that fails for good": {
			pod:  `"metadata":{"annotations":{"chaos.windtunnel.dev/container-failed":"true"}},"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}`,
			want: []string{"pod-create Pending a=waits", "pod-start Running a=runs Ready", "pod-container-failed Failed a=ended:1"},
		},
		"deleted": {
			pod:  `"metadata":{"deletionTimestamp":"2026-01-02T03:04:35Z"},"spec":{"containers":[{"name":"a","image":"i"}]}`,
			want: []string{"pod-delete gone"},
		},
	} {
		w := &world{t: t, m: m, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), rng: rand.New(rand.NewPCG(1, 1))}
		w.pod = []byte(`{"apiVersion":"v1","kind":"Pod",` + c.pod + `,"status":{"phase":"Pending"}}`)
		for len(w.told) < 20 && (c.most == 0 || len(w.told) < c.most) && w.step() {
		}
		if got, want := strings.Join(w.told, "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestBackoff shows how long a container that goes on failing waits.
func TestBackoff(t *testing.T) {
	m := together(t, "general")
	for restarts, want := range map[int]time.Duration{
		0: 10 * time.Second, 1: 20 * time.Second, 4: 160 * time.Second, 5: 300 * time.Second, 90: 300 * time.Second,
	} {
		pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","spec":{},"status":{"phase":"Running","containerStatuses":[`+
			`{"name":"a","restartCount":%d,"state":{"terminated":{"exitCode":1}}},{"name":"b","restartCount":99,"state":{"running":{}}}]}}`, restarts)
		tree := repotest.Must(machine.Decode([]byte(pod)))(t)
		if c, err := m.Match(tree, time.Time{}, nil); err != nil || c.Stage == nil || c.Delay != want {
			t.Errorf("%d restarts: %+v, %v", restarts, c, err)
		}
	}
}
