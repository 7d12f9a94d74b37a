package steps

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/scenario"
)

// newMembersBench is a bench whose scenario has members, each of them a server.
func newMembersBench(t *testing.T, text string) (*bench, []*apitest.Server) {
	t.Helper()
	b := newBench(t, text)
	var servers []*apitest.Server
	for _, group := range b.Workload.Scenario.Members {
		for _, name := range group.MemberNames() {
			server := flighttest.NewServer(t)
			target := repotest.Must(b.Load.AddMember(server.Endpoint(), 0))(t)
			servers = append(servers, server)
			b.Members = append(b.Members, &Member{Member: &member.Member{Name: name, Group: group.Name}, Target: target, Created: NewCreated()})
		}
	}
	return b, servers
}

const threeMembers = "members:\n- {name: edge, count: 2, labels: {region: eu}}\n- {name: far}\n"

func TestStepsInMembers(t *testing.T) {
	b, servers := newMembersBench(t, threeMembers+head(1)+`
- {name: home, create: {body: map, count: 1, pace: {burst: true}}}
- {name: all, cluster: "*", create: {body: map, count: 4, pace: {constant: 2000}}}
- {name: there, cluster: "*", wait: {objects: configmaps, of: all, condition: has(self.metadata), within: 30s}}
- {name: eu, cluster: region=eu, delete: {step: all, pace: {burst: true}}}
- {name: one, cluster: far-1, scale: {step: all, to: 6, pace: {burst: true}}}
- {name: ask, cluster: edge-2, requests: {count: 3, pace: {burst: true}, mix: [{verb: list, resource: configmaps}]}}
`)
	repotest.NoError(t, Run(t.Context(), b.Session))
	for i, want := range []int{0, 0, 6} {
		if got := len(servers[i].Names(mapsPath)); got != want {
			t.Errorf("%s has %d objects, want %d", b.Members[i].Name, got, want)
		}
	}
	if got := len(b.server.Names(mapsPath)); got != 1 {
		t.Errorf("the plane has %d objects, want 1", got)
	}
	calls := map[string]int{}
	stream, err := record.Read(b.Dir.File(record.StreamFile), func(s *record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) { calls[s.Ops[c.Op].Step+" "+s.Ops[c.Op].Cluster]++ }}
	})
	if err != nil {
		t.Fatal(err, stream)
	}
	for what, want := range map[string]int{"home ": 1, "all edge-1": 4, "all edge-2": 4, "all far-1": 4, "eu edge-1": 4, "eu edge-2": 4, "one far-1": 2, "ask edge-2": 3} {
		if calls[what] != want {
			t.Errorf("%d calls of %s, want %d", calls[what], what, want)
		}
	}
}

// addHollowMembers makes the members of the bench's scenario hollow clusters, whose pods are
// observed.
func (b *bench) addHollowMembers(t *testing.T) {
	t.Helper()
	server := repotest.Must(hollow.New(hollow.Options{Models: hollow.Models{Nodes: 1, Binder: true, Stages: []string{"fast"}}}))(t)
	t.Cleanup(func() { _ = server.Close() })
	var watching guard.Group
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); watching.Wait() })
	for _, name := range b.Workload.Scenario.Members[0].MemberNames() {
		cluster := repotest.Must(server.Cluster(name))(t)
		target := repotest.Must(b.Load.AddMember(cluster.Endpoint(), 0))(t)
		m := &Member{Member: &member.Member{Name: name, Group: "far"}, Target: target, Created: NewCreated(), Pods: lifecycle.New(b.Journal.Records).In(name)}
		b.Members = append(b.Members, m)
		client := apitest.Client(t, cluster.Endpoint(), b.Clock)
		answer, err := client.Do(ctx, &wire.Request{Method: http.MethodPost, Path: "/api/v1/namespaces", ContentType: load.JSON, Body: []byte(`{"metadata":{"name":"n-1"}}`)})
		if err != nil || !answer.Success() {
			t.Fatal(answer, err)
		}
		watching.Go(func() { _ = m.Pods.Run(ctx, client, b.Clock) })
		<-m.Pods.Synced()
	}
}

