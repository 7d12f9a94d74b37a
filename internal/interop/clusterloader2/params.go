package clusterloader2

import (
	"fmt"
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
)

// call is one use of a measurement: a method with the parameters in force.
type call struct {
	method, identifier string
	params             config.Params
	where              config.Position
	field              string // such as steps[3].measurements[0]
	im                 *importer
}

// paramPosition is the place of a parameter.
func (c call) paramPosition(name string) config.Position {
	if line, ok := c.params.Lines[name]; ok {
		return config.Position{File: c.params.File, Line: line}
	}
	return c.where
}

func (c call) addFault(name, format string, args ...any) {
	c.im.faults.addAt(c.paramPosition(name), "%s: %s: %s", c.method, name, fmt.Sprintf(format, args...))
}

// addNote says what is different of this method.
func (c call) addNote(format string, args ...any) { c.im.addNote(c.where, c.method, format, args...) }

// noteDifference is a note of a difference that changes the load or the verdict.
func (c call) noteDifference(format string, args ...any) {
	c.im.noteDifference(c.where, c.method, format, args...)
}

func (c call) has(name string) bool { v, ok := c.params.Values[name]; return ok && v != nil }

func (c call) readText(name, fallback string) string {
	switch v := c.params.Values[name].(type) {
	case nil:
		return fallback
	case string:
		return v
	default:
		c.addFault(name, "%v is not a text", v)
		return fallback
	}
}

// needText is text that has to be there.
func (c call) needText(name string) string {
	if !c.has(name) {
		c.im.faults.addAt(c.where, "%s: %s is needed", c.method, name)
	}
	return c.readText(name, "")
}

func (c call) readDuration(name string, fallback time.Duration) time.Duration {
	if !c.has(name) {
		return fallback
	}
	var d config.Duration
	if err := d.UnmarshalText([]byte(fmt.Sprint(c.params.Values[name]))); err != nil {
		c.addFault(name, "%v", err)
		return fallback
	}
	return time.Duration(d)
}

func (c call) readNumber(name string, fallback float64) float64 {
	switch v := c.params.Values[name].(type) {
	case nil:
		return fallback
	case float64:
		return v
	default:
		c.addFault(name, "%v is not a number", v)
		return fallback
	}
}

// readInt is a whole number; others are truncated, as ClusterLoader2 does.
func (c call) readInt(name string, fallback int) int {
	f := c.readNumber(name, float64(fallback))
	if f != math.Trunc(f) {
		c.im.addNote(c.paramPosition(name), c.method+" "+name, "%v is truncated to %d, as in ClusterLoader2", f, int(f))
	}
	return int(f)
}

// readCount is a whole number that has to be there, of at least 0; false, with a
// fault, where it is not.
func (c call) readCount(name string) (int, bool) {
	if !c.has(name) {
		c.im.faults.addAt(c.where, "%s: %s is needed", c.method, name)
		return 0, false
	}
	n := c.readInt(name, 0)
	if n < 0 {
		c.addFault(name, "%d is below 0", n)
	}
	return n, n >= 0
}

func (c call) readTruth(name string, fallback bool) bool {
	switch v := c.params.Values[name].(type) {
	case nil:
		return fallback
	case bool:
		return v
	default:
		c.addFault(name, "%v is not true or false", v)
		return fallback
	}
}

// readList is a list of parameters' fields: queries.
func (c call) readList(name string) []call {
	if !c.has(name) {
		return nil
	}
	items, ok := c.params.Values[name].([]any)
	if !ok {
		c.addFault(name, "%v is not a list", c.params.Values[name])
		return nil
	}
	var out []call
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			c.addFault(name, "[%d]: %v in place of fields", i, item)
			continue
		}
		inner := c
		inner.where = c.paramPosition(name)
		inner.params = config.Params{Values: fields, Place: c.params.Place}
		out = append(out, inner)
	}
	return out
}

func (c call) readTexts(name string) []string {
	var out []string
	switch v := c.params.Values[name].(type) {
	case nil:
	case []any:
		for _, item := range v {
			out = append(out, fmt.Sprint(item))
		}
	default:
		c.addFault(name, "%v is not a list", v)
	}
	return out
}
