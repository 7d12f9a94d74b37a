package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// manyClusters has two real members and three hollow ones, and does each thing to
// them that can be done to members.
const manyClusters = `
scenario: many-clusters
members:
- {name: edge, count: 2, labels: {region: eu}, roundTrip: 1ms, fleet: {nodes: 2, lease: 1h}}
- {name: far, count: 3, kind: hollow, nodes: 2, heartbeats: 1s, binder: true, serviceAccounts: true, metrics: true, stages: [fast]}
lifecycles:
- {name: map, of: configmaps, cluster: "*", phases: [{name: there, when: has(self.metadata)}]}
bodies:
  cm:
    text: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}"}
  pod:
    text: |
      apiVersion: v1
      kind: Pod
      metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}", labels: {windtunnel.dev/group: "{{ .Group }}"}}
      spec: {containers: [{name: c, image: none}]}
steps:
- {name: pods, cluster: far, create: {body: pod, count: 10, pace: {constant: 200}}}
- {name: running, cluster: far, wait: {pods: pods, are: running, count: 10, within: 60s}}
- name: again
  cluster: far
  churn: {step: pods, percent: 40, cycles: 1, pace: {constant: 200}, wait: [{pods: pods, are: running, count: 10, within: 60s}]}
- {name: fill, cluster: "*", create: {body: cm, count: 10, pace: {constant: 200}}}
- {name: there, cluster: "*", wait: {objects: configmaps, of: fill, condition: has(self.metadata), within: 60s}}
- {name: nodes, cluster: edge, wait: {objects: nodes, condition: has(self.status.conditions), count: 2, within: 60s}}
- name: back
  parallel:
  - {name: older, fault: {cluster: edge-1, action: rollback, for: 12s, hold: true}}
  - sequence: # what is made after the state that comes back was kept
    - pause: 4s
    - {name: more, cluster: edge-1, scale: {step: fill, to: 15, pace: {burst: true}}}
- {name: ten, cluster: edge-1, wait: {objects: configmaps, namespace: many-clusters-1, deleted: true, count: 10, within: 60s}}
- {name: expired, fault: {cluster: edge-2, action: expire, for: 8s}}
- name: refused
  cluster: edge-2
  requests: {count: 90, pace: {constant: 3}, mix: [{verb: get, resource: namespaces, name: default}]}
  expects: [401]
- {name: black, fault: {cluster: far-1, action: stall, for: 3s}}
- name: held
  cluster: far-1
  requests: {count: 1, pace: {burst: true}, mix: [{verb: get, resource: namespaces, name: default}]}
- {name: cut, fault: {cluster: edge-1, action: kill}}
- {name: far-nodes, cluster: far, wait: {objects: leases.coordination.k8s.io, namespace: kube-node-lease, condition: has(self.spec.renewTime), count: 2, within: 60s}}
- {name: far-expired, fault: {cluster: far-2, action: expire}}
- name: far-refused
  cluster: far-2
  requests: {count: 9, pace: {burst: true}, mix: [{verb: get, resource: namespaces, name: default}]}
  expects: [401]
- name: far-back
  parallel:
  - {name: far-older, fault: {cluster: far-3, action: rollback, for: 12s, hold: true}}
  - sequence:
    - pause: 4s
    - {name: far-more, cluster: far-3, scale: {step: fill, to: 15, pace: {burst: true}}}
- {name: far-ten, cluster: far-3, wait: {objects: configmaps, namespace: many-clusters-1, deleted: true, count: 11, within: 60s}}
- {name: far-slow, fault: {cluster: far-3, action: slow, factor: 2}}
- {name: far-restart, fault: {cluster: far-1, action: restart}}
- {name: far-again, cluster: far-1, wait: {objects: nodes, condition: has(self.status.conditions), count: 2, within: 60s}}
- name: folder
  exec: {command: [sh, -c, 'test -s "$MEMBERS/edge-1.kubeconfig" && test -s "$MEMBERS/far-3.kubeconfig" && grep -c "name: far-2" "$MEMBERS/members.kubeconfig"']}
- name: own
  cluster: "*"
  exec: {command: [sh, -c, 'test "$KUBECONFIG" = "$MEMBERS/$MEMBER.kubeconfig" && test -s "$KUBECONFIG" && echo "I am $MEMBER"']}
objectives:
- {name: kept, query: 'min by (cluster) (apiserver_storage_objects{resource="configmaps", cluster=~"far-.*"})', min: 10}
- {name: sum, query: 'count(apiserver_storage_objects{resource="configmaps", cluster!=""})', min: 3}
- {name: held, sli: call-latency, labels: {cluster: far-1, step: held}, statistic: max, min: 1}
- {name: refused, sli: call-success, labels: {cluster: edge-2, step: refused}, max: 0.95}
- {sli: call-latency, labels: {step: fill}, per: [cluster], statistic: p50, max: 60}
- {name: started, sli: pod-startup, labels: {group: pods}, per: [cluster], statistic: max, max: 60}
- {name: made, sli: lifecycle, labels: {lifecycle: map, phase: created..there}, per: [cluster], statistic: max, max: 60}
`

