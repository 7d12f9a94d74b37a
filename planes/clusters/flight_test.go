package clusters_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// TestTreeOnRealServers flies the cluster tree of the real binary: the plane's API
// server takes what the manager writes, pods with projected tokens run in a real member,
// and both sides agree; with Kosmos' semantics and improved, and with hollow members.
// Claims of pods are bound in a real member and on the host, whose controllers and
// scheduler know of them, and are gone on both in the end.
func TestTreeOnRealServers(t *testing.T) {
	density := []string{"density.yaml", "nodesPerMember=2", "namespaces=1", "podsPerNamespace=4", "latencyPods=2", "tokens=true", "settle=5s"}
	for name, set := range map[string][]string{
		"improved, real":  append(slices.Clone(density), "kind=real", "members=1"),
		"default, hollow": append(slices.Clone(density), "preset=", "kind=hollow", "members=2", "leafMode=all"),
		"volumes, real":   {"volumes.yaml", "preset=", "kind=real", "members=1", "pods=6", "settle=8s"},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			for _, s := range set[1:] {
				args = append(args, "--set", s)
			}
			run := planetest.Fly(t, repotest.Path(t, "examples", "clusters", set[0]), args...)
			var j slo.Judgement
			repotest.NoError(t, json.Unmarshal(repotest.Must(os.ReadFile(filepath.Join(run, record.VerdictFile)))(t), &j))
			for _, o := range j.Objectives {
				switch {
				case strings.Contains(o.Name, "of a member"): // one for each member, and what it says of itself where it is real
					if o.Value == nil {
						t.Errorf("%s has no value: %+v", o.Name, o)
					}
				case o.SLI == "" && (o.Value == nil || *o.Value != 0): // the two by queries: what host and members disagree in
					t.Errorf("%s: %+v", o.Name, o)
				}
			}
			if m := j.Measures["member_pods_made"]; m.Value != 6 {
				t.Errorf("%v pods are made in members, want 6", m.Value)
			}
		})
	}
}
