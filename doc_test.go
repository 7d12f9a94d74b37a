package windtunnel_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestWhatTheDocsShowIsCompiled holds the Go and YAML of the page for authors of
// operators against the files that are built and flown.
func TestWhatTheDocsShowIsCompiled(t *testing.T) {
	read := func(names ...string) string {
		var all strings.Builder
		for _, name := range names {
			raw := repotest.Must(os.ReadFile(filepath.FromSlash(name)))(t)
			all.Write(raw)
		}
		return all.String()
	}
	sources := map[string]string{
		"go":   read("examples/operator/scale_test.go", "example_test.go"),
		"yaml": read("examples/operator/scale.yaml"),
	}
	page := read("docs/how-to/testing-your-operator.md")
	blocks := regexp.MustCompile("(?ms)^```(go|yaml)\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	if len(blocks) < 5 {
		t.Fatalf("%d blocks were found", len(blocks))
	}
	for _, b := range blocks {
		switch {
		case strings.Contains(sources[b[1]], b[2]) || strings.Contains(b[2], "action: kill"): // a step of one's own
		case strings.HasPrefix(b[2], "subjects:"):
			if _, err := scenario.Parse("page", []byte("scenario: page\nsteps: [{pause: 1s}]\n"+b[2]), nil); err != nil {
				t.Errorf("%v:\n%s", err, b[2])
			}
		default:
			t.Errorf("this stands in no file:\n%s", b[2])
		}
	}
}

// TestTheWorkflowCanBeRead finds what GitHub would refuse in any workflow.
func TestTheWorkflowCanBeRead(t *testing.T) {
	raw := repotest.Must(os.ReadFile("examples/operator/.github/workflows/scale.yaml"))(t)
	var w struct {
		Name string
		On   map[string]any
		Jobs map[string]struct {
			RunsOn string `yaml:"runs-on"`
			Steps  []struct{ Uses, Run string }
		}
	}
	repotest.NoError(t, yaml.Unmarshal(raw, &w))
	if len(w.On) == 0 || len(w.Jobs) == 0 {
		t.Errorf("%+v", w)
	}
	for name, job := range w.Jobs {
		if job.RunsOn == "" {
			t.Errorf("job %s: runs-on is missing", name)
		}
		for i, s := range job.Steps {
			if (s.Uses == "") == (s.Run == "") {
				t.Errorf("job %s, step %d: exactly one of uses and run", name, i+1)
			}
		}
	}
}
