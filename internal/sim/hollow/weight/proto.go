package weight

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrDeep says that messages are nested more than 10,000 deep.
var ErrDeep = errors.New("exceeded max depth")

// Layout is what the fields of a protobuf message become in Go.
type Layout struct {
	fields map[protowire.Number]field
}

type field struct {
	size    int     // bytes that each occurrence takes
	message *Layout // nil of what is no message
}

// LayoutOf returns the layout of a Go type that has a protobuf form.
func LayoutOf(t reflect.Type) *Layout { return layoutOf(t, map[reflect.Type]*Layout{}) }

func layoutOf(t reflect.Type, known map[reflect.Type]*Layout) *Layout {
	if l := known[t]; l != nil {
		return l
	}
	l := &Layout{fields: map[protowire.Number]field{}}
	known[t] = l
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		if number, err := strconv.Atoi(tag[1]); err == nil {
			l.fields[protowire.Number(number)] = fieldOf(f.Type, known)
		}
	}
	return l
}

// grown is how much of a slice or map is allocated for each element: the last growth
// doubles it and leaves the former one behind.
const grown = 2

func fieldOf(t reflect.Type, known map[reflect.Type]*Layout) field {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return field{}
		}
		return field{grown * int(t.Elem().Size()), messageOf(t.Elem(), known)}
	case reflect.Map:
		value := fieldOf(t.Elem(), known)
		value.size = 0
		entry := &Layout{fields: map[protowire.Number]field{2: value}}
		return field{grown * int(t.Key().Size()+t.Elem().Size()+8), entry}
	case reflect.Pointer:
		return field{int(t.Elem().Size()), messageOf(t.Elem(), known)}
	}
	return field{message: messageOf(t, known)}
}

func messageOf(t reflect.Type, known map[reflect.Type]*Layout) *Layout {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return layoutOf(t, known)
}

// Proto is what a protobuf message holds.
type Proto struct {
	Values int // fields, also of messages in it
	Bytes  int // about what it takes once it is decoded, without the bytes of its texts
}

// Weigh counts what a message holds. The error is ErrDeep.
func (l *Layout) Weigh(raw []byte) (p Proto, err error) {
	err = l.weigh(raw, maxDepth, &p)
	return p, err
}

func (l *Layout) weigh(raw []byte, depth int, p *Proto) error {
	if depth == 0 {
		return ErrDeep
	}
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return nil // the decoder says what is wrong
		}
		length := protowire.ConsumeFieldValue(number, kind, raw[n:])
		if length < 0 {
			return nil
		}
		value := raw[n : n+length]
		raw = raw[n+length:]
		f := l.fields[number]
		p.Values++
		if p.Bytes += f.size; f.message == nil || kind != protowire.BytesType {
			continue
		}
		inner, _ := protowire.ConsumeBytes(value)
		if err := f.message.weigh(inner, depth-1, p); err != nil {
			return err
		}
	}
	return nil
}