// Pods of members are waited for in each of them, and churned in all with one pace.
func TestPodsAndChurnInMembers(t *testing.T) {
	b := newBench(t, "members:\n- {name: far, count: 3, kind: hollow}\n"+`
scenario: x
namespaces: {prefix: n, count: 1}
bodies:
  pod:
    text: |
      {apiVersion: v1, kind: Pod, metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}", labels: {windtunnel.dev/group: "{{ .Group }}"}}, spec: {containers: [{name: c}]}}
steps:
- {name: pods, cluster: far, create: {body: pod, count: 4, pace: {burst: true}}}
- {name: run, cluster: far, wait: {pods: pods, are: running, count: 4, within: 30s}}
- name: again
  cluster: far
  churn: {step: pods, percent: 50, cycles: 2, pace: {constant: 1000}, wait: [{pods: pods, are: running, count: 4, within: 30s}]}
- {name: away, cluster: far-2, delete: {step: pods, pace: {burst: true}}}
- {name: none, cluster: far-2, wait: {pods: pods, are: deleted, within: 30s}}
- {name: still, cluster: far-3, wait: {pods: pods, are: running, count: 4, within: 30s}}
`)
	b.addHollowMembers(t)
	repotest.NoError(t, Run(t.Context(), b.Session))
	for i, want := range []lifecycle.Counts{
		{Created: 8, Bound: 8, Running: 8, Ready: 8, Deleted: 4, Existing: 4, RunningNow: 4, ReadyNow: 4},
		{Created: 8, Bound: 8, Running: 8, Ready: 8, Deleted: 8},
		{Created: 8, Bound: 8, Running: 8, Ready: 8, Deleted: 4, Existing: 4, RunningNow: 4, ReadyNow: 4},
	} {
		if got := b.Members[i].Pods.Counts("pods"); got != want {
			t.Errorf("%s has %+v, want %+v", b.Members[i].Name, got, want)
		}
	}
	calls, objects := map[string]int{}, map[string]int{}
	stream, err := record.Read(b.Dir.File(record.StreamFile), func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Call:  func(c record.Call) { calls[s.Ops[c.Op].Step+" "+s.Ops[c.Op].Verb+" "+s.Ops[c.Op].Cluster]++ },
			Phase: func(p record.Phase) { objects[s.Objects[p.Object].Cluster+" "+p.Phase]++ },
		}
	})
	if err != nil {
		t.Fatal(err, stream)
	}
	for _, m := range b.Members {
		if calls["again delete "+m.Name] != 4 || calls["again create "+m.Name] != 4 || objects[m.Name+" running"] != 8 {
			t.Errorf("%s: calls %v, phases %v", m.Name, calls, objects)
		}
	}
}

// TestWaitsForTheEndOfPodsInMembers: pods that were in none of the members may be gone, or
// never were; those of one of them are known in all.
func TestWaitsForTheEndOfPodsInMembers(t *testing.T) {
	const head = "members:\n- {name: far, count: 2, kind: hollow}\n" + `
scenario: x
namespaces: {prefix: n, count: 1}
bodies:
  pod:
    text: |
      {apiVersion: v1, kind: Pod, metadata: {name: "{{ .Name }}", labels: {windtunnel.dev/group: "{{ .Group }}"}}, spec: {containers: [{name: c}]}}
steps:
- {name: pods, cluster: far-1, create: {body: pod, group: pods, count: 2, pace: {burst: true}}}
- {name: run, cluster: far-1, wait: {pods: pods, are: running, count: 2, within: 2m}}
- {name: away, cluster: far-1, delete: {step: pods, pace: {burst: true}}}
`
	const never = `far-2: no pods of group "pods" were seen, before or within 1s: whether they are gone cannot be told; if none is enough, set wait.optional`
	for wait, want := range map[string]string{
		`cluster: far, wait: {pods: pods, are: deleted, within: 2m}`:                   "",
		`cluster: far-2, wait: {pods: pods, are: deleted, within: 1s}`:                 "step failed: gone: " + never,
		`cluster: far-2, wait: {pods: pods, are: deleted, within: 2m, optional: true}`: "",
	} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, head+"- {name: gone, "+wait+"}\n")
			b.addHollowMembers(t)
			if err := Run(t.Context(), b.Session); (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("\n got %v\nwant %s", err, want)
			}
		})
	}
}

// What does not come to be is told with the member's name.
func TestMembersAreNamedInErrors(t *testing.T) {
	b, _ := newMembersBench(t, threeMembers+head(1)+`
- {name: never, cluster: edge, wait: {objects: configmaps, namespace: "*", condition: has(self.metadata), count: 1, within: 50ms}}
`)
	err := Run(t.Context(), b.Session)
	if err == nil || !strings.Contains(err.Error(), "edge-1: of 0 configmaps") || !strings.Contains(err.Error(), "edge-2: ") {
		t.Errorf("%v", err)
	}
}

