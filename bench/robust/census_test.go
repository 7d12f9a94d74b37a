package robust_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/repotest/census"
)

// TestCensusOfAllExamples flies each example in a cluster of others, ends it in each of the
// ways there are, and compares every object of the cluster with what it was. Examples that
// want a plane of their own are refused there, and counted. WINDTUNNEL_EXAMPLE=edge/density
// flies those alone whose path contains it.
func TestCensusOfAllExamples(t *testing.T) {
	repotest.Robust(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "windtunnel") // by which its processes are known
	raw, err := os.ReadFile(repotest.Binary(t))
	if err == nil {
		err = os.WriteFile(bin, raw, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := othersCluster(t, bin)
	before, err := census.Take(t.Context(), kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	flown, refused := 0, 0
	for _, file := range examplesOf(t) {
		args := []string{repotest.Path(t, "examples", file)}
		if file == "hundred-thousand-nodes.yaml" {
			args = append(args, "--set", "nodes=100")
		}
		if err := exec.Command(bin, append([]string{"run", "--plan", "--kubeconfig", kubeconfig}, args...)...).Run(); err != nil {
			refused++
			continue
		}
		for _, e := range census.Endings() {
			t.Run(file+"/"+e.Name, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "run")
				census.Flight{Bin: bin, Kubeconfig: kubeconfig, Dir: dir, Args: append([]string{"--out", out}, args...), Until: middle(t, args[0]), Before: before, MayRefuse: true}.Fly(t, e)
			})
			flown++
		}
	}
	t.Logf("%d flights, %d examples refused by --plan", flown, refused)
}

// examplesOf returns the scenarios in examples/.
func examplesOf(t *testing.T) (out []string) {
	root := repotest.Path(t, "examples")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(path)
		file := strings.TrimPrefix(path, root+"/")
		if bytes.Contains(append([]byte("\n"), raw...), []byte("\nscenario:")) && strings.Contains(file, os.Getenv("WINDTUNNEL_EXAMPLE")) {
			out = append(out, file)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatal(out, err)
	}
	return out
}

// middle returns the name of a step in the midst of a scenario.
func middle(t *testing.T, file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Steps []struct{ Name string } }
	if err := yaml.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	for _, step := range s.Steps[len(s.Steps)/2:] {
		if step.Name != "" {
			return step.Name
		}
	}
	return ""
}

// othersCluster boots a plane that stands for somebody else's cluster.
func othersCluster(t *testing.T, bin string) (kubeconfig string) {
	cmd := exec.Command(bin, "up", "--nodes", "2")
	said, err := os.Create(filepath.Join(t.TempDir(), "up"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		said.Close()
	})
	repotest.Eventually(t, "up prints its kubeconfig", func() bool {
		raw, err := os.ReadFile(said.Name())
		_, kubeconfig, _ = strings.Cut(strings.TrimSpace(string(raw)), "export KUBECONFIG=")
		return err == nil && strings.HasSuffix(string(raw), "\n") && kubeconfig != ""
	})
	return kubeconfig
}
