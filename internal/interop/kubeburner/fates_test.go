package kubeburner

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/interop/kit/kittest"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// take imports the plain config with a part in the place of another.
func take(t *testing.T, old, with, file string) ([]byte, []kit.Note) {
	t.Helper()
	dir, files := t.TempDir(), plainFiles()
	files["c.yml"] = plainConfig
	if file != "" {
		files[file] = with
	} else if !strings.Contains(plainConfig, old) {
		t.Fatalf("%q is not in the plain config", old)
	} else {
		files["c.yml"] = strings.Replace(plainConfig, old, with, 1)
	}
	for name, text := range files {
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s, notes, err := Import(filepath.Join(dir, "c.yml"), Options{UUID: "u", RunID: "r"})
	if err != nil {
		t.Fatalf("%v\n%s", err, files["c.yml"])
	}
	var b bytes.Buffer
	repotest.NoError(t, scenario.Write(&b, s))
	return b.Bytes(), notes
}

// TestFates sets each field by itself, and compares what becomes of it with its declared
// fate.
func TestFates(t *testing.T) {
	plain, _ := take(t, "jobs:", "jobs:", "")
	kittest.Probes(t, allFates(), probes(), func(t *testing.T, f kit.Field, p probe) {
		before := plain
		if p.without != p.old {
			before, _ = take(t, p.old, p.without, p.file)
		}
		after, notes := take(t, p.old, p.with, p.file)
		kittest.Holds(t, f, before, after, notes, nil)
	})
}

// TestEveryFieldHasAFate holds the table against the config's types.
func TestEveryFieldHasAFate(t *testing.T) {
	kittest.EveryField(t, allFates(), kittest.YAMLName, reflect.TypeFor[config](), reflect.TypeFor[metric](), reflect.TypeFor[alert]())
}

// TestPage holds the page's list of fields against the table of fates; with -update it
// writes the list anew.
func TestPage(t *testing.T) {
	kittest.Page(t, "coming-from-kube-burner.md", `
This part is generated from the importer's table (`+"`go test ./internal/interop/kubeburner -run Page -update`"+`), and tests set each field to see
that it is so. *Honored*: the scenario does what the field says. *In part*: with the difference given here. *Noted*: the scenario does not
do it, and a note says so; with *unknown* the difference changes the load or the verdict, so that the verdict is *unknown* at best. Every other field
is an error with its file and line.

`+kittest.Rows(allFates()))
}
