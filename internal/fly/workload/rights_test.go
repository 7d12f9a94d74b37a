package workload_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// compileText compiles a scenario as the steps do that it has.
func compileText(t *testing.T, text string) *workload.Workload {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return repotest.Must(steps.Compile(repotest.Must(scenario.Load(file, nil))(t), file, object.Stamp{}))(t)
}

// TestRights derives rights from scenarios.
func TestRights(t *testing.T) {
	const head = "scenario: x\nbodies:\n  map: {text: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\"}\n  dep: {text: \"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}\"}\n"
	for name, tt := range map[string]struct {
		text string
		want []string // GROUP/RESOURCE in NAMESPACE: verbs
		pods bool
	}{
		"config maps in a namespace that is there": {
			"namespaces: {count: 0}\nsteps: [{name: a, create: {body: map, namespace: n, count: 1, pace: {burst: true}}}, {name: d, delete: {step: a, pace: {burst: true}}}]\n",
			[]string{"/configmaps in n: create delete get list watch"}, false},
		"in the run's own": {
			"namespaces: {count: 2}\nsteps: [{name: a, create: {body: map, count: 1, pace: {burst: true}}}]\n",
			[]string{"/namespaces: create delete get list", "/serviceaccounts: get", "/configmaps: create delete get list watch"}, false},
		"deployments, scaled and waited for": {
			"namespaces: {count: 0}\nsteps: [{name: a, create: {body: dep, namespace: n, count: 1, pace: {burst: true}}}, {name: w, wait: {objects: deployments.apps, namespace: n, count: 1, condition: '{.a}=b'}}]\n",
			[]string{"apps/deployments in n: create delete get list watch", "/pods: list watch"}, true},
		"a fleet": {
			"namespaces: {count: 0}\nfleet: {nodes: 1}\nsteps: [{pause: 1s}]\n",
			[]string{"/nodes: create delete get list patch watch", "/nodes/status: patch", "/pods/status: patch", "/pods: delete get list patch watch"}, true},
		"clients that are others": {
			"namespaces: {count: 0}\nsteps: [{clients: {count: 2, as: {user: a, groups: [g]}}, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: secrets, namespace: '*'}]}}]\n",
			[]string{"/users: impersonate", "/groups: impersonate", "/secrets: list"}, false},
		"informers": {
			"namespaces: {count: 0}\nsteps: [{clients: {count: 2}, requests: {count: 2, pace: {burst: true}, mix: [{verb: watch, resource: secrets, namespace: '*', informer: watchList}]}}]\n",
			[]string{"/secrets: list watch"}, false},
		"a mix": {
			"namespaces: {count: 0}\nsteps: [{name: r, requests: {count: 1, pace: {burst: true}, mix: [{verb: get, resource: widgets.v1alpha1.example.org, namespace: n, name: w, subresource: status}, {verb: list, resource: secrets, namespace: '*'}]}}]\n",
			[]string{"example.org/widgets/status in n: get", "/secrets: list"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := compileText(t, head+tt.text)
			var got []string
			for _, r := range w.Rights().All {
				if r.Optional {
					continue
				}
				line := r.Group + "/" + r.Resource
				if r.Namespace != "" {
					line += " in " + r.Namespace
				}
				got = append(got, line+": "+strings.Join(r.Verbs, " "))
			}
			all := strings.Join(got, "\n")
			for _, want := range tt.want {
				if !strings.Contains("\n"+all+"\n", "\n"+want+"\n") {
					t.Errorf("%s is missing of\n%s", want, all)
				}
			}
			if !tt.pods && strings.Contains(all, "/pods") || w.WatchesPods() != tt.pods {
				t.Errorf("pods are watched: %v, want %v:\n%s", w.WatchesPods(), tt.pods, all)
			}
		})
	}
}
