package clusterloader2

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// FuzzImport takes any config, module and object template: there is a scenario
// that can be written and read again, or there are faults with lines; no panic.
func FuzzImport(f *testing.F) {
	object := repotest.Must(os.ReadFile("testdata/load/deployment.yaml"))(f)
	for _, pattern := range []string{"testdata/*/*.yaml", "testdata/load/modules/*.yaml"} {
		files := repotest.Must(filepath.Glob(pattern))(f)
		for _, file := range files {
			raw := repotest.Must(os.ReadFile(file))(f)
			f.Add(string(raw), string(object))
			f.Add(string(raw), string(raw))
		}
	}
	f.Add("a: &a [*a]\n<<: {x: &b {<<: *b}}\nsteps: *a", "apiVersion: v1\nkind: {{.A}}")
	f.Fuzz(func(t *testing.T, config, other string) {
		if strings.Contains(config+other, "range") || strings.Contains(config+other, "Rand") || len(config)+len(other) > 20_000 {
			return // loops without end and long texts are the author's
		}
		im := &importer{options: Options{Nodes: 3}, faults: &faults{}, name: "fuzz", dir: "."}
		im.read = func(path string) ([]byte, error) {
			switch {
			case strings.Contains(path, "odule"):
				return []byte(config), nil
			case strings.HasSuffix(path, ".yaml"):
				return []byte(other), nil
			}
			return nil, errors.New("no such file")
		}
		s := im.makeScenario("fuzz.yaml", []byte(config))
		for _, one := range im.faults.list {
			if one.Text == "" || one.File != "" && one.Line < 1 {
				t.Errorf("fault %+v", one)
			}
		}
		if len(im.faults.list) > 0 {
			return
		}
		var b bytes.Buffer
		if err := scenario.Write(&b, s); err != nil {
			if errors.Is(err, scenario.ErrNotText) {
				return
			}
			t.Fatal(err)
		}
		if _, err := scenario.Parse("made.yaml", b.Bytes(), nil); err != nil && len(b.Bytes()) < 1<<20 {
			t.Fatalf("%v\n%s", err, b.Bytes())
		}
	})
}

// FuzzIs never panics, and takes no native scenario for a config.
func FuzzIs(f *testing.F) {
	f.Add([]byte("scenario: x\nsteps:\n- phases:"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.HasPrefix(raw, []byte("scenario:")) && Is(raw) {
			t.Errorf("%q is taken for ClusterLoader2's", raw)
		}
	})
}

// TestLines: a line of the rendered text is known by the line of the file that
// its fixed text stands in, whatever the template left out or repeated.
func TestLines(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		lines      []int
	}{
		{"a\nb\n", "a\nb\n", []int{1, 2}},
		{"{{$x := 1}}\na: {{$x}}\nb", "\na: 1\nb", []int{1, 2, 3}},
		{"{{if false}}\na\n{{end}}\nb\n", "\nb\n", []int{3, 4}},
		{"{{if false}}\na\n{{else}}\nb\n{{end}}c\n", "\nb\nc\n", []int{3, 4, 5}},
		{"a\n{{- if true }}\nb\n{{- end }}\nc\n", "a\nb\nc\n", []int{1, 3, 5}},
		{"{{range Loop 2}}\n- {{.}}\n{{end}}\nx", "\n- 0\n\n- 1\n\nx", []int{1, 2, 1, 2, 3, 4}},
		{"a: {{YamlQuote \"- b\\n- c\\n\" 1}}\nd: 1\n", "a: |\n    - b\n    - c\n  \nd: 1\n", []int{1, 1, 1, 1, 2}},
	} {
		im := &importer{}
		_, r, err := renderConfig(tt.text, im.templateFunctions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Bytes) != tt.want {
			t.Errorf("%q renders to %q, want %q", tt.text, r.Bytes, tt.want)
		}
		for i, line := range tt.lines {
			if r.Line(i+1) != line {
				t.Errorf("%q: line %d of %q stands in line %d, want %d", tt.text, i+1, r.Bytes, r.Line(i+1), line)
			}
		}
	}
}

func TestSlug(t *testing.T) {
	for text, want := range map[string]string{
		"Creating saturation pods": "creating-saturation-pods", "WaitForRunningPVCs": "wait-for-running-pvcs", "a--b_c": "a-b-c", "-x-": "x", "é": "",
		"APIResponsiveness": "apiresponsiveness", "Waiting for 'scale and update' to be completed": "waiting-for-scale-and-update-to-be-completed",
		strings.Repeat("ab ", 40): strings.TrimSuffix(strings.Repeat("ab-", 19)[:55], "-"),
	} {
		if got := dnsLabel(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
