package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/scenario"
)

// kubectlTraces are commands of kubectl and what it says. A step that begins with
// hollow or real is played on that one alone: the two stand one after the other, with
// a comment that says why they differ.
const kubectlTraces = "testdata/kubectl/*.txt"

func TestKubectlHollow(t *testing.T) {
	program := repotest.Kubectl(t)
	for _, path := range glob(t, kubectlTraces) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s := repotest.Must(hollow.New(hollow.Options{Models: hollow.Models{ServiceAccounts: true, Stages: []string{"deployments"}}}))(t)
			t.Cleanup(func() { _ = s.Close() })
			c := repotest.Must(s.Cluster("one"))(t)
			playKubectl(t, program, path, c.Endpoint(), "real", 0)
		})
	}
}

func TestKubectlReal(t *testing.T) {
	program := repotest.Kubectl(t)
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() { _ = p.Close() })
	for _, path := range glob(t, kubectlTraces) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			// Pods of the others would be put on its nodes: it is over before they begin.
			if filepath.Base(path) != "nodes.txt" {
				t.Parallel()
			}
			playKubectl(t, program, path, p.Endpoint(plane.Admin), "hollow", controllersTime)
		})
	}
}

const (
	// commandTime ends a command that waits for what does not come.
	commandTime = 3 * time.Minute
	// controllersTime is for controllers of the real plane: they annotate and taint what
	// a command has made in their own time, which a busy machine draws out.
	controllersTime = 30 * time.Second
)

// playKubectl runs the commands of a trace, but for those of the other side. A read
// that says something else is asked again for the time of patience.
func playKubectl(t *testing.T, program, path string, e endpoint.Endpoint, other string, patience time.Duration) {
	home := t.TempDir()
	config := filepath.Join(home, "config")
	repotest.NoError(t, e.WriteKubeconfig(config))
	repotest.Trace(t, path, func(t *testing.T, s repotest.Step) string {
		line := s.Line
		if s.Name == other {
			return s.Want
		}
		if s.Name != "kubectl" {
			_, line, _ = strings.Cut(line, " ")
		}
		args := words(line)[1:]
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
			said := strings.ReplaceAll(steady(runKubectl(t, program, args, home, s.Input)), home, "HOME")
			settled := strings.TrimSpace(said) == strings.TrimSpace(s.Want)
			if settled || time.Since(began) > patience || args[0] != "get" && args[0] != "describe" {
				return said
			}
		}
	})
}

func runKubectl(t *testing.T, program string, args []string, home, input string) string {
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "config"), "KUBECTL_KUBERC=false", "PATH=" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader(input)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	err := cmd.Run()
	said := out.String()
	if failed.Len() > 0 {
		said += "stderr: " + failed.String()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		said += exit.Error()
	case err != nil:
		t.Fatal(err)
	}
	return said
}

// words splits a command as a shell does that knows single quotes only.
func words(line string) (out []string) {
	quoted, begun := false, false
	for _, c := range line {
		switch {
		case c == '\'':
			quoted = !quoted
		case c == ' ' && !quoted:
			begun = false
			continue
		}
		if !begun {
			out, begun = append(out, ""), true
		}
		if c != '\'' {
			out[len(out)-1] += string(c)
		}
	}
	return out
}

// chance is what differs from run to run in what kubectl says, and what stands in its
// place.
var chance = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`("?resourceVersion"?: )"\d+"`), "${1}VERSION"},
	{regexp.MustCompile(`(?m)^(eyJ|hollow\.)\S+$`), "TOKEN"},
	{regexp.MustCompile(`(Resource Version: +)\d+`), "${1}VERSION"},
	{regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d+`), "ADDRESS"},
	{regexp.MustCompile(`10\.\d+\.\d+\.\d+`), "IP"},
	{regexp.MustCompile(`(?m)(  |^)(\d+s|\d{1,2}m(\d+s)?)( |$)`), "${1}AGE${4}"}, // 100m is an amount
	{regexp.MustCompile(`(/\S*)?(LIVE|MERGED)-\d+`), "$2"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}`), "TIME"}, // of diff
	{regexp.MustCompile(`(?m)(\S)(   +|\t)`), "$1   "},
	{regexp.MustCompile(`(?m) +$`), ""},
	{regexp.MustCompile(`(?m)^$`), "<empty>"},
}

func steady(said string) string {
	said = strings.TrimSuffix(said, "\n")
	for _, c := range chance {
		said = c.is.ReplaceAllString(said, c.as)
	}
	return said
}
