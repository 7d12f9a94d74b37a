package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// TestCleanAsks cleans up where nobody, somebody and a script answers.
func TestCleanAsks(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/left"
	for name, tt := range map[string]struct {
		args   []string
		asks   bool
		answer string
		code   int
		says   string
		stays  bool
	}{
		"nobody can answer": {nil, false, "", exitFault, "nothing was deleted: standard input is no terminal", true},
		"no":                {nil, true, "n\n", exitFault, "Delete 1 object? [y/N] clean: nothing was deleted: not confirmed", true},
		"nothing":           {nil, true, "\n", exitFault, "not confirmed", true},
		"the terminal ends": {nil, true, "", exitFault, "nothing was deleted", true},
		"yes":               {nil, true, "Yes\n", exitPass, "run r1: deleted 1 object", false},
		"a script":          {[]string{"--yes"}, false, "", exitPass, "run r1: deleted 1 object", false},
		"short":             {[]string{"-y"}, false, "", exitPass, "run r1: deleted 1 object", false},
		"a look":            {[]string{"--dry-run"}, false, "", exitPass, "configmaps default/left", true},
		"of another":        {[]string{"--run", "r2"}, false, "", exitPass, "nothing was left by r2", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t, apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true})
			s.Add(path, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "left", UID: "u1", Labels: map[string]string{object.RunLabel: "r1"}}})
			config := filepath.Join(t.TempDir(), "kubeconfig")
			repotest.NoError(t, s.Endpoint().WriteKubeconfig(config))
			var said bytes.Buffer
			env := &environment{stdin: strings.NewReader(tt.answer), asks: tt.asks, stdout: &said, stderr: &said}
			if code := executeVerb(t.Context(), env, append([]string{"clean", "--kubeconfig", config}, tt.args...)); code != tt.code || !strings.Contains(said.String(), tt.says) {
				t.Errorf("exit code %d, want %d, with %q:\n%s", code, tt.code, tt.says, &said)
			}
			if stays := s.Get(path) != nil; stays != tt.stays {
				t.Errorf("it stays: %v, want %v", stays, tt.stays)
			}
		})
	}
}
