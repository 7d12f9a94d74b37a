package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestUserAgents holds that each component of the real plane tells the API server the
// release and the commit that it was built from: the audit log has the User-Agents.
func TestUserAgents(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	plane := repotest.Must(release.Read(u.dir))(t)
	policy, log := filepath.Join(u.dir, "policy.yaml"), filepath.Join(u.dir, "audit.log")
	const text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n"
	repotest.NoError(t, os.WriteFile(policy, []byte(text), 0o600))
	_, end := u.up("--nodes", "1", "--flag", "kube-apiserver.audit-policy-file="+policy, "--flag", "kube-apiserver.audit-log-path="+log)
	agents := regexp.MustCompile(`"userAgent":"(kube-[a-z-]+)/([^ "]*) \([^)]*\) kubernetes/([^ "/]*)`)
	said := map[string]map[string]bool{}
	repotest.Eventually(t, "all components have called", func() bool {
		raw, _ := os.ReadFile(log)
		for _, m := range agents.FindAllStringSubmatch(string(raw), -1) {
			if said[m[1]] == nil {
				said[m[1]] = map[string]bool{}
			}
			said[m[1]][m[2]+" "+m[3]] = true
		}
		return len(said) == 3
	}, func() any { return said })
	end()
	want := builtCommit(t)
	for _, name := range []string{component.APIServer, component.Scheduler, component.ControllerManager} {
		if len(said[name]) != 1 {
			t.Errorf("%s calls as %v", name, said[name])
		}
		for text := range said[name] {
			version, commit, _ := strings.Cut(text, " ")
			if version != plane.Kubernetes || commit != want {
				t.Errorf("%s calls as %s of commit %s; the plane is %s of commit %s", name, version, commit, plane.Kubernetes, want)
			}
		}
	}
}

// builtCommit returns the first seven digits of the commit that Kubernetes is built from, as the
// module proxy tells it; not every proxy does, and components then say unknown.
func builtCommit(t *testing.T) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes")
	c.Dir = "../../plane"
	said := repotest.Must(c.Output())(t)
	var module struct{ Info string }
	var info struct{ Origin struct{ Hash string } }
	repotest.NoError(t, json.Unmarshal(said, &module))
	raw := repotest.Must(os.ReadFile(module.Info))(t)
	repotest.NoError(t, json.Unmarshal(raw, &info))
	if info.Origin.Hash == "" {
		return "unknown"
	}
	return info.Origin.Hash[:7]
}
