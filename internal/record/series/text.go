package series

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/windtunnel/windtunnel/internal/record"
)

// textState is what a tracker knows of a target that answers in text.
type textState struct {
	body  []byte
	lines []textLine // of body
	spare []textLine
	names map[string]bool // metric name -> accepted
	index map[string]int  // text of name and labels -> index
	at    []int32         // by index: which line of body
	seen  []uint32        // by index: in which reading
	live  []bool          // by index: in the last one that succeeded
	meta  map[string]*textFamily
}

type textFamily struct {
	record.Family
	reported bool
}

// textLine is where a line stands, and whose it is: -1 where it is a comment or
// not accepted.
type textLine struct{ from, to, point int32 }

func newTextState() textState {
	return textState{names: map[string]bool{}, index: map[string]int{}, meta: map[string]*textFamily{}}
}

// textReader reads one exposition; at is the line of the one before that is
// expected next.
type textReader struct {
	*Tracker
	delta *Delta
	next  []textLine
	at    int
	fresh []int // of next: lines to be parsed in full
}

func (t *Tracker) updateText(body []byte, d *Delta) error {
	s := &t.text
	r := textReader{Tracker: t, delta: d, next: s.spare[:0]}
	for from := 0; from < len(body); {
		to := bytes.IndexByte(body[from:], '\n') + from
		if to < from {
			to = len(body)
		}
		r.readLine(body, from, to)
		from = to + 1
	}
	if err := r.parseFresh(body); err != nil {
		s.spare = r.next
		return err
	}
	s.body, s.lines, s.spare = body, r.next, s.lines
	s.reportGone(t.now, d)
	r.reportFamilies()
	return nil
}

// readLine takes one line; those never seen are left for parse.
func (r *textReader) readLine(body []byte, from, to int) {
	s, line := &r.text, body[from:to]
	entry := textLine{int32(from), int32(to), -1}
	var before textLine
	known := r.at < len(s.lines)
	if known {
		before = s.lines[r.at]
	}
	switch {
	case known && !r.resend && bytes.Equal(line, s.body[before.from:before.to]):
		entry.point = before.point
		r.at++
	case len(line) == 0:
		return
	case line[0] == '#':
		r.readComment(string(line))
	case !r.acceptsName(nameOf(line)):
		if known && before.point < 0 {
			r.at++
		}
	default:
		key, value, ok := splitLine(line)
		i, seen := s.index[string(key)]
		if !ok || !seen {
			r.fresh = append(r.fresh, len(r.next))
			break
		}
		r.at = int(s.at[i]) + 1
		r.setValue(i, value, !s.live[i], r.delta)
		entry.point = int32(i)
	}
	if entry.point >= 0 {
		s.markSeen(int(entry.point), len(r.next), r.now)
	}
	r.next = append(r.next, entry)
}

// markSeen notes that a point was seen, and in which line.
func (s *textState) markSeen(i, line int, now uint32) {
	s.at[i], s.seen[i] = int32(line), now
}

