package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestBisectBuilds flies what a command builds: each run finds its candidate built, one that
// cannot be built is skipped, and the answer says what that leaves open.
func TestBisectBuilds(t *testing.T) {
	for name, tt := range map[string]struct{ broken, want string }{
		"all are built":                    {"none", "rate 18 -&gt; 20 causes the difference."},
		"two are not":                      {"12 15", "rate 18 -&gt; 20 causes the difference."},
		"the one before the cause is not":  {"18", "rate 15 -&gt; 18"},
		"none between good and bad can be": {"12 15 18", "3 combinations could not be built or started"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			built := filepath.Join(folder, "built")
			f := &bisectFlights{}
			x, out := newBisecting(t, folder, f)
			x.file.Setup.Build = fmt.Sprintf(`echo "building $WINDTUNNEL_RATE"; case " %s " in *" $WINDTUNNEL_RATE "*) echo "no such commit" >&2; exit 125;; esac; echo "$WINDTUNNEL_RATE" > '%s'`, tt.broken, built)
			repotest.NoError(t, x.checkInput(bisectSides{bad: []string{"rate=20"}, between: []string{"rate=12,15,18"}}, nil))
			x.fly = checksBuilt(t, built, f.fly)
			if err := x.flySearch(t.Context(), "markdown"); (err != nil) != (name == "none between good and bad can be") || !strings.Contains(out.String(), tt.want) {
				t.Errorf("%v\n%s", err, out)
			}
			for _, r := range x.file.Search.Runs {
				log, err := os.ReadFile(filepath.Join(x.out, r.Dir+".build.log"))
				if err != nil || !strings.HasPrefix(string(log), "building ") {
					t.Errorf("%s: %v, %q", r.Dir, err, log)
				}
				if r.Reason != "" && r.Reason != "not built: the command exited with code 125: "+strings.Join(strings.Split(strings.TrimSpace(string(log)), "\n"), "; ") {
					t.Errorf("%s: %s", r.Dir, r.Reason)
				}
			}
		})
	}
}

// checksBuilt flies only what was built just before.
func checksBuilt(t *testing.T, file string, fly flyFunc) flyFunc {
	return func(ctx context.Context, o flight.Options) (flight.Result, error) {
		if built, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(built)) != o.Set["rate"] {
			t.Errorf("%v: %q is built, %s flown", err, built, o.Set["rate"])
		}
		return fly(ctx, o)
	}
}

// TestBuildFaults: a side that cannot be built ends the search with the last words, and so
// does a person, with what the command has started.
func TestBuildFaults(t *testing.T) {
	x, _ := newBisecting(t, t.TempDir(), &bisectFlights{})
	x.file.Setup.Build = "echo 'main.go:3: undefined: x'; exit 2"
	if err := x.flySearch(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), "not built: the command exited with code 2: main.go:3: undefined: x") {
		t.Errorf("good is not built: %v", err)
	}
	log := filepath.Join(t.TempDir(), "log")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- buildCandidate(ctx, "echo begun; sleep 1000", nil, log) }()
	repotest.Eventually(t, "the build has begun", func() bool {
		said, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(said), "begun")
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := candidateVariables(map[string]string{"a.b": "1", "a_b": "2"}); err == nil || !strings.Contains(err.Error(), "parameters a.b and a_b would both be WINDTUNNEL_A_B") {
		t.Errorf("two of one name: %v", err)
	}
}