// TestWaitsForTheEndInMembers: what was in none of the members may be gone, or the wait's
// words fit nothing. What was in one of them, or may have come from the plane, is known.
func TestWaitsForTheEndInMembers(t *testing.T) {
	const (
		labelled = "bodies: {map: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Name }}\", labels: {app: web}}}'}}\n"
		never    = ": no configmaps with the labels app=web were seen, before or within 1s: whether they are gone cannot be told; if none is enough, set wait.optional"
		subject  = "subjects: [{name: x, command: /bin/true}]\n"
	)
	wait := func(cluster, more string) string {
		return "- {name: gone, cluster: \"" + cluster + "\", wait: {objects: configmaps, selector: app=web, deleted: true, within: " + more + "}}\n"
	}
	fill := func(cluster string) string {
		return "- {name: fill, cluster: \"" + cluster + "\", create: {body: map, count: 2, pace: {burst: true}}}\n"
	}
	drop := func(cluster string) string {
		return "- {name: drop, cluster: \"" + cluster + "\", delete: {step: fill, pace: {burst: true}}}\n"
	}
	for _, tt := range []struct {
		name, top, steps string
		want             []string // parts of the error; none: it is met
	}{
		{"never there", "", wait("*", "1s"), []string{"gone: edge-1" + never, "edge-2" + never, "far-1" + never}},
		{"never there, as is well", "", wait("*", "2m, optional: true"), nil},
		{"there, and deleted", "", fill("*") + drop("*") + wait("*", "2m"), nil},
		{"there in one, and deleted", "", fill("far-1") + drop("far-1") + wait("*", "2m"), nil},
		{"there in another", "", fill("far-1") + drop("far-1") + wait("edge", "1s"), []string{"edge-1" + never, "edge-2" + never}},
		{"of other labels", "", fill("*") + drop("*") + strings.ReplaceAll(wait("*", "1s"), "app=web", "app=wbe"), []string{"far-1" + strings.ReplaceAll(never, "app=web", "app=wbe")}},
		{"seen by a wait", "", fill("edge-1") +
			"- {name: seen, cluster: edge-1, wait: {objects: configmaps, selector: app, condition: has(self.metadata), count: 2, within: 2m}}\n" + drop("edge-1") +
			strings.ReplaceAll(wait("*", "2m"), "app=web", "app"), nil},
		{"of a plane that nobody copies from", "", strings.Replace(fill("x"), `cluster: "x", `, "", 1) + wait("*", "1s"), []string{"edge-1" + never}},
		{"of a plane that a subject may copy from", subject, strings.Replace(fill("x"), `cluster: "x", `, "", 1) + wait("*", "2m"), nil},
		{"still there", "", fill("far-1") + wait("*", "1s"), []string{"gone: far-1: 2 configmaps are still there after 1s, at most 0 may be; behind: n-1/fill-0; n-1/fill-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			top, _, _ := strings.Cut(head(1), "bodies:")
			b, _ := newMembersBench(t, threeMembers+tt.top+top+labelled+"steps:\n"+tt.steps)
			err := Run(t.Context(), b.Session)
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("\n got %v\nwant %s", err, part)
				}
			}
		})
	}
}

// The pace of a step in members is that of all together, unit by unit.
func TestJointPace(t *testing.T) {
	sc := repotest.Must(scenario.Parse("x", []byte("scenario: x\nsteps: [{pause: 1s}]\n"), nil))(t)
	w := &workload.Workload{Scenario: sc}
	part := func(count, perUnit int) planned {
		var p pacing
		p.unit = func(i int) int { return i / perUnit }
		return planned{Plan: load.Plan{Ops: []record.Op{{Verb: "create"}, {Verb: "get"}}, Count: count, Pace: p}}
	}
	members := []*Member{{Member: &member.Member{Name: "a"}, Target: 1}, {Member: &member.Member{Name: "b"}, Target: 2}}
	j := newJoint(members, []planned{part(4, 2), part(3, 2)})
	p := j.planAll(w, "step", scenario.Pace{Constant: 10})
	var order []string
	var due []time.Duration
	for i := range p.Count {
		k, n := j.placeOf(i)
		order = append(order, members[k].Name+string(rune('0'+n)))
		due = append(due, p.Pace.Due(i))
	}
	if got := strings.Join(order, " "); got != "a0 a1 b0 b1 a2 a3 b2" {
		t.Errorf("order %s", got)
	}
	if want := []time.Duration{0, 0, 1, 1, 2, 2, 3}; !slices.EqualFunc(due, want, func(a, b time.Duration) bool { return a == b*100*time.Millisecond }) {
		t.Errorf("due %v", due)
	}
	if r := p.Pace.Rate(); math.Abs(r-17.5) > 1e-9 {
		t.Errorf("rate %v of 7 calls in 4 units at 10 a second", r)
	}
	if len(p.Ops) != 4 || p.Ops[3] != (record.Op{Verb: "get", Cluster: "b"}) {
		t.Errorf("operations %+v", p.Ops)
	}
	r := load.Result{Index: 6, Op: 3}
	if k := j.localResult(&r); k != 1 || r.Index != 2 || r.Op != 1 {
		t.Errorf("part %d, %+v", k, r)
	}
	if out := newJoint(members, []planned{{}, {}}).planAll(w, "none", scenario.Pace{Constant: 1}); out.Count != 0 || len(out.Ops) != 0 {
		t.Errorf("%+v of steps that were not reached", out.Plan)
	}
}

// TestStepsInNoMember: what is to be done in a member that is not there is not done, and does
// not count as done.
func TestStepsInNoMember(t *testing.T) {
	for cluster, want := range map[string]string{
		"region=us": "it is no member",
		"near":      "it is no member",
		"far-7":     "it is no member",
		"far":       "a member has not been started: far",
	} {
		b, _ := newMembersBench(t, threeMembers+head(1)+"- {name: a, cluster: far, create: {body: map, count: 1, pace: {burst: true}}}\n")
		b.Members = b.Members[:2]
		step := b.Workload.Scenario.Steps[0]
		step.Cluster = cluster
		if err := stepOf(&step, nil).Do(t.Context(), b.Session); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", cluster, err, want)
		}
	}
}
