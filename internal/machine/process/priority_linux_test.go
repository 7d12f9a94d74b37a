package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestPreferIsForTheInstrumentAlone runs in a process of its own, since
// niceness cannot be given back by everybody.
func TestPreferIsForTheInstrumentAlone(t *testing.T) {
	if os.Getenv("PREFER") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestPreferIsForTheInstrumentAlone$", "-test.v")
		cmd.Env = append(os.Environ(), "PREFER=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "SKIP") {
			t.Skip("only a privileged user may be preferred")
		}
		return
	}
	before := nice(t, "self")
	if !process.Prefer() {
		t.Skip("not privileged")
	}
	if now := nice(t, "self"); now == before {
		t.Errorf("niceness is %s as before", now)
	}
	for ahead, want := range map[bool]string{false: before, true: nice(t, "self")} {
		p, err := process.Start(process.Spec{Name: "kid", Path: "/bin/sleep", Args: []string{"30"}, LogFile: filepath.Join(t.TempDir(), "log"), Ahead: ahead}, nil)
		repotest.NoError(t, err)
		defer p.Stop(time.Second)
		if kids := nice(t, strconv.Itoa(p.PID())); kids != want {
			t.Errorf("ahead %t: a child has niceness %s, want %s", ahead, kids, want)
		}
	}
}

// nice reads a process's niceness: field 19 of its stat.
func nice(t *testing.T, pid string) string {
	t.Helper()
	raw := repotest.Must(os.ReadFile("/proc/" + pid + "/stat"))(t)
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.Fields(rest)[16]
}
