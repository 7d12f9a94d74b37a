package workload_test

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// An update whose variable no template reads is refused: it would leave the objects as they are.
func TestUpdatesThatChangeNothing(t *testing.T) {
	const head = `scenario: x
bodies:
  map: {text: 'data: {at: "{{ .version }}"}'}
  part: {text: 'data: {at: "{{ if .size }}{{ .size }}{{ end }}"}'}
  whole: {text: '{{ define "t" }}{{ .any }}{{ end }}{{ template "t" . }}{{ print . }}'}
  other: {dialect: clusterloader2, text: 'data: {at: "{{ .Version }}"}'}
steps:
- {name: one, create: {body: map, with: {version: 1}, count: 1, pace: {burst: true}}}
- {name: two, create: {objects: [{body: map}, {body: part}], count: 1, with: {version: 1, size: 1}, pace: {burst: true}}}
- {name: others, create: {body: other, with: {Version: 1}, count: 1, pace: {burst: true}}}
- {name: all, create: {body: whole, count: 1, pace: {burst: true}}}
`
	const nothing = `, so that it would change nothing`
	for update, want := range map[string]string{
		"step: one, with: {version: 2}":             "",
		"step: one, with: {version: '1'}":           `f:12: step "u": update.with: step one creates its objects with the same values` + nothing,
		"step: one, body: part, with: {size: 1}":    "",
		"step: two, with: {size: 1, version: 2}":    "",
		"step: one, with: {verison: 2}":             `f:12: step "u": update.with: no template of the step reads .verison` + nothing,
		"step: one, with: {size: 2}":                `f:12: step "u": update.with: no template of the step reads .size` + nothing,
		"step: two, with: {size: 2}":                "",
		"step: two, object: map, with: {size: 2}":   `f:12: step "u": update.with: no template of the step reads .size` + nothing,
		"step: one, body: part, with: {size: 2}":    "",
		"step: one, body: part, with: {version: 2}": `f:12: step "u": update.with: no template of the step reads .version` + nothing,
		"step: others, with: {Any: 2}":              "",
		"step: all, with: {anything: 2}":            "",
	} {
		s := repotest.Must(scenario.Parse("f", []byte(head+"- {name: u, update: {"+update+", pace: {burst: true}}}\n"), nil))(t)
		said := ""
		if _, err := workload.Compile(s, "f", object.Stamp{}); err != nil {
			said = fmt.Sprint(err)
		}
		if said != want {
			t.Errorf("%s: %q, want %q", update, said, want)
		}
	}
}
