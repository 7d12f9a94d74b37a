package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// sources render bodies that are plain JSON: KIND of a Deployment with .replicas.
func sources() plan.Sources {
	return plan.Sources{
		Render: func(body, name, _ string, with map[string]any) ([]byte, error) {
			object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
			switch body {
			case "deployment":
				object["apiVersion"], object["kind"] = "apps/v1", "Deployment"
				object["spec"] = map[string]any{"replicas": with["replicas"], "template": map[string]any{}}
			case "broken":
				return nil, errors.New("broken")
			case "odd":
				return []byte(`{}`), nil
			case "part":
				return []byte(`{"kind": "Deployment", "spec": {"replicas": 0.8}}`), nil
			}
			return json.Marshal(object)
		},
		Times: func(file string) ([]time.Duration, error) {
			if file != "due.txt" {
				return nil, os.ErrNotExist
			}
			return []time.Duration{0, time.Second, 5 * time.Second}, nil
		},
	}
}

func parse(t *testing.T, steps string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("f", []byte("scenario: x\nnamespaces: {count: 2}\nbodies: {map: {text: t}, deployment: {text: t}, broken: {text: t}, odd: {text: t}, part: {text: t}}\nsteps:\n"+steps), nil)
	repotest.NoError(t, err)
	return s
}

// short writes what matters of an estimate.
func short(e plan.Estimate) string {
	var out []string
	for _, c := range e.Calls {
		out = append(out, fmt.Sprintf("%d %s %s", c.Calls, c.Verb, c.Resource))
	}
	text := fmt.Sprintf("%v rate %.4g burst %d objects %d", e.Duration, e.PeakRate, e.Burst, e.Objects)
	if e.Open {
		text += " open"
	}
	if e.Unbounded {
		text += " unbounded"
	}
	if e.Pods > 0 {
		text += fmt.Sprintf(" pods %d", e.Pods)
	}
	if e.Watches > 0 {
		text += fmt.Sprintf(" watches %d", e.Watches)
	}
	for _, c := range e.Clients {
		text += fmt.Sprintf(" clients %v", c)
	}
	return text + ": " + strings.Join(out, ", ")
}

