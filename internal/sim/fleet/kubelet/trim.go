package kubelet

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// plan says which fields of a message are kept: by number, with the plan of the
// message in it or nil for all of it.
type plan map[protowire.Number]*plan

// fieldsAlwaysKept are the fields that are kept whatever metrics speak of: those that
// find an object, and the time that SinceSecond asks for.
func fieldsAlwaysKept() map[string][]string {
	return map[string][]string{
		"metadata":   {"name", "namespace", "uid", "creationTimestamp"},
		"spec":       {"nodeName", "containers"},
		"containers": {"name"},
	}
}

// plansFor returns what is kept of pods and nodes when metrics speak of words: to
// speak of a field is to name it.
func plansFor(words []string) (pods, nodes *plan) {
	return planOf(reflect.TypeFor[corev1.Pod](), words), planOf(reflect.TypeFor[corev1.Node](), words)
}

func planOf(t reflect.Type, words []string) *plan {
	out := plan{}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, number, ok := protobufTag(f); ok {
			p := fieldsOf(name, f.Type, words)
			out[number] = &p
		}
	}
	return &out
}

// fieldsOf returns the plan of metadata, spec or status, or of a container.
func fieldsOf(name string, t reflect.Type, words []string) plan {
	out := plan{}
	for i := range t.NumField() {
		f := t.Field(i)
		field, number, ok := protobufTag(f)
		if !ok || !slices.Contains(words, field) && !slices.Contains(fieldsAlwaysKept()[name], field) {
			continue
		}
		out[number] = nil
		if field == "containers" && name == "spec" {
			p := fieldsOf(field, f.Type.Elem(), words)
			out[number] = &p
		}
	}
	return out
}

// protobufTag returns a field's name in JSON and its number on the wire.
func protobufTag(f reflect.StructField) (name string, number protowire.Number, ok bool) {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return "", 0, false
	}
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name, protowire.Number(n), true
}

// trimMessage returns a message with only the fields that are planned.
func trimMessage(raw []byte, p *plan) ([]byte, error) {
	return appendTrimmed(make([]byte, 0, 256), raw, p)
}

func appendTrimmed(out, raw []byte, p *plan) ([]byte, error) {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return nil, fmt.Errorf("read object: %w", protowire.ParseError(n))
		}
		m := protowire.ConsumeFieldValue(number, kind, raw[n:])
		if m < 0 {
			return nil, fmt.Errorf("read object: %w", protowire.ParseError(m))
		}
		field, value := raw[:n+m], raw[n:n+m]
		raw = raw[n+m:]
		inner, kept := (*p)[number]
		switch {
		case !kept:
		case inner == nil || kind != protowire.BytesType:
			out = append(out, field...)
		default:
			body, _ := protowire.ConsumeBytes(value)
			less, err := trimMessage(body, inner)
			if err != nil {
				return nil, err
			}
			out = protowire.AppendBytes(protowire.AppendTag(out, number, kind), less)
		}
	}
	return out, nil
}

// startedIn counts the containers of a pod that have run: those whose status
// has the state running or terminated. Field numbers are those of
// k8s.io/api/core/v1/generated.proto.
func startedIn(raw []byte) int {
	n := 0
	for status := range object.Fields(raw, 3) {
		for container := range object.Fields(status, 8) {
			if state := object.Field(container, 2); object.Field(state, 2) != nil || object.Field(state, 3) != nil {
				n++
			}
		}
	}
	return n
}
