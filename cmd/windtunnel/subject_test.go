package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const (
	widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
	aWidget = `apiVersion: v1
kind: Namespace
metadata: {name: workshop}
---
apiVersion: example.org/v1
kind: Widget
metadata: {name: first, namespace: workshop}
`
	// The subject is windtunnel's own page: it answers, and serves no metrics.
	withSubject = `scenario: subject
crds: [widgets.yaml]
subjects:
- name: page
  windtunnel: [serve, --address, "127.0.0.1:$(PROBE_PORT)"]
  limits: {cpu: 1, memory: 512Mi}
  ready:
    http: /
    wait: {objects: widgets.example.org, namespace: workshop, condition: has(self.metadata.uid), count: 1}
  manifests: [widget.yaml]
- name: kept
  command: sh
  args: [-c, "stat -c 'mode %a' $KUBECONFIG; echo $WORD; sleep 600"]
  env: {WORD: "in $(LOGS)"}
steps:
- pause: 2s
- name: crash
  fault: {component: page, action: kill, for: 1s, hold: true}
- pause: 2s
objectives:
- {sli: resident-memory, labels: {component: page}, statistic: max, max: 1000000000}
`
	dying = `scenario: dying
subjects:
- name: kept
  command: sh
  args: [-c, "sleep 4; echo 'panic: out of ideas'; exit 3"]
steps:
- pause: 60s
`
)

// write writes files into the test's folder.
func (u *tunnel) write(files map[string]string) {
	u.t.Helper()
	for name, text := range files {
		repotest.NoError(u.t, os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600))
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	u.write(map[string]string{"s.yaml": withSubject, "widgets.yaml": widgets, "widget.yaml": aWidget})
	cmd, out := u.start("run", "s.yaml", "--out", "run")
	if code := exitOf(cmd.Wait()); code != exitPass {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	_, m, err := record.OpenDir(filepath.Join(u.dir, "run"))
	repotest.NoError(t, err)
	if len(m.Subjects) != 2 || m.Subjects[0].Name != "page" || m.Subjects[0].Command != u.bin || m.Subjects[0].CPULimit != 1 || m.Subjects[0].Version == "" ||
		!m.Subjects[0].Limited && len(m.Warnings) == 0 || len(m.Subjects[1].Env) != 1 || !strings.HasPrefix(m.Subjects[1].Env[0], "WORD=in /") {
		t.Errorf("%+v, warnings %v", m.Subjects, m.Warnings)
	}
	if j := u.verdict(); j.Measures["peak_rss_bytes_page"].Value == 0 || j.Measures["peak_rss_bytes_kept"].Value == 0 {
		t.Errorf("what it cost was not measured: %v", j.Measures)
	}
	if log, err := os.ReadFile(filepath.Join(u.dir, "run", "logs", "kept.log")); err != nil || !strings.HasPrefix(string(log), "mode 600\nin /") {
		t.Errorf("%v: %s", err, log)
	}
	u.noSecrets(t)
}

func TestASubjectsDeathEndsTheRun(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	u.write(map[string]string{"s.yaml": dying})
	cmd, out := u.start("run", "s.yaml", "--out", "run")
	if code := exitOf(cmd.Wait()); code != exitUnknown || !strings.Contains(out.String(), "panic: out of ideas") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if j := u.verdict(); j.Verdict != slo.Unknown || !strings.Contains(strings.Join(j.Reasons, " "), "kept died") {
		t.Errorf("verdict %s: %v", j.Verdict, j.Reasons)
	}
}

// installsThere holds that a run takes away what it installed on a plane that stays.
func (u *tunnel) installsThere(t *testing.T, config string) {
	t.Helper()
	u.write(map[string]string{"s.yaml": withSubject, "widgets.yaml": widgets, "widget.yaml": aWidget})
	cmd, out := u.start("run", "s.yaml", "--out", "subject", "--kubeconfig", config)
	if code := exitOf(cmd.Wait()); code == exitFault || strings.Contains(out.String(), "left behind") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if j := u.verdictOf("subject"); j.Measures["peak_rss_bytes_page"].Value == 0 || strings.Contains(strings.Join(j.Reasons, " "), "died") {
		t.Errorf("%v, %v", j.Measures, j.Reasons)
	}
	if listed := kubectl(t, config, "get", "crd,namespaces", "--no-headers"); strings.Contains(listed, "widgets") || strings.Contains(listed, "workshop") {
		t.Errorf("after the flight:\n%s", listed)
	}
}