func TestOf(t *testing.T) {
	fill := "- {name: fill, create: {body: map, count: 11, pace: {constant: 10}}}\n"
	several := "- {name: several, create: {perNamespace: 4, objects: [{body: map, replicas: 3}, {body: deployment, every: 2, with: {replicas: 5}}], pace: {burst: true}}}\n"
	for _, tt := range []struct{ name, steps, want string }{
		{"create", fill, "1s rate 10 burst 0 objects 11: 11 create configmaps"},
		{"a burst", "- create: {body: map, count: 9, pace: {burst: true}}\n", "0s rate 0 burst 9 objects 9: 9 create configmaps"},
		{"within", "- create: {body: map, count: 10, pace: {within: 10s}}\n", "9s rate 1 burst 0 objects 10: 10 create configmaps"},
		{"ramp", "- create: {body: map, count: 11, pace: {ramp: {from: 0, to: 2, over: 10s}}}\n", "10s rate 2 burst 0 objects 11: 11 create configmaps"},
		{"stairs", "- create: {body: map, count: 31, pace: {steps: [{rate: 1, for: 10s}, {rate: 2}]}}\n", "20s rate 2 burst 0 objects 31: 31 create configmaps"},
		{"replay", "- create: {body: map, count: 3, pace: {replay: due.txt}}\n", "5s rate 0.4 burst 0 objects 3: 3 create configmaps"},
		{"closed", "- create: {body: map, count: 3, pace: {closed: 2}}\n", "0s rate 0 burst 0 objects 3 open: 3 create configmaps"},
		{"bundle", "- create: {body: map, count: 11, pace: {constant: 0.5, bundle: 5}}\n", "4s rate 2.5 burst 0 objects 11: 11 create configmaps"},
		{"several objects", several, "0s rate 0 burst 28 objects 52 pods 20: 24 create configmaps, 4 create deployments.apps"},
		{"per object", "- create: {perObject: true, pause: 1s, objects: [{body: map}, {body: deployment, with: {replicas: 0}}], count: 3, pace: {constant: 1}}\n",
			"7s rate 1 burst 0 objects 9: 3 create configmaps, 3 create deployments.apps"},
		{"per object in namespaces", "- create: {body: map, perObject: true, namespaces: {from: 1, to: 2, each: 3, pause: 1m}, count: 5, pace: {constant: 1}}\n",
			"1m4s rate 1 burst 0 objects 5: 5 create configmaps"},
		{"up and down", fill + "- scale: {step: fill, to: 15, pace: {constant: 1}}\n- scale: {step: fill, to: 5, pace: {constant: 1}}\n- delete: {step: fill, pace: {constant: 2}}\n",
			"15s rate 10 burst 0 objects 15: 15 create configmaps, 15 delete configmaps"},
		{"update", fill + "- update: {step: fill, pace: {constant: 10}}\n- update: {step: fill, method: put, first: 3, pace: {constant: 1}}\n",
			"4s rate 10 burst 0 objects 11: 11 create configmaps, 3 get configmaps, 11 patch configmaps, 3 update configmaps"},
		{"churn", fill + "- churn: {step: fill, percent: 20, cycles: 3, delay: 1s, pace: {constant: 1}}\n",
			"18s rate 10 burst 0 objects 11 open: 20 create configmaps, 9 delete configmaps"},
		{"churn of objects", several + "- churn: {step: several, percent: 20, perObject: true, cycles: 1, rest: 1s, pace: {constant: 2}}\n",
			"4s rate 2 burst 28 objects 52 open pods 20: 28 create configmaps, 5 create deployments.apps, 4 delete configmaps, 1 delete deployments.apps"},
		{"requests", fill + "- requests: {count: 100, pace: {constant: 100}, mix: [{verb: get, weight: 3, of: fill}, {verb: list, resource: pods}]}\n",
			"1.99s rate 100 burst 0 objects 11: 11 create configmaps, 75 get configmaps, 25 list pods"},
		{"requests for a time", "- requests: {for: 10s, pace: {constant: 10}, mix: [{verb: list, resource: deployments.v1.apps}]}\n", "10s rate 10 burst 0 objects 0: 101 list deployments.apps"},
		{"a closed pool for a time", "- requests: {for: 10s, pace: {closed: 5}, mix: [{verb: list, resource: pods}]}\n", "10s rate 0 burst 0 objects 0 unbounded: "},
		{"watches", "- requests: {for: 1m, pace: {constant: 2}, mix: [{verb: watch, resource: pods, hold: 10s}]}\n", "1m0s rate 2 burst 0 objects 0 watches 20: 121 watch pods"},
		{"clients", "- {name: a, clients: {count: 3, connections: 2, limiter: {qps: 2}}, requests: {count: 72, pace: {constant: 100}, mix: [{verb: list, resource: pods}]}}\n",
			"10s rate 100 burst 0 objects 0 clients a (step a): 3 clients with 2 connections, each limited to 2/s (burst 4), 6/s in all, less than the pace asks for: 72 list pods"},
		{"made by a mix", "- requests: {count: 5, pace: {burst: true}, mix: [{verb: create, body: map}]}\n", "0s rate 0 burst 5 objects 5: 5 create configmaps"},
		{"in parallel", "- parallel:\n  - create: {body: map, count: 11, pace: {constant: 10}}\n  - create: {body: map, count: 21, pace: {constant: 10}}\n  - pause: 5s\n- wait: {objects: pods, deleted: true}\n",
			"5s rate 20 burst 0 objects 32 open: 32 create configmaps"},
		{"branches that clean up", "- parallel:\n  - sequence: [{name: a, create: {body: map, count: 11, pace: {constant: 10}}}, {delete: {step: a, pace: {constant: 10}}}]\n  - create: {body: map, count: 5, pace: {burst: true}}\n",
			"2s rate 10 burst 5 objects 16: 16 create configmaps, 11 delete configmaps"},
	} {
		e, err := plan.Of(parse(t, tt.steps), sources())
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := short(e); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestOfWhatCannotBeRendered(t *testing.T) {
	for body, want := range map[string]string{"broken": `step "create-1": broken`, "odd": `step "create-1": body "odd": no object to plan with`, "part": `step "create-1": body "part": no object to plan with: spec.replicas is a number 0.8, want int`} {
		if _, err := plan.Of(parse(t, "- create: {body: "+body+", count: 1, pace: {burst: true}}\n"), sources()); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := plan.Of(parse(t, "- create: {body: map, count: 3, pace: {burst: true}}\n- update: {step: create-1, first: 4, pace: {burst: true}}\n"), sources()); fmt.Sprint(err) != `step "update-2": update.first: step "create-1" has no first 4, only 3` {
		t.Error(err)
	}
	if _, err := plan.Of(parse(t, "- create: {body: map, count: 9, pace: {replay: due.txt}}\n"), sources()); fmt.Sprint(err) != `step "create-1": pace.replay: due.txt has due times for 3 of 9 calls or objects` {
		t.Error(err)
	}
	if _, err := plan.Of(parse(t, "- create: {body: map, count: 1, pace: {replay: none}}\n"), sources()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestEtcd(t *testing.T) {
	object := 0.0 // bytes that etcd holds of one of our maps
	at := func(steps string) float64 {
		t.Helper()
		e := repotest.Must(plan.Of(parse(t, steps), sources()))(t)
		return float64(e.EtcdBytes)
	}
	fill := "- {name: fill, create: {body: map, count: 1000, pace: {constant: 1000}}}\n"
	object = at(fill) / 1000
	if object < plan.PageFactor*plan.MetadataBytes || object > plan.PageFactor*(plan.MetadataBytes+200) {
		t.Errorf("%.0f bytes for an object", object)
	}
	update := "- update: {step: fill, pace: {constant: 1000}}\n"
	for _, tt := range []struct {
		name, steps string
		want        float64 // objects' worth of bytes
	}{
		{"each update leaves a revision", fill + update + update + update, 4000},
		{"compaction takes them away", fill + update + "- pause: 20m\n" + update, 2000},
		{"half of a slow update is compacted at its end", fill + "- update: {step: fill, pace: {within: 20m}}\n", 1500},
		{"what is deleted stays until then", fill + "- delete: {step: fill, pace: {burst: true}}\n- {create: {body: map, count: 1000, pace: {burst: true}}}\n", 2000},
	} {
		if got := at(tt.steps) / object; got < tt.want*0.99 || got > tt.want*1.01 {
			t.Errorf("%s: %.0f objects' worth, want %.0f", tt.name, got, tt.want)
		}
	}
	if pods := at("- {create: {body: deployment, count: 1, with: {replicas: 10}, pace: {burst: true}}}\n"); pods < plan.PageFactor*4*10*plan.PodBytes {
		t.Errorf("ten pods and their %d revisions: %.0f bytes", plan.PodRevisions, pods)
	}
}

func TestUnmet(t *testing.T) {
	s := parse(t, "- {name: fill, create: {body: map, count: 5000000, pace: {constant: 1000}}}\n- requests: {count: 50000, pace: {burst: true}, mix: [{verb: watch, of: fill}]}\n")
	s.Plane.EtcdMembers, s.Plane.APIServers, s.Plane.Schedulers = 3, 3, 2
	e := repotest.Must(plan.Of(s, sources()))(t)
	tight := parse(t, "- pause: 1s\n")
	tight.Plane.Components = map[string]scenario.Component{"etcd": {Flags: map[string]string{"quota-backend-bytes": "1073741824"}}}
	for _, tt := range []struct {
		name   string
		s      *scenario.Scenario
		limits plan.Limits
		want   []string
	}{
		{"nothing is known", s, plan.Limits{}, nil},
		{"room enough", s, plan.Limits{OpenFiles: 1 << 20, Quota: 8 << 30, Data: 100 << 30, Records: 1 << 30}, nil},
		{"the quota here", s, plan.Limits{Quota: 4 << 30}, []string{"etcd would hold about", "its quota here is 4 GiB"}},
		{"the scenario's own quota", tight, plan.Limits{Quota: 4 << 30}, []string{"the scenario's quota-backend-bytes is 1 GiB"}},
		{"memory", s, plan.Limits{Data: 1 << 30, DataFolder: "/dev/shm", InMemory: true}, []string{"of memory, and /dev/shm has 1 GiB free: set plane.durability to fsync"}},
		{"disk", s, plan.Limits{Data: 1 << 30, DataFolder: "/tmp"}, []string{"and /tmp has 1 GiB free"}},
		{"records", s, plan.Limits{Records: 1 << 20, RecordsDir: "runs"}, []string{"the records of 5050000 calls", "runs has 1 MiB free"}},
		{"several of a component", s, plan.Limits{Memory: 4 << 30}, nil},
		{"too many of them", s, plan.Limits{Memory: 1 << 30}, []string{"the plane (3 of etcd, 3 of kube-apiserver, 2 of kube-scheduler: about 1.4", "than the 1 GiB that are free: make its processes fewer"}},
		{"files", s, plan.Limits{OpenFiles: 256}, []string{"open files are needed", "the limit is 256"}},
	} {
		got := e.Unmet(tt.s, tt.limits)
		if (len(got) == 0) != (tt.want == nil) || len(got) > 1 {
			t.Errorf("%s: %q", tt.name, got)
			continue
		}
		for _, part := range tt.want {
			if !strings.Contains(got[0], part) {
				t.Errorf("%s: %q does not say %q", tt.name, got[0], part)
			}
		}
	}
}

// TestSubjectsUnmet holds what is said of a machine that is too small for subjects that
// say what they need.
func TestSubjectsUnmet(t *testing.T) {
	s := repotest.Must(scenario.Parse("f", []byte(`
scenario: x
subjects:
- name: fleet
  count: 3
  windtunnel: [edge-fleet]
  needs: {memory: 200Mi, openFiles: 17000, connections: 9000}
steps:
- pause: 1s
`), nil))(t)
	e := repotest.Must(plan.Of(s, sources()))(t)
	if got, want := e.Subjects.String(), "about 600 MiB of memory, 17000 open files in one process at most, 27000 connections out"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := e.Unmet(s, plan.Limits{Memory: 1 << 30, OpenFiles: 20000, Ports: 28232}); len(got) > 0 {
		t.Errorf("a machine that is large enough: %q", got)
	}
	for want, l := range map[string]plan.Limits{
		"subjects need about 600 MiB of memory, and 500 MiB are free":                            {Memory: 500 << 20},
		"subject fleet-1 needs about 17000 open files, and a process may have 1024":              {OpenFiles: 1024},
		"subject fleet-1 needs 9000 connections from one address to another, and there are 8000": {Ports: 8000},
	} {
		if got := e.Unmet(s, l); len(got) == 0 || !strings.Contains(got[0], want) {
			t.Errorf("%+v: got %q, want %q", l, got, want)
		}
	}
}

func ExampleEstimate_Write() {
	s, err := scenario.Parse("f", []byte(`
scenario: x
bodies: {map: {text: t}}
steps:
- name: fill
  create: {body: map, count: 1201, pace: {constant: 20}}
- wait: {objects: configmaps, of: fill, condition: "true"}
- delete: {step: fill, pace: {burst: true}}
`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := plan.Of(s, plan.Sources{Render: func(_, _, _ string, _ map[string]any) ([]byte, error) {
		return []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`), nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Write(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// calls      2,402
	// duration   at least 1m0s
	// peak rate  20/s, and 1,201 at once
	// objects    about 1,201 at once
	// etcd       about 2.11 MiB
	//
	// CALLS  VERB    RESOURCE
	// 1,201  create  configmaps
	// 1,201  delete  configmaps
	//
	// STEP      VERB    BEGINS  LASTS  CALLS  RATE
	// fill      create  0s      1m0s   1,201  20/s
	// wait-2    wait    1m0s    ?      -      -
	// delete-3  delete  1m0s    0s     1,201  at once
}

// TestRoundsCountWhatWasMade: of calls that select their objects those are counted that
// the scenario's own steps have made; others may be found, so that it is at least so many.
func TestRoundsCountWhatWasMade(t *testing.T) {
	render := func(body, name, _ string, _ map[string]any) ([]byte, error) {
		return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "labels": {"body": %q}}}`, name, body), nil
	}
	const steps = `- create: {body: map, count: 20, pace: {burst: true}}
- create: {body: odd, count: 5, pace: {burst: true}}
- requests:
    rounds: 3
    pace: {burst: true}
    mix:
    - {verb: get, resource: configmaps, namespace: "*", selector: body=map}
    - {verb: delete, resource: configmaps, namespace: "*", selector: body=odd}
    - {verb: patch, resource: configmaps, namespace: "*", selector: body=none, body: map}
`
	e := repotest.Must(plan.Of(parse(t, steps), plan.Sources{Render: render}))(t)
	if got := short(e); !e.AtLeast || !strings.HasSuffix(got, ": 25 create configmaps, 15 delete configmaps, 60 get configmaps, 3 patch configmaps") {
		t.Errorf("at least: %v; %s", e.AtLeast, got)
	}
}

func TestUpgradesSayTheirOrder(t *testing.T) {
	text := "scenario: x\nplane: {release: v1.36.3, etcd: v3.6.12, etcdMembers: 3, apiservers: 2}\nfleet: {nodes: 25}\nsteps:\n" +
		"- {name: up, upgrade: {to: v1.37.1, etcd: v3.7.0, hold: 10s, between: 1s}}\n- {name: down, upgrade: {to: v1.36.3, parts: [kube-apiserver, kube-scheduler]}}\n"
	s, err := scenario.Parse("f", []byte(strings.Replace(text, "kube-scheduler]", "kube-scheduler], allowUnsupportedSkew: true", 1)), nil)
	repotest.NoError(t, err)
	e := repotest.Must(plan.Of(s, sources()))(t)
	want := "step up to v1.37.1: 3 of etcd, then 2 of kube-apiserver, then 1 of kube-controller-manager, then 1 of kube-scheduler, then 25 nodes\n" +
		"step down to v1.36.3: 1 of kube-scheduler, then 2 of kube-apiserver"
	if got := strings.Join(e.Upgrades, "\n"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := e.Steps[0]; got.Duration != 4*10*time.Second+(2+1+2)*time.Second || !got.Open || got.Verb != "upgrade" {
		t.Errorf("%+v", got)
	}
	var b strings.Builder
	if err := e.Write(&b); err != nil || !strings.Contains(b.String(), "\nupgrade    step up to v1.37.1: 3 of etcd, then ") {
		t.Errorf("%s, %v", b.String(), err)
	}
	if _, err := scenario.Parse("f", []byte(text), nil); err == nil || !strings.Contains(err.Error(), "kubelets must not be newer") {
		t.Errorf("API servers older than nodes: %v", err)
	}
}

func TestWhatIsLeftOutIsSaid(t *testing.T) {
	e := repotest.Must(plan.Of(parse(t, "- {name: warm-up, pause: 1s, when: 1 > 2}\n- {pause: 1s}\n- {pause: 1s, when: false}\n"), plan.Sources{}))(t)
	var b strings.Builder
	if err := e.Write(&b); err != nil || !strings.Contains(b.String(), "\nleft out   by conditions (when): step warm-up, step in line 7\n") {
		t.Errorf("%s, %v", b.String(), err)
	}
}
