package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With cgroup v2 the kernel places the child; this needs a writable v2
// hierarchy, with or without controllers.
func TestChildBeginsInsideItsV2Group(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
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
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	proc := &Process{
		spec:  Spec{Name: "cat", Path: "/bin/cat", Args: []string{"/proc/self/cgroup"}, LogFile: log},
		group: &Cgroup{parts: []part{made}}, done: make(chan struct{}),
	}
	started := make(chan error)
	go proc.runChild(out, started)
	if err := errors.Join(<-started, out.Close()); err != nil {
		t.Fatal(err)
	}
	<-proc.Done()
	if raw, err := os.ReadFile(log); err != nil || !strings.Contains(string(raw), filepath.Base(made.dir)) {
		t.Errorf("child was in %s, %v", raw, err)
	}
	if _, err := os.Stat(made.dir); err == nil {
		t.Error("the group is left")
	}
}
