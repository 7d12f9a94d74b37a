package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// With cgroup v2 the kernel places the child; this needs a writable v2
// hierarchy, with or without controllers.
func TestChildBeginsInsideItsV2Group(t *testing.T) {
	own := repotest.Must(os.ReadFile("/proc/self/cgroup"))(t)
	mounts := repotest.Must(os.ReadFile("/proc/self/mountinfo"))(t)
	var parent string
	for _, m := range parseMounts(string(mounts)) {
		if group, ok := parseOwn(string(own))[""]; ok && m.version == 2 {
			parent = parentsOf(m, group)[0]
		}
	}
	p := place{version: 2, parents: []string{parent}}
	made, err := p.makeGroup(namePrefix+"v2-"+filepath.Base(t.TempDir()), nil)
	if err != nil {
		t.Skipf("no writable v2 hierarchy: %v", err)
	}
	log := filepath.Join(t.TempDir(), "log")
	out := repotest.Must(os.Create(log))(t)
	proc := &Process{
		spec:  Spec{Name: "cat", Path: "/bin/cat", Args: []string{"/proc/self/cgroup"}, LogFile: log},
		group: &Cgroup{parts: []part{made}}, done: make(chan struct{}),
	}
	started := make(chan error)
	go proc.runChild(out, started)
	repotest.NoError(t, errors.Join(<-started, out.Close()))
	<-proc.Done()
	if raw, err := os.ReadFile(log); err != nil || !strings.Contains(string(raw), filepath.Base(made.dir)) {
		t.Errorf("child was in %s, %v", raw, err)
	}
	if _, err := os.Stat(made.dir); err == nil {
		t.Error("the group is left")
	}
}
