package endpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestKubeconfigsThatAreNone: a file that is no kubeconfig is named, with what is wrong with it.
func TestKubeconfigsThatAreNone(t *testing.T) {
	const good = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority: ca.crt}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}, {name: z, context: {cluster: c, user: u}}]
`
	file := filepath.Join(t.TempDir(), "file")
	for text, want := range map[string]string{
		"":                            ": it names no cluster",
		"[1]":                         ": it is a list, and not a mapping",
		"hello":                       ": it is a text, and not a mapping",
		"contexts: [{name: y}]":       ": field contexts.name: true or false is not a text", // YAML 1.1
		"kind: 5":                     ": field kind: a number is not a text",
		"apiVersion: v1\nkind: Pod\n": `: it is a "Pod", and not a kubeconfig`,
		"kind: Config\n\tx: y\n":      ": not YAML: line 2: found a tab",
		"\x00\x01":                    ": not YAML: control characters",
		good + "current-context: w\n": `: it has no context "w", only x, z`,
		good + "preferences: 5\n":     ": field preferences: a number is not a mapping",
		good:                          ": it names no cluster: it needs a current-context",
	} {
		repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := FromKubeconfig(file, "")
		if err == nil || !strings.Contains(err.Error(), file+want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%.30q: %v, want %s", text, err, want)
		}
	}
	for name, text := range map[string]string{"file": good + "current-context: x\n", "ca.crt": "none"} {
		repotest.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o600))
	}
	e, err := FromKubeconfig(file, "")
	if err != nil || e.config.CAFile != filepath.Join(filepath.Dir(file), "ca.crt") {
		t.Errorf("%+v, %v", e.config, err)
	}
	if _, err := FromKubeconfig("/dev/zero", ""); err == nil || !strings.Contains(err.Error(), "/dev/zero has more than 16 MiB") {
		t.Error(err)
	}
}
