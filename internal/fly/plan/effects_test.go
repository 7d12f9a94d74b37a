package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

const program = `
scenario: x
namespaces: {count: 2}
fleet: {nodes: 5}
plane:
  binaries: own
  components:
    etcd: {flags: {data-dir: /srv/etcd, quota-backend-bytes: "1000000000"}, env: {GOGC: "50", LD_PRELOAD: x.so}}
    kube-apiserver: {flags: {audit-log-path: audit.log, service-cluster-ip-range: 10.0.0.0/16, v: "2", etcd-cafile: ~/ca, service-account-issuer: "https://a/b"}}
subjects:
- {name: operator, command: ./operator, args: [--all]}
- {name: own, windtunnel: [vm-controller]}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Name }}'}}"}
  patch: {text: "{data: {a: b}}"}
steps:
- parallel:
  - {name: hook, exec: {command: [sh, -c, "rm x"]}}
- {name: here, create: {body: map, name: m, count: 1, pace: {constant: 1}}}
- {name: there, create: {body: map, name: m, namespace: default, count: 1, pace: {constant: 1}}}
- name: calls
  requests:
    count: 3
    pace: {constant: 1}
    mix:
    - {verb: list, resource: nodes}
    - {verb: deletecollection, resource: nodes, selector: a=b}
    - {verb: patch, resource: configmaps, name: x, namespace: kube-system, body: patch}
    - {verb: patch, of: here, body: patch}
`

func TestEffects(t *testing.T) {
	s := repotest.Must(scenario.Parse("x.yaml", []byte(program), nil))(t)
	runs := []string{
		"plane: programs of own", "etcd --data-dir=/srv/etcd", "etcd with LD_PRELOAD=x.so",
		"kube-apiserver --audit-log-path=audit.log", "kube-apiserver --etcd-cafile=~/ca",
		"subject operator: ./operator --all", "step hook: sh -c rm x",
	}
	if got := plan.RunsOf(s); !slices.Equal(got, runs) {
		t.Errorf("\n got %q\nwant %q", got, runs)
	}
	changes := []string{
		"creates and deletes the namespaces x-1 to x-2", "makes and deletes 5 simulated nodes, for pods of the run alone",
		"step there makes objects in namespace default", "step calls: deletecollection nodes a=b", "step calls: patch configmaps x",
	}
	if got := plan.ChangesOf(s); !slices.Equal(got, changes) {
		t.Errorf("\n got %q\nwant %q", got, changes)
	}
	var b strings.Builder
	if err := (plan.Effects{Runs: []string{"a \x1b[31mb"}}).Write(&b, "f"); err != nil || strings.Contains(b.String(), "\x1b") || !strings.HasPrefix(b.String(), "RUNS ON THIS MACHINE\n  a ") {
		t.Errorf("%q, %v", b.String(), err)
	}
	if !(plan.Effects{}).Empty() {
		t.Error("no effects are some")
	}
}
