package object

import "time"

// Document is an object's message, of which each part is read when it is asked
// for, once. Its memory serves one object after another: values that point into
// it end with the next Reset.
type Document struct {
	messages []*Message
	used     int
}

// Message is a part of a document.
type Message struct {
	document *Document
	schema   *Schema
	raw      []byte
	spans    []span   // of each field of the schema
	bad      bool     // it is malformed
	next     *Message // the next element of the same list
}

// span is where a field's content stands; of a repeated one and of a number where
// its first tag begins. It is absent where to is 0.
type span struct {
	from, to uint32
	message  *Message
}

// Reset begins another object and returns it.
func (d *Document) Reset(s *Schema, raw []byte) Value {
	d.used = 0
	return Value{Kind: Object, message: d.newMessage(s, raw)}
}

func (d *Document) newMessage(s *Schema, raw []byte) *Message {
	if d.used == len(d.messages) {
		d.messages = append(d.messages, &Message{document: d})
	}
	m := d.messages[d.used]
	d.used++
	m.schema, m.raw, m.next = s, raw, nil
	if cap(m.spans) < len(s.fields) {
		m.spans = make([]span, len(s.fields))
	}
	m.spans = m.spans[:len(s.fields)]
	clear(m.spans)
	m.indexFields()
	return m
}

// indexFields notes where each field stands.
func (m *Message) indexFields() {
	w := walk{rest: m.raw}
	end := uint32(len(m.raw))
	for before := uint32(0); w.nextField(); before = end - uint32(len(w.rest)) {
		if w.num >= uint64(len(m.schema.byNumber)) || m.schema.byNumber[w.num] == 0 {
			continue
		}
		at := m.schema.byNumber[w.num] - 1
		f, s := &m.schema.fields[at], &m.spans[at]
		to := end - uint32(len(w.rest))
		switch {
		case f.repeated || f.form == textMapForm || f.form == quantityMapForm:
			if s.to == 0 {
				s.from, s.to = before, to
			}
		case w.data != nil:
			s.from, s.to = to-uint32(len(w.data)), to
		default:
			s.from, s.to = before, to
		}
	}
	m.bad = m.bad || w.err != nil
}

// fieldAt returns a field by its index, as JSON would have it.
func (m *Message) fieldAt(at int) Value {
	f, s := &m.schema.fields[at], &m.spans[at]
	if m.bad || f.form == unread {
		return Value{Kind: Unknown}
	}
	if s.to == 0 {
		return f.absentValue(m)
	}
	switch {
	case f.form == textMapForm || f.form == quantityMapForm:
		return Value{Kind: Object, message: m, n: int64(at), entries: true}
	case f.repeated:
		return Value{Kind: Array, message: m, n: int64(at)}
	}
	switch f.form {
	case numberForm, boolForm:
		w := walk{rest: m.raw[s.from:s.to]}
		w.nextField()
		n := int64(w.value)
		if n == 0 && f.omitted && !f.pointer {
			return Value{}
		}
		if f.form == boolForm {
			return Value{Kind: Bool, n: n}
		}
		return Value{Kind: Number, n: n}
	case messageForm:
		if s.message == nil {
			s.message = m.document.newMessage(f.message, m.raw[s.from:s.to])
		}
		return Value{Kind: Object, message: s.message}
	case timeForm:
		return timeOf(m.raw[s.from:s.to], f)
	case quantityForm:
		return Value{Kind: String, text: string(Field(m.raw[s.from:s.to], 1))}
	}
	if s.from == s.to && f.omitted && !f.pointer {
		return Value{}
	}
	return Value{Kind: String, message: m, n: int64(s.from)<<32 | int64(s.to)}
}

// firstElement returns the first element of a list of messages.
func (m *Message) firstElement(at int64) *Message {
	s := &m.spans[at]
	if s.message == nil {
		last := &s.message
		f := &m.schema.fields[at]
		for w := (walk{rest: m.raw[s.from:]}); w.nextField(); {
			if w.num == f.number {
				*last = m.document.newMessage(f.message, w.data)
				last = &(*last).next
			}
		}
	}
	return s.message
}

// absentValue is what JSON has for a field that protobuf leaves out.
func (f *field) absentValue(m *Message) Value {
	plain := !f.repeated && !f.pointer
	switch {
	case plain && f.form == messageForm:
		return Value{Kind: Object, message: m.document.newMessage(f.message, nil)}
	case f.omitted:
		return Value{}
	case plain && f.form == textForm:
		return Value{Kind: String}
	case plain && f.form == numberForm:
		return Value{Kind: Number}
	case plain && f.form == boolForm:
		return Value{Kind: Bool}
	case plain && f.form == quantityForm:
		return Value{Kind: String, text: "0"}
	}
	return Value{Kind: Null}
}

func timeOf(raw []byte, f *field) Value {
	var at time.Time
	for w := (walk{rest: raw}); w.nextField(); {
		if w.num == 1 {
			at = time.Unix(int64(w.value), 0)
		}
	}
	if !at.IsZero() {
		return Value{Kind: String, text: at.UTC().Format(time.RFC3339)}
	}
	if f.omitted && !f.pointer {
		return Value{} // omitzero
	}
	return Value{Kind: Null}
}