func TestFlightWithMembers(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file := filepath.Join(u.dir, "many.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(manyClusters), 0o600))
	cmd, said := u.start("run", file, "--out", "run", "--max-neighbours", "99%")
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	r := repotest.Must(run.Open(filepath.Join(u.dir, "run")))(t)
	for _, s := range r.Facts.Steps {
		if s.Note != "" {
			t.Errorf("step %s: %s", s.Name, s.Note)
		}
	}
	if r.Facts.Ended.Reason != "done" {
		t.Errorf("the run ended with %s: %s", r.Facts.Ended.Reason, r.Facts.Ended.Text)
	}
	if len(r.Facts.Clusters) != 5 || len(r.Manifest.Members) != 2 || r.Manifest.Members[0].ReadySeconds <= 0 {
		t.Errorf("%d clusters, %+v", len(r.Facts.Clusters), r.Manifest.Members)
	}
	refused, far := 0, 0
	for _, c := range r.Facts.Calls {
		if c.Step == "far-refused" {
			far = c.Codes[401]
		}
		if c.Step == "refused" {
			refused = c.Codes[401]
		}
	}
	if refused == 0 || refused == 90 {
		t.Errorf("%d of 90 calls were refused with 401: the credentials did not expire, or did not come back", refused)
	}
	if far != 9 {
		t.Errorf("%d of 9 calls of a hollow member whose credentials have expired were refused with 401", far)
	}
	for name, want := range map[string]int{"map": 5, "pod": 3} {
		if got := run.Clusters(r.Facts.Named(name)); len(got) != want {
			t.Errorf("lifecycles of %s were seen in %q, want %d clusters", name, got, want)
		}
	}
	for _, l := range run.In(r.Facts.Named("pod"), "far-2") {
		if l.Group != "pods" || l.Reached(record.PhaseRunning) != 14 || l.Reached(record.PhaseDeleted) != 4 {
			t.Errorf("%d pods of %q ran in far-2 and %d were deleted, want 14 and 4", l.Reached(record.PhaseRunning), l.Group, l.Reached(record.PhaseDeleted))
		}
	}
	verdict, err := os.ReadFile(filepath.Join(u.dir, "run", "verdict.json"))
	var judged slo.Judgement
	if err == nil {
		err = json.Unmarshal(verdict, &judged)
	}
	repotest.NoError(t, err)
	passed := map[string]int{}
	for _, o := range judged.Objectives {
		if o.Verdict == slo.Pass {
			passed[o.Name]++
		}
	}
	if passed["started"] != 3 || passed["made"] != 5 {
		t.Errorf("objectives that passed, by name: %v", passed)
	}
	if passed["kept"] == 0 || passed["sum"] != 1 {
		t.Errorf("objectives on the members' own metrics that passed, by name: %v", passed)
	}
	for _, name := range []string{"edge-1", "edge-2", "far-1", "far-2", "far-3"} {
		if said, err := os.ReadFile(filepath.Join(u.dir, "run", "logs", "own", name+".log")); string(said) != "I am "+name+"\n" {
			t.Errorf("the command for %s said %q, %v", name, said, err)
		}
	}
	if models := strings.Join(r.Manifest.Members[1].Models, ", "); models != "binder, heartbeats, service accounts, stages fast" {
		t.Errorf("the manifest has models %s", models)
	}
	page, err := os.ReadFile(filepath.Join(u.dir, "run", "report.html"))
	if err != nil || !strings.Contains(string(page), `id="members"`) {
		t.Errorf("no members in the report, %v", err)
	}
}

// A real member that does not start ends the run with its last lines, and the others'
// logs stay.
func TestMemberThatDoesNotStart(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file := filepath.Join(u.dir, "bad.yaml")
	text := "scenario: bad\nmembers:\n- {name: good, count: 1}\n- {name: bad, flags: {no-such-flag: x}}\nsteps: [{pause: 1s}]\n"
	repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	cmd, said := u.start("run", file, "--out", "run")
	if code := exitOf(cmd.Wait()); code != exitFault || !strings.Contains(said.String(), "bad-1 died") || !strings.Contains(said.String(), "no-such-flag") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if info, err := os.Stat(filepath.Join(u.dir, "run", "logs", "good-1.log")); err != nil || info.Size() == 0 {
		t.Errorf("the other's log: %v", err)
	}
}

func TestUpWithMembers(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	config, endUp := u.up("--members", "1", "--hollow", "20")
	raw := repotest.Must(os.ReadFile(config))(t)
	for _, name := range []string{"windtunnel", "member-1", "hollow-1", "hollow-20"} {
		if !strings.Contains(string(raw), "name: "+name+"\n") {
			t.Errorf("no context %s", name)
		}
	}
	endUp()
}
