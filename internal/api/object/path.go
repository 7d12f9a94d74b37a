package object

import "sync/atomic"

// Path is a way down through the fields of objects. It remembers the fields of the
// messages that it went through last.
type Path struct {
	names []*Name
	bound atomic.Pointer[boundPath]
}

// boundPath is the part of a path that leads through single messages, and one
// field further.
type boundPath struct {
	schema *Schema
	fields []int
}

// NewPath returns a path.
func NewPath(names ...string) *Path {
	p := &Path{}
	for _, name := range names {
		p.names = append(p.names, NewName(name))
	}
	return p
}

// In returns what the path leads to: missing below what is missing, and not ok
// below what is no object.
func (p *Path) In(v Value) (Value, bool) {
	i := 0
	if v.message != nil && v.Kind == Object && !v.entries {
		v, i = p.inMessage(v.message)
	}
	for ; i < len(p.names); i++ {
		if v.Kind != Object && v.Kind != Missing {
			return Value{}, false
		}
		v = v.Field(p.names[i])
	}
	return v, true
}

// inMessage goes as far as messages do, and says how far that is.
func (p *Path) inMessage(m *Message) (Value, int) {
	b := p.bound.Load()
	if b == nil || b.schema != m.schema {
		b = p.bindSchema(m.schema)
	}
	if len(b.fields) == 0 {
		return Value{Kind: Object, message: m}, 0
	}
	last := len(b.fields) - 1
	for i, at := range b.fields[:last] {
		s := &m.spans[at]
		if s.message == nil || m.bad {
			v := m.fieldAt(at)
			if v.message == nil {
				return v, i + 1
			}
			m = v.message
			continue
		}
		m = s.message
	}
	return m.fieldAt(b.fields[last]), len(b.fields)
}

func (p *Path) bindSchema(s *Schema) *boundPath {
	b := &boundPath{schema: s}
	for _, name := range p.names {
		at, ok := s.byName[name.text]
		if !ok {
			break
		}
		b.fields = append(b.fields, at)
		f := &s.fields[at]
		if f.form != messageForm || f.repeated {
			break
		}
		s = f.message
	}
	p.bound.Store(b)
	return b
}
