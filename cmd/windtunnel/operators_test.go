package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// smallControllers are the parameters with which the example of each controller is small, and
// how many objects its first objective then judges, by folder or by file.
func smallControllers() map[string]struct {
	set     []string
	objects int
} {
	return map[string]struct {
		set     []string
		objects int
	}{
		"operators":           {[]string{"nodes=10", "pods=20", "objects=10"}, 10},
		"argo-rollouts":       {[]string{"rollouts=5"}, 5},
		"cert-manager":        {[]string{"certificates=20"}, 20},
		"karpenter":           {[]string{"pods=14"}, 14},
		"kueue":               {[]string{"workloads=20"}, 20},
		"kueue/baseline":      {[]string{"share=50"}, 0}, // its ranges are for the whole load
		"kueue/multikueue":    {[]string{"members=2", "each=2", "jobs=5"}, 5},
		"cluster-api":         {[]string{"clusters=2", "machines=3"}, 6},
		"prometheus-operator": {[]string{"prometheuses=2", "teams=10"}, 2},
	}
}

// TestProofRealControllers runs the examples with published controllers, where the cache of
// subjects has them: every object of the load goes through its lifecycle. What a cache holds
// must not decide how long the tests of a change take.
func TestProofRealControllers(t *testing.T) {
	repotest.Proof(t)
	files, err := filepath.Glob("../../examples/operators/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	files = append(files, "../../examples/operators/stack.yaml")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(raw), "\nscenario: ") {
			continue
		}
		folder := filepath.Base(filepath.Dir(file))
		small, known := smallControllers()[folder+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml")]
		if !known {
			small, known = smallControllers()[folder]
		}
		if !known {
			t.Fatalf("%s: nobody says how small it can be", file)
		}
		t.Run(file, func(t *testing.T) {
			var fault strings.Builder
			if code := executeVerb(t.Context(), &environment{stdout: &strings.Builder{}, stderr: &fault}, []string{"run", file, "--plan"}); code != exitPass {
				if lacksProgram(fault.String()) {
					t.Skip(fault.String())
				}
				t.Fatal(fault.String())
			}
			s := repotest.Must(scenario.Load(file, nil))(t)
			out := filepath.Join(t.TempDir(), "run")
			args := []string{"run", file, "--out", out}
			for _, set := range small.set {
				args = append(args, "--set", set)
			}
			said, err := exec.CommandContext(t.Context(), repotest.Binary(t), args...).CombinedOutput()
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() == exitFault) {
				t.Fatalf("%v\n%s", err, said)
			}
			var verdict struct {
				Objectives []struct {
					Name    string
					Samples int
				}
			}
			raw, err := fs.ReadFile(os.DirFS(out), "verdict.json")
			repotest.NoError(t, errors.Join(err, json.Unmarshal(raw, &verdict)))
			for _, o := range verdict.Objectives {
				if o.Name == s.Objectives[0].Name && o.Samples != small.objects {
					t.Errorf("%s: %d objects of %d went through it\n%s", o.Name, o.Samples, small.objects, said)
				}
			}
		})
	}
}
