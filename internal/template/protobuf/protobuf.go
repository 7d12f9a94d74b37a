// Package protobuf makes the protobuf form of a template's objects, which costs
// an API server less to read than JSON. Where a template's objects are copies
// of segments, so is their protobuf form: encoded once, cut where the objects
// differ, and filled with the lengths of what encloses the differences.
//
// It gives protobuf only where exactly the same object comes out of it. Custom
// resources, objects with fields that their type does not have (the server
// warns of them, or refuses them) and those with empty lists that protobuf
// cannot tell from none stay JSON. It sends nothing: package steps calls
// it and package load sends what it gives.
package protobuf

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/template"
)

// The media types of bodies.
const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// Template makes bodies of a template's objects. It is safe for concurrent use.
type Template struct {
	json  *template.Template
	codec *codec
	forms atomic.Pointer[[]*form] // newest last
	pool  sync.Pool               // of *scratch
}

// scratch is memory that is needed for an object.
type scratch struct {
	json  []byte
	holes []byte
	ends  []int
	sizes []int
}

// maxForms is how many are kept for one template, as package template keeps
// segments for so many.
const maxForms = 16

// New returns a template whose objects are t's.
func New(t *template.Template) *Template {
	p := &Template{json: t, codec: newCodec()}
	p.pool.New = func() any { return new(scratch) }
	return p
}

// Render appends an object to dst, as protobuf where that is possible and as
// JSON otherwise, and returns its media type. The errors are those of
// template.Render.
func (t *Template) Render(dst []byte, v template.Vars) (body []byte, mediaType string, err error) {
	s := t.pool.Get().(*scratch)
	defer t.pool.Put(s)
	if layout := t.json.Layout(v); layout.Holes() >= 0 {
		f := t.formFor(layout, v)
		switch {
		case f.never:
			body, err = t.json.Render(dst, v)
			return body, JSON, err
		case f.program != nil:
			return f.program.appendObject(dst, layout, v, s), Protobuf, nil
		}
	}
	if s.json, err = t.json.Render(s.json[:0], v); err != nil {
		return dst, JSON, err
	}
	if body, why := t.codec.appendEnvelope(dst, s.json); why == "" {
		return body, Protobuf, nil
	}
	return append(dst, s.json...), JSON, nil
}

// form is what a layout's objects are made with.
type form struct {
	layout  template.Layout
	program *program // nil: object by object
	never   bool     // such objects stay JSON
	why     string
}

// formFor returns the one for a layout, and makes it if it is the first.
func (t *Template) formFor(layout template.Layout, v template.Vars) *form {
	forms := t.forms.Load()
	if forms != nil {
		for _, f := range *forms {
			if f.layout == layout {
				return f
			}
		}
	}
	f := t.newForm(layout, v)
	for !t.forms.CompareAndSwap(forms, withForm(forms, f)) {
		forms = t.forms.Load()
	}
	return f
}

// withForm returns a copy of forms with one more; the oldest ones go.
func withForm(forms *[]*form, f *form) *[]*form {
	var out []*form
	if forms != nil {
		out = slices.Clone(*forms)
	}
	out = append(out, f)
	out = out[max(0, len(out)-maxForms):]
	return &out
}

// newForm compiles a layout, and compares what it gives with the encoding of
// several objects.
func (t *Template) newForm(layout template.Layout, v template.Vars) *form {
	f := &form{layout: layout}
	_, why := t.codec.appendEnvelope(nil, firstJSON(layout, v))
	if why != "" {
		f.never, f.why = true, why
		return f
	}
	marked := bodyOf(layout, func(dst []byte, i int) []byte { return append(dst, holeMarker(i)...) })
	encoded, why := t.codec.appendEnvelope(nil, marked)
	if why != "" {
		f.why = "a value is not a text: " + why
		return f
	}
	if f.program, f.why = compileProgram(marked, encoded, layout.Holes()); f.program == nil {
		return f
	}
	for _, o := range probeObjects() {
		o.Group, o.Seed, o.With = v.Group, v.Seed, v.With
		if t.json.Layout(o) != layout {
			continue
		}
		want, why := t.codec.appendEnvelope(nil, firstJSON(layout, o))
		if why != "" || !bytes.Equal(want, f.program.appendObject(nil, layout, o, new(scratch))) {
			f.program, f.why = nil, "a probe differed "+why
			return f
		}
	}
	return f
}

// bodyOf writes a layout's JSON with such values in its holes.
func bodyOf(layout template.Layout, hole func(dst []byte, i int) []byte) []byte {
	var out []byte
	for i := range layout.Holes() {
		out = hole(append(out, layout.Text(i)...), i)
	}
	return append(out, layout.Text(layout.Holes())...)
}

// firstJSON writes the JSON of an object.
func firstJSON(layout template.Layout, v template.Vars) []byte {
	return bodyOf(layout, func(dst []byte, i int) []byte { return layout.Append(dst, i, v) })
}

// probeObjects are objects unlike each other in the lengths of what differs.
func probeObjects() []template.Vars {
	return []template.Vars{
		{Name: "probe-0", Namespace: "default"},
		{Name: "a-rather-long-name-for-an-object-" + string(bytes.Repeat([]byte("x"), 120)), Namespace: "namespace-17", Index: 17, Replica: 12345, Call: 678},
		{Name: "object-123456", Namespace: "n-" + string(bytes.Repeat([]byte("long"), 40)), Index: 1_000_008},
	}
}
