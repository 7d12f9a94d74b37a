package template

import (
	"maps"
	texttemplate "text/template"

	"github.com/windtunnel/windtunnel/internal/text/limit"
)

// executor is one copy of a template with the state that its functions need.
// It serves one goroutine at a time.
type executor struct {
	template *texttemplate.Template
	out      bounded
	dialect  Dialect
	vars     Vars
	calls    int       // random functions called so far for this object
	probe    *[]random // when set, random functions give markers and are listed here
}

func newExecutor(parsed *texttemplate.Template, d Dialect) *executor {
	x := &executor{dialect: d}
	// Clone fails only for templates of html/template that were executed.
	x.template = texttemplate.Must(parsed.Clone()).Funcs(limit.Functions(d.Functions(Source{x})))
	return x
}

// executeTemplate returns the template's text for an object; it is valid until the
// next call. With a probe, random functions write markers.
func (x *executor) executeTemplate(v Vars, probe *[]random) ([]byte, error) {
	x.vars, x.calls, x.probe, x.out = v, 0, probe, x.out[:0]
	data := make(map[string]any, len(v.With)+5)
	maps.Copy(data, v.With)
	x.dialect.Variables(v, data)
	err := x.template.Execute(&limit.Writer{To: &x.out}, data)
	return x.out, err
}

// bounded is a buffer that refuses to grow beyond MaxOutput.
type bounded []byte

func (b *bounded) Write(p []byte) (int, error) {
	if len(*b)+len(p) > MaxOutput {
		return 0, ErrTooLarge
	}
	*b = append(*b, p...)
	return len(p), nil
}
