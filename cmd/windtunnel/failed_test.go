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

// TestRefusedCreatesFail has the API server refuse all objects of a step, and then
// none of them. The first run fails, and says everywhere what the server said.
func TestRefusedCreatesFail(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file := repotest.Must(filepath.Abs("testdata/failed/refused.yaml"))(t)
	cmd, said := u.start("run", file, "--out", filepath.Join(u.dir, "run"))
	if code := exitOf(cmd.Wait()); code != exitFail {
		t.Errorf("exit code %d, want %d\n%s", code, exitFail, said)
	}
	j := u.verdict()
	const message = "should be greater than or equal to 1"
	if j.Verdict != slo.Fail || len(j.Failures) != 1 {
		t.Fatalf("verdict %s, failures %+v", j.Verdict, j.Failures)
	}
	if f := j.Failures[0]; f.Step != "widgets" || f.Code != 422 || f.Reason != "Invalid" || f.Count != 20 || !strings.Contains(f.Message, message) ||
		!strings.HasPrefix(f.Object, "refused-1/widgets-") {
		t.Errorf("%+v", f)
	}
	if why := strings.Join(j.Reasons, " "); !strings.Contains(why, `step patch failed: 20 of 20 objects of step "widgets" could not be made: 422 Invalid`) {
		t.Errorf("the step that depends on them is not named: %s", why)
	}
	for _, name := range []string{record.SummaryFile, record.ReportFile, record.JUnitFile} {
		raw, err := os.ReadFile(filepath.Join(u.dir, "run", name))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(raw)), " "), message) {
			t.Errorf("%s does not say %q (%v)", name, message, err)
		}
	}
	if !strings.Contains(said.String(), message) {
		t.Errorf("the terminal does not say %q:\n%s", message, said)
	}
	repotest.NoError(t, os.RemoveAll(filepath.Join(u.dir, "run")))
	cmd, said = u.start("run", file, "--set", "size=1", "--out", filepath.Join(u.dir, "run"))
	_ = cmd.Wait()
	for _, o := range u.verdict().Objectives {
		if o.SLI == slo.FailedCalls && (o.Verdict != slo.Pass || o.Samples != 61) {
			t.Errorf("with objects that the server takes: %+v\n%s", o, said)
		}
	}
}
