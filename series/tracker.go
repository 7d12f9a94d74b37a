package series

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// Tracker reads the expositions of one target one after another, in the text
// format, and tells which points changed. It remembers the text of every
// point's name and labels, so that a point is parsed in full only when it is
// first seen: reading megabytes again costs a search for line ends, one look-up
// and one number for each accepted line. One goroutine uses it.
type Tracker struct {
	accept func(name string) bool
	names  map[string]bool // metric name -> accepted
	index  map[string]int  // text of name and labels -> index in points
	points []Point         // with their latest values
}

// NewTracker returns a tracker of the points whose name accept holds for.
func NewTracker(accept func(name string) bool) *Tracker {
	return &Tracker{accept: accept, names: map[string]bool{}, index: map[string]int{}}
}

// Point returns the point with this index and its latest value.
func (t *Tracker) Point(i int) Point { return t.points[i] }

// Len returns how many points have been seen; their indexes run from 0.
func (t *Tracker) Len() int { return len(t.points) }

// Update reads an exposition and calls changed for each accepted point that
// has another value than in the one before, and then for each new one; new
// points have the next index. Where a line cannot be parsed no new point is
// taken, and the error says which it is.
func (t *Tracker) Update(body []byte, changed func(index int, value float64)) error {
	var last []byte // name of the last line, and whether it was accepted
	var accepted bool
	var fresh [][]byte
	for len(body) > 0 {
		line := body
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			line, body = body[:end], body[end+1:]
		} else {
			body = nil
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		// Lines of one metric follow each other: most are told by comparing.
		if n := len(last); n == 0 || len(line) <= n || !nameEnds(line[n]) || !bytes.Equal(line[:n], last) {
			last = nameOf(line)
			accepted = t.accepts(last)
		}
		if accepted && !t.known(line, changed) {
			fresh = append(fresh, line)
		}
	}
	return t.add(fresh, changed)
}

func nameEnds(c byte) bool { return c == '{' || c == ' ' || c == '\t' }

func nameOf(line []byte) []byte {
	for i, c := range line {
		if nameEnds(c) {
			return line[:i]
		}
	}
	return line
}

func (t *Tracker) accepts(name []byte) bool {
	ok, known := t.names[string(name)]
	if !known {
		// The name of a line such as {"a.name",...} is inside the braces; such
		// lines are rare enough to be parsed.
		ok = len(name) == 0 || t.accept(string(name))
		t.names[string(name)] = ok
	}
	return ok
}

// known takes the value of a line whose point was seen before; it is false for
// another line.
func (t *Tracker) known(line []byte, changed func(int, float64)) bool {
	key, value, ok := split(line)
	if !ok {
		return false
	}
	i, ok := t.index[string(key)]
	if !ok {
		return false
	}
	if p := &t.points[i]; !same(p.Value, value) {
		p.Value = value
		changed(i, value)
	}
	return true
}

// add takes lines that were not seen before, or cannot be told by their text.
func (t *Tracker) add(lines [][]byte, changed func(int, float64)) error {
	if len(lines) == 0 {
		return nil
	}
	points, err := parseLines(lines)
	if err != nil {
		return err
	}
	for n, p := range points {
		if !t.accept(p.Name) {
			continue
		}
		text, _, ok := split(lines[n])
		key := string(text)
		if !ok {
			key = identity(p)
		}
		i, known := t.index[key]
		switch {
		case !known:
			i = len(t.points)
			t.index[key] = i
			t.points = append(t.points, p)
		case same(t.points[i].Value, p.Value):
			continue
		}
		t.points[i].Value = p.Value
		changed(i, p.Value)
	}
	return nil
}

// identity is a text for points whose lines have none that stays the same, as
// with a timestamp; no line begins so.
func identity(p Point) string { return fmt.Sprintf("\x00%s%q", p.Name, p.Labels) }

// same compares values; a NaN (a quantile of an empty summary) is its like.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// split cuts a line into the text of its name and labels and its value. It
// declines (ok is false) whatever is not plainly that, such as a timestamp
// after the value: the full parser then decides.
func split(line []byte) (key []byte, value float64, ok bool) {
	at := bytes.LastIndexByte(line, ' ')
	if at <= 0 || at == len(line)-1 {
		return nil, 0, false
	}
	key = line[:at]
	if key[len(key)-1] != '}' && bytes.ContainsAny(key, " \t}") {
		return nil, 0, false
	}
	value, err := strconv.ParseFloat(string(line[at+1:]), 64)
	if err != nil {
		return nil, 0, false
	}
	return key, value, true
}