// reportGone tells the points that were in the last exposition and are not in this.
func (s *textState) reportGone(now uint32, d *Delta) {
	for i, seen := range s.seen {
		switch {
		case seen == now:
			d.Points++
		case s.live[i]:
			d.Gone = append(d.Gone, i)
		}
		s.live[i] = seen == now
	}
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

func (t *Tracker) acceptsName(name []byte) bool {
	ok, known := t.text.names[string(name)]
	if !known {
		// The name of a line such as {"a.name",...} is inside the braces; such
		// lines are rare enough to be parsed.
		ok = len(name) == 0 || t.accept(string(name))
		t.text.names[string(name)] = ok
	}
	return ok
}

// parseFresh takes the lines that were not seen before, or cannot be told by their text.
func (r *textReader) parseFresh(body []byte) error {
	if len(r.fresh) == 0 {
		return nil
	}
	lines := make([][]byte, len(r.fresh))
	for n, at := range r.fresh {
		lines[n] = body[r.next[at].from:r.next[at].to]
	}
	points, err := parseLines(lines)
	if err != nil {
		return err
	}
	s := &r.text
	for n, p := range points {
		if !r.accept(p.Name) {
			continue
		}
		text, _, ok := splitLine(lines[n])
		key := string(text)
		if !ok {
			key = pointIdentity(p.Point)
		}
		i, known := s.index[key]
		if !known {
			i = r.addPoint(p.Point)
			s.index[key] = i
			s.at, s.seen, s.live = append(s.at, 0), append(s.seen, 0), append(s.live, false)
		}
		r.setValue(i, p.value, !s.live[i], r.delta)
		r.next[r.fresh[n]].point = int32(i)
		s.markSeen(i, r.fresh[n], r.now)
	}
	return nil
}

// pointIdentity is a text for points whose lines have none that stays the same, as
// with a timestamp; no line begins so.
func pointIdentity(p Point) string { return fmt.Sprintf("\x00%s%q", p.Name, p.Labels) }

// splitLine cuts a line into the text of its name and labels and its value. It
// declines (ok is false) whatever is not plainly that, such as a timestamp
// after the value: the full parser then decides.
func splitLine(line []byte) (key []byte, value float64, ok bool) {
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

// readComment takes note of what a family is.
func (r *textReader) readComment(line string) {
	f := strings.SplitN(line, " ", 4)
	if len(f) < 4 || f[0] != "#" {
		return
	}
	family, known := r.text.meta[f[2]]
	if !known {
		family = &textFamily{Family: record.Family{Name: f[2]}}
		r.text.meta[f[2]] = family
	}
	switch f[1] {
	case "TYPE":
		if family.Type = f[3]; family.Type == "untyped" {
			family.Type = ""
		}
	case "HELP":
		family.Help = strings.NewReplacer(`\\`, `\`, `\n`, "\n").Replace(f[3])
	}
}

// reportFamilies tells of the families that are new.
func (r *textReader) reportFamilies() {
	if len(r.fresh) == 0 {
		return
	}
	var names []string
	for name, f := range r.text.meta {
		if !f.reported && slices.ContainsFunc(pointNames(name), func(part string) bool { return r.text.names[part] }) {
			names = append(names, name)
			f.reported = true
		}
	}
	slices.Sort(names)
	for _, name := range names {
		r.meta = append(r.meta, r.text.meta[name].Family)
	}
}

// parsed is a point with its value.
type parsed struct {
	Point
	value float64
}

// parseLines reads lines of the text format in full, with Prometheus' parser;
// the points are in the order of the lines.
func parseLines(lines [][]byte) ([]parsed, error) {
	// Without its TYPE a line is a sample of an untyped family, so that the
	// points of histograms come out as they stand. One parser for all lines
	// costs a sixth of one for each.
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(append(bytes.Join(lines, []byte{'\n'}), '\n')))
	if err != nil {
		return parseEach(lines)
	}
	points := make([]parsed, 0, len(lines))
	for _, line := range lines {
		family := families[string(nameOf(line))]
		if family == nil || len(family.Metric) == 0 {
			return parseEach(lines)
		}
		points = append(points, untypedSample(family))
		family.Metric = family.Metric[1:]
	}
	return points, nil
}

// untypedSample is the first sample of an untyped family.
func untypedSample(family *dto.MetricFamily) parsed {
	m := family.Metric[0]
	p := parsed{Point: Point{Name: family.GetName()}, value: m.GetUntyped().GetValue()}
	for _, l := range m.Label {
		p.Labels = append(p.Labels, record.Label{Name: l.GetName(), Value: l.GetValue()})
	}
	sortLabels(p.Labels)
	return p
}

func sortLabels(labels []record.Label) {
	slices.SortFunc(labels, func(a, b record.Label) int { return strings.Compare(a.Name, b.Name) })
}

// parseEach parses lines one by one: those that do not begin with their name,
// and those among which one is faulty, so that the error says which.
func parseEach(lines [][]byte) ([]parsed, error) {
	var points []parsed
	for _, line := range lines {
		p := expfmt.NewTextParser(model.UTF8Validation)
		families, err := p.TextToMetricFamilies(bytes.NewReader(append(bytes.Clone(line), '\n')))
		if err != nil || len(families) != 1 {
			return points, parseError(line, err)
		}
		for _, family := range families {
			points = append(points, untypedSample(family))
		}
	}
	return points, nil
}

func parseError(line []byte, err error) error {
	if err == nil {
		return fmt.Errorf("parse metrics: %.200q is not a sample", line)
	}
	return fmt.Errorf("parse metrics: %.200q: %w", line, err)
}
