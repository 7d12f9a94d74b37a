package flight

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestKeptParameters(t *testing.T) {
	got := KeptParameters(map[string]any{"dbPassword": "hunter2", "API_KEY": "k", "tokens": 3.0, "secret": "", "nodes": 5.0, "word": "w"})
	want := map[string]any{"dbPassword": notKept, "API_KEY": notKept, "tokens": 3.0, "secret": "", "nodes": 5.0, "word": "w"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	args := []string{"windtunnel", "run", "s.yaml", "--set", "dbPassword=hunter2", "--set=apiKey=k=v", "--set", "nodes=5", "--out=secret=1", "--seed=7"}
	kept := []string{"windtunnel", "run", "s.yaml", "--set", "dbPassword=" + notKept, "--set=apiKey=" + notKept, "--set", "nodes=5", "--out=secret=" + notKept, "--seed=7"}
	if got := commandWithoutSecrets(args); !slices.Equal(got, kept) {
		t.Errorf("got %q, want %q", got, kept)
	}
}

// TestSecretsAreNotKept looks for a secret in the manifest, which all other files are made of.
func TestSecretsAreNotKept(t *testing.T) {
	folder := t.TempDir()
	text := "scenario: x\nparameters: {password: none}\nsteps: [{pause: 1ms}]\n"
	o := Options{File: filepath.Join(folder, "s.yaml"), Text: []byte(text), Set: map[string]string{"password": "hunter2"}, Command: []string{"run", "--set", "password=hunter2"}}
	in := repotest.Must(o.loadScenario())(t)
	b := newBench(t, text)
	m := newManifest(in, o, b.clock)
	repotest.NoError(t, b.dir.WriteJSON("manifest.json", m))
	raw, err := os.ReadFile(b.dir.File("manifest.json"))
	if err != nil || strings.Contains(string(raw), "hunter2") || !strings.Contains(string(raw), notKept) {
		t.Errorf("%s, %v", raw, err)
	}
}
