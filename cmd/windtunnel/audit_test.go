package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const auditedScenario = `
scenario: audited
plane: {audit: true}
bodies:
  secret: {text: "{apiVersion: v1, kind: Secret, metadata: {name: '{{ .Name }}', namespace: '{{ .Namespace }}'}}"}
steps:
- name: fill
  create: {body: secret, count: 50, pace: {constant: 50}}
- wait: {objects: secrets, of: fill, condition: has(self.metadata.uid)}
- name: empty
  delete: {step: fill, pace: {constant: 50}}
- pause: 1s
objectives:
- {sli: requests-by-client, labels: {client: windtunnel-load, verb: create}, statistic: sum, max: 50}
`

// TestFlightCountsClients runs a load on the real plane and counts by client: what windtunnel
// sent is attributed to it, and of all requests nothing is missing.
func TestFlightCountsClients(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file := filepath.Join(u.dir, "audited.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(auditedScenario), 0o600))
	cmd, said := u.start("run", file, "--out", "run")
	u.sound(exitOf(cmd.Wait()))
	r, err := run.Open(filepath.Join(u.dir, "run"))
	if err != nil {
		t.Fatal(err, said)
	}
	a := r.Facts.Attribute()
	if a == nil || !a.Enough() || a.Bytes == 0 || a.Unreadable > 0 {
		t.Fatalf("%+v\n%s", a, said)
	}
	for key, k := range a.Kinds {
		if !k.Agree() {
			t.Errorf("%v: the audit log and apiserver_request_total do not agree: %+v", key, k)
		}
	}
	for _, key := range []run.RequestKey{{Verb: "create", Resource: "secrets"}, {Verb: "delete", Resource: "secrets"}} {
		if k := a.Kinds[key]; k.Served < 50 || !k.Agree() {
			t.Errorf("%v: %+v", key, k)
		}
		sent := 0.0
		for _, c := range a.ByName() {
			if c.Name == "windtunnel-load" {
				sent += c.Kinds[key]
			}
		}
		if sent != 50 {
			t.Errorf("%v: %v by the load, want 50", key, sent)
		}
	}
}
