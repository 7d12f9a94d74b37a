package robust_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/apitest"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Bounds of a run against a server that misbehaves.
const (
	mostTime        = 2 * time.Minute
	mostMemory      = 300 << 20
	mostCPU         = 5 * time.Second
	mostConnections = 60
)

// small is a run that asks a server for a bit of everything.
const small = `scenario: small
namespaces: {count: 1}
fleet: {nodes: 3, within: 20s}
bodies:
  pod:
    text: |
      apiVersion: v1
      kind: Pod
      metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}", labels: {app: x}}
      spec: {containers: [{name: c, image: none}]}
groups: [{name: all, selector: app=x}]
steps:
- name: pods
  create: {body: pod, count: 20, pace: {constant: 20}, retry: {times: 3}}
- name: running
  wait: {pods: all, are: running, count: 20, within: 20s}
`

// TestHostileServers runs windtunnel by a kubeconfig against each server of the
// corpus: one that is hostile from the first request on, and one that answers the
// first look as an API server does.
func TestHostileServers(t *testing.T) {
	repotest.Robust(t)
	bin := repotest.Binary(t)
	for _, p := range apitest.Peers() {
		for mode, polite := range map[string]bool{"at once": false, "later": true} {
			t.Run(p.Name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				fly(t, bin, p.Serve(t, polite))
			})
		}
	}
}

// fly runs the small scenario against a server and holds the bounds.
func fly(t *testing.T, bin string, server *apitest.Peering) {
	dir := t.TempDir()
	kubeconfig, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "small.yaml")
	if err := errors.Join(server.Endpoint.WriteKubeconfig(kubeconfig), os.WriteFile(file, []byte(small), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*mostTime)
	defer cancel()
	c := exec.CommandContext(ctx, bin, "run", file, "--kubeconfig", kubeconfig, "--out", filepath.Join(dir, "run"))
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) } // says where it hangs
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	watch := clock.Start()
	u, err := measure(c)
	took := time.Duration(watch.Now())
	most, total := server.Connections()
	t.Logf("exit %d after %v, CPU %v, %d MiB, %d connections, %d in all: %s",
		u.exit, took.Round(time.Millisecond), u.cpu.Round(time.Millisecond), u.memory>>20, most, total, first(said.String()))
	if err == nil || total == 0 {
		t.Errorf("the run ended with %v, after %d connections: %s", err, total, said.String())
	}
	if took > mostTime || u.memory > mostMemory || u.cpu > mostCPU || most > mostConnections {
		t.Errorf("%v, %d MiB, %v of CPU, %d connections\n%s", took, u.memory>>20, u.cpu, most, said.String())
	}
}

// first is the line that says why.
func first(said string) string {
	for line := range strings.Lines(said) {
		if strings.Contains(line, "error") || strings.HasPrefix(line, "windtunnel") || strings.Contains(line, "No verdict") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(said[max(0, len(said)-200):])
}
