package clusterloader2

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kit/kittest"
)

// TestPage holds the page's list of fields against the tables of fates; with
// -update it writes the list anew.
func TestPage(t *testing.T) { kittest.Page(t, "coming-from-clusterloader2.md", fieldsPage()) }

// fieldsPage is the tables of fates in Markdown.
func fieldsPage() string {
	var b strings.Builder
	b.WriteString(`
This part is generated from the importer's table (` + "`go test ./internal/interop/clusterloader2 -run Page -update`" + `), and tests set each field
to see that it is so. *Honored*: the scenario does what the field says. *In part*: with the difference given here. *Noted*: the scenario
does not do it, and a note says so; with *unknown* the difference changes the load or the verdict, so that the verdict is *unknown* at best.
*Refused*: the import ends with an error.

### Configs, modules and suites

`)
	b.WriteString(kittest.Rows(allFates()))
	b.WriteString("\n### Parameters of measurements\n\nParameters that ClusterLoader2 does not read are ignored with a note, as are those that it reads with another action only.\n\n" +
		"| measurement | actions |\n|---|---|\n")
	for _, m := range listMethods() {
		if m.params.Named("*") == nil {
			actions := "none: it acts where it stands, whatever `action` says"
			if m.actions != "" {
				actions = "`" + strings.Join(strings.Fields(m.actions), "` `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", m.name, actions)
		}
	}
	b.WriteString("\n| parameter | | becomes |\n|---|---|---|\n")
	for _, m := range listMethods() {
		for _, f := range m.params {
			name := fmt.Sprintf("`%s` `%s`", m.name, f.Name)
			if f.Name == "*" {
				name = fmt.Sprintf("`%s`", m.name)
			}
			if f.When != "" {
				name += fmt.Sprintf(" (with `%s`)", f.When)
			}
			b.WriteString(kittest.Row(name, f))
		}
	}
	return b.String()
}
