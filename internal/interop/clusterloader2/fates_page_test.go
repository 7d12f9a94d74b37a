package clusterloader2

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// everyField is the heading of the generated part of the page, which is its last.
const everyField = "## Every field, and what becomes of it\n"

// TestPage holds the page's list of fields against the table of fates; with
// -update it writes the list anew.
func TestPage(t *testing.T) {
	path := repotest.Path(t, "docs", "coming-from-clusterloader2.md")
	raw, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	text, _, ok := strings.Cut(string(raw), everyField)
	if !ok {
		t.Fatalf("the page has no heading %q", everyField)
	}
	repotest.Golden(t, path, text+everyField+fieldsPage())
}

// fieldsPage is the table of fates in Markdown.
func fieldsPage() string {
	var b strings.Builder
	b.WriteString(`
This part is generated from the importer's table (` + "`go test ./internal/interop/clusterloader2 -run Page -update`" + `), and tests set each field
to see that it is so. *Honored*: the scenario does what the field says. *In part*: with the difference that stands beside it. *Noted*: the scenario
does not do it, and a note says so; with *unknown* the difference changes the load or the verdict, so that the verdict is *unknown* at best.
*Refused*: the import ends with an error.

### Configs, modules and suites

| field | | becomes |
|---|---|---|
`)
	for _, of := range configFates() {
		for _, f := range of.fields {
			var paths []string
			for _, path := range strings.Split(of.path, ", ") {
				paths = append(paths, "`"+strings.TrimPrefix(path+"."+f.name, ".")+"`")
			}
			row(&b, strings.Join(paths, ", "), f)
		}
	}
	b.WriteString("\n### Parameters of measurements\n\nParameters that ClusterLoader2 does not read are ignored with a note, as are those that it reads with another action only.\n\n" +
		"| measurement | actions |\n|---|---|\n")
	for _, m := range methods() {
		if fieldNamed(m.params, "*") == nil {
			actions := "none: it acts where it stands, whatever `action` says"
			if m.actions != "" {
				actions = "`" + strings.Join(strings.Fields(m.actions), "` `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", m.name, actions)
		}
	}
	b.WriteString("\n| parameter | | becomes |\n|---|---|---|\n")
	for _, m := range methods() {
		for _, f := range m.params {
			name := fmt.Sprintf("`%s` `%s`", m.name, f.name)
			if f.name == "*" {
				name = fmt.Sprintf("`%s`", m.name)
			}
			if f.when != "" {
				name += fmt.Sprintf(" (with `%s`)", f.when)
			}
			row(&b, name, f)
		}
	}
	return b.String()
}

func row(b *strings.Builder, name string, f field) {
	kind := string(f.fate)
	if f.changes {
		kind += ", unknown"
	}
	fmt.Fprintf(b, "| %s | %s | %s |\n", name, kind, strings.ReplaceAll(f.text, "|", `\|`))
}
