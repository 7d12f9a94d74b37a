package main

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

// TestStartsFly flies scenarios as init writes them: nothing of them may fail.
func TestStartsFly(t *testing.T) {
	t.Parallel()
	for kind, args := range map[string][]string{
		"crd": {"--set", "widgets=40"}, "compare": {"--set", "nodes=5"}, "density": {"--set", "nodes=5", "--set", "podsPerNode=4"},
	} {
		t.Run(kind, func(t *testing.T) {
			u := newTunnel(t)
			cmd, out := u.start("init", kind)
			if code := exitOf(cmd.Wait()); code != exitPass {
				t.Fatalf("exit code %d\n%s", code, out)
			}
			cmd, out = u.start(append([]string{"run", kind + ".yaml", "--out", "run"}, args...)...)
			if code := exitOf(cmd.Wait()); code == exitFault {
				t.Fatalf("exit code %d\n%s", code, out)
			}
			for _, o := range u.verdictOf("run").Objectives {
				if o.SLI == slo.FailedCalls && o.Verdict != slo.Pass {
					t.Errorf("%+v\n%s", o, out)
				}
			}
		})
	}
}
