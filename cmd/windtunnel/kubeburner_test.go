package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestKubeBurnerWithoutThresholds flies a config that asks for nothing to be
// judged: that its calls succeeded is, so that the run has a verdict.
func TestKubeBurnerWithoutThresholds(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	for name, text := range map[string]string{
		"config.yml": "jobs:\n- name: maps\n  jobIterations: 5\n  qps: 20\n  burst: 20\n  namespace: maps\n  objects:\n  - {objectTemplate: map.yml, replicas: 2}\n",
		"map.yml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"m-{{.Iteration}}-{{.Replica}}\"}\ndata: {a: b}\n",
	} {
		repotest.NoError(t, os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600))
	}
	cmd, said := u.start("run", filepath.Join(u.dir, "config.yml"), "--out", filepath.Join(u.dir, "run"))
	code := exitOf(cmd.Wait())
	j := u.verdict()
	if len(j.Objectives) != 1 || j.Objectives[0].SLI != slo.FailedCalls || j.Objectives[0].Samples == 0 {
		t.Fatalf("objectives %+v\n%s", j.Objectives, said)
	}
	// A machine that is too slow for the instrument makes any verdict unknown.
	if late := code == exitUnknown && len(j.Reasons) > 0; code != exitPass && !late || !late && j.Objectives[0].Verdict != slo.Pass {
		t.Errorf("exit code %d, %+v\n%s", code, j.Objectives[0], said)
	}
}
