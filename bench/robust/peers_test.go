package robust_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
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

// secret is the token of the kubeconfig: it stands nowhere else.
const secret = "token-of-small-7f3e9a"

// outcome is how a run must end: with which exit code, and what it must say.
type outcome struct {
	code    int
	says    string // a regular expression
	patient bool   // it goes on for as long as the server asks for patience, until Ctrl-C
}

// refused is how a run ends that a server is hostile to from the first request on.
var refused = outcome{code: 3, says: `(?m)^kubeconfig \S+: (cannot reach the API server at https://\S+: \S+|not authorised: \S+)`}

// later returns how a run ends that such a server is hostile to behind the first look.
func later(peer string) outcome {
	if slices.Contains([]string{"429 for years", "503 for longer than numbers"}, peer) {
		return outcome{2, `(?m)^run aborted: interrupted$`, true}
	}
	return outcome{code: 2, says: `(?m)^run aborted: observe pods: follow /api/v1/pods: (no list within 30s: )?list: ` + reasonOf(peer)}
}

// TestHostileServers runs windtunnel by a kubeconfig against each server of the
// corpus: one that is hostile from the first request on, and one that answers the
// first look as an API server does. Each run ends with the exit code and the reason that
// such a server deserves.
func TestHostileServers(t *testing.T) {
	repotest.Robust(t)
	bin := repotest.Binary(t)
	for _, p := range apitest.Peers() {
		t.Run(p.Name+"/at once", func(t *testing.T) {
			t.Parallel()
			fly(t, bin, p.Serve(t, false), refused)
		})
		t.Run(p.Name+"/later", func(t *testing.T) {
			t.Parallel()
			fly(t, bin, p.Serve(t, true), later(p.Name))
		})
	}
}

// reasons are what a run says of the servers of the corpus. All others flood it.
var reasons = map[string][]string{
	"status [0-9]+":                                 {"401", "403", "410", "500", "a redirection"},
	"malformed protobuf message":                    {"a list without end", "a list that leads to itself", "JSON that is deep", "not JSON", "an end at once"}, // nor are they protobuf
	"an answer without a status":                    {"an interim status alone", "a status that is no number", "no status"},
	"answer too large":                              {"a body without end", "a refusal without end"},
	"no answer in time":                             {"a slow header block", "no streams", "no window", "slow PINGs", "slow bytes", "silence", "silence behind headers"},
	"not sent: turned away unread too often":        {"REFUSED_STREAM to each", "GOAWAY to each", "GOAWAY and farewell"},
	"connection lost: EOF":                          {"a cut answer", "a cut connection", "half a connection"},
	"connection lost: header block: decoding error": {"headers that are none"},
	"connection lost: stream reset: INTERNAL_ERROR": {"INTERNAL_ERROR to each"},
	"connection lost: the server broke the rules of HTTP/2": {"HTTP/1.1", "more padding than frame", "a frame of 16 MB", "a short PING", "half a setting", "a push",
		"a window beyond the largest", "frames of no size", "CONTINUATION without end", "headers that unfold", "DATA of no stream"},
}

func reasonOf(peer string) string {
	for reason, peers := range reasons {
		if slices.Contains(peers, peer) {
			return reason
		}
	}
	return "connection lost: the server floods the connection with frames that answer nothing"
}

// fly runs the small scenario against a server, holds the bounds, and judges how it ends.
func fly(t *testing.T, bin string, server *apitest.Peering, want outcome) {
	dir := t.TempDir()
	kubeconfig, file, run := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "small.yaml"), filepath.Join(dir, "run")
	text, err := server.Endpoint.Kubeconfig()
	text = bytes.Replace(text, []byte("user: {}"), []byte("user: {token: "+secret+"}"), 1)
	if err = errors.Join(err, os.WriteFile(kubeconfig, text, 0o600), os.WriteFile(file, []byte(small), 0o600)); err != nil || !bytes.Contains(text, []byte(secret)) {
		t.Fatalf("%v\n%s", err, text)
	}
	bound := mostTime
	if want.patient {
		bound *= 2
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	defer cancel()
	c := exec.CommandContext(ctx, bin, "run", file, "--kubeconfig", kubeconfig, "--out", run)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) } // says where it hangs
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if want.patient {
		defer time.AfterFunc(mostTime, func() { _ = c.Process.Signal(os.Interrupt) }).Stop()
	}
	watch := clock.Start()
	u, _ := measure(c)
	took := time.Duration(watch.Now())
	most, total := server.Connections()
	t.Logf("exit %d after %v, CPU %v, %d MiB, %d connections, %d in all",
		u.exit, took.Round(time.Millisecond), u.cpu.Round(time.Millisecond), u.memory>>20, most, total)
	if took > bound || u.memory > mostMemory || u.cpu > mostCPU || most > mostConnections || total == 0 {
		t.Errorf("%v, %d MiB, %v of CPU, %d connections, %d in all", took, u.memory>>20, u.cpu, most, total)
	}
	for _, fault := range want.faults(u.exit, said.String(), run) {
		t.Error(fault)
	}
	if t.Failed() {
		t.Log(said.String())
	}
}

// faults says what is wrong with the end of a run.
func (o outcome) faults(code int, said, run string) (out []string) {
	if code != o.code {
		out = append(out, "unwanted exit code")
	}
	if !regexp.MustCompile(o.says).MatchString(said) {
		out = append(out, "it does not say "+o.says)
	}
	if strings.Contains(said, "windtunnel has a fault") || strings.Contains(said, "goroutine ") || strings.Contains(said, "panic: ") {
		out = append(out, "it panicked")
	}
	return append(out, leaks(said, run)...)
}

// leaks names where the token stands.
func leaks(said, run string) (out []string) {
	if strings.Contains(said, secret) {
		out = append(out, "it says the token")
	}
	_ = filepath.WalkDir(run, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if raw, err := os.ReadFile(path); err != nil || bytes.Contains(raw, []byte(secret)) {
			out = append(out, "the token is in "+path)
		}
		return nil
	})
	return out
}
