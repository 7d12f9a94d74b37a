// Package openmetrics writes the series of a run as OpenMetrics text with
// timestamps, from which promtool makes blocks for a Prometheus server:
//
//	promtool tsdb create-blocks-from openmetrics run.om data/
//
// Every sample that a server would have scraped is written, also where a value
// did not change, so that rates over the blocks are those over the run. What
// the text cannot say is left out and counted: native histograms, and the
// moment at which a series ended.
//
// It judges nothing and computes nothing.
package openmetrics

import (
	"bufio"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// Options say what is written.
type Options struct {
	// Labels are those that series get beside their own; default series.Plain.
	Labels series.Labelling
	// Extra are labels of every series, such as the run's name, so that several
	// runs fit into one server.
	Extra []record.Label
	// Keep names the series that are written, by their metric's name; a name
	// that ends in * stands for all that begin so. None means all.
	Keep []string
	// Most is how many bytes are written at most; 0: no bound of WriteStore, and of
	// Write what records of that size warrant.
	Most int64
}

// ErrTooLarge says that the text would have more bytes than Most.
var ErrTooLarge = errors.New("the text would be too large")

// Records keep what changed, and the text repeats what did not at each scrape: a
// small file that somebody made to do harm would fill any disk.
const (
	maxFloor = 256 << 20
	maxTimes = 1000
)

// Validate says which options make no sense.
func (o Options) Validate() error {
	var faults []error
	for _, l := range o.Extra {
		if !labelName.MatchString(l.Name) {
			faults = append(faults, fmt.Errorf("label %q: a name has letters, digits and _ and does not begin with a digit", l.Name))
		}
	}
	return errors.Join(faults...)
}

var (
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
)

// Written says how much was written and what was not.
type Written struct {
	Families, Series, Samples int
	Natives                   int // native histograms left out; their classic buckets are written where there are any
	Unnamed                   int // series left out whose name the format does not know
}

// Write reads the run directory at path and writes its series to out.
func Write(out io.Writer, path string, o Options) (Written, error) {
	dir, manifest, err := record.OpenDir(path)
	if err != nil {
		return Written{}, err
	}
	if info, ok := dir.Stat(record.StreamFile); ok && o.Most == 0 {
		o.Most = max(maxFloor, min(info.Size(), math.MaxInt64/maxTimes)*maxTimes)
	}
	store, err := series.Read(dir.File(record.StreamFile))
	if err != nil {
		return Written{}, err
	}
	return WriteStore(out, store, manifest.Started, o)
}

// WriteStore writes the series of a store; epoch is the wall time of the run
// clock's zero.
func WriteStore(out io.Writer, store *series.Store, epoch time.Time, o Options) (Written, error) {
	if err := o.Validate(); err != nil {
		return Written{}, fmt.Errorf("write OpenMetrics: %w", err)
	}
	if o.Most > 0 {
		out = &bounded{out, o.Most}
	}
	w := &writer{Writer: bufio.NewWriterSize(out, 1<<16), options: o, epoch: epoch}
	for _, f := range w.groupFamilies(store) {
		w.writeFamily(f)
		if w.failed {
			break // Flush says why
		}
	}
	_, _ = w.WriteString("# EOF\n")
	if err := w.Flush(); err != nil { // the first error of any write
		return w.written, fmt.Errorf("write OpenMetrics: %w", err)
	}
	return w.written, nil
}

// targetLabels gives a target's labels and the extra ones, which win.
func (o Options) targetLabels(target string) []record.Label {
	by := o.Labels
	if by == nil {
		by = series.Plain
	}
	out := slices.Clone(o.Extra)
	for _, l := range by(target) {
		if !slices.ContainsFunc(out, func(e record.Label) bool { return e.Name == l.Name }) {
			out = append(out, l)
		}
	}
	return out
}

// bounded takes so many bytes.
type bounded struct {
	io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, ErrTooLarge
	}
	return b.Writer.Write(p)
}

// writer writes families one after another. Its errors stick until Flush.
type writer struct {
	*bufio.Writer
	failed  bool // nothing more can be written
	options Options
	epoch   time.Time
	written Written
	line    []byte
}

// family is a family and the series in it.
type family struct {
	record.Family
	series []*series.Series
}

// groupFamilies puts the series to be written into their families, sorted by name.
func (w *writer) groupFamilies(store *series.Store) []*family {
	described := map[string]record.Family{}
	for _, f := range store.Families() {
		described[f.Name] = f
	}
	byName := map[string]*family{}
	for _, name := range store.Names() {
		if !w.keepsSeries(name) {
			continue
		}
		if !metricName.MatchString(name) {
			w.written.Unnamed += len(store.Named(name))
			continue
		}
		of := familyOf(name, described)
		f, known := byName[of.Name]
		if !known {
			f = &family{Family: of}
			byName[of.Name] = f
		}
		for _, s := range store.Named(name) {
			if s.IsHistogram() {
				w.written.Natives++
			} else {
				f.series = append(f.series, s)
			}
		}
	}
	out := make([]*family, 0, len(byName))
	for _, f := range byName {
		if len(f.series) > 0 {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *family) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (w *writer) keepsSeries(name string) bool {
	return len(w.options.Keep) == 0 || slices.ContainsFunc(w.options.Keep, func(k string) bool {
		prefix, open := strings.CutSuffix(k, "*")
		return k == name || open && strings.HasPrefix(name, prefix)
	})
}

// familyOf says which family a series is of: one of histograms or summaries by
// a part of its name, else its own. What nobody described is unknown.
func familyOf(name string, described map[string]record.Family) record.Family {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			f := described[base]
			if f.Type == "histogram" || (f.Type == "summary" && suffix != "_bucket") {
				return f
			}
		}
	}
	f, known := described[name]
	switch {
	case !known || f.Type == "":
		f.Name, f.Type = name, "unknown"
	case f.Type == "counter":
		// A counter's samples end in _total, and its family's name does not.
		base, total := strings.CutSuffix(name, "_total")
		if _, taken := described[base]; total && !taken {
			f.Name = base
		} else {
			f.Type = "unknown"
		}
	}
	return f
}

func (w *writer) writeFamily(f *family) {
	w.written.Families++
	fmt.Fprintf(w, "# TYPE %s %s\n", f.Name, f.Type)
	if f.Help != "" {
		fmt.Fprintf(w, "# HELP %s %s\n", f.Name, escapeText(f.Help))
	}
	w.written.Series += len(f.series)
	for _, m := range w.groupMetrics(f) {
		if w.failed {
			return
		}
		w.writeMetric(m)
	}
}

// part is one series of a metric: one bucket of a histogram, for instance.
type part struct {
	head    []byte // name and labels
	cursor  *series.Cursor
	at      int64 // the next sample's, milliseconds
	more    bool
	base    string // the labels that all parts of the metric have
	rank    int    // order of the parts: buckets, sum, count
	place   int    // in that order
	ordered float64
}

// groupMetrics groups a family's series by the metric that they are parts of.
func (w *writer) groupMetrics(f *family) [][]*part {
	parts := make([]*part, 0, len(f.series))
	for _, s := range f.series {
		parts = append(parts, w.writePart(f, s))
	}
	slices.SortStableFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.rank, b.rank), cmp.Compare(a.ordered, b.ordered))
	})
	var out [][]*part
	for i, p := range parts {
		if i > 0 && parts[i-1].base == p.base {
			out[len(out)-1] = append(out[len(out)-1], p)
		} else {
			out = append(out, []*part{p})
		}
	}
	return out
}

func (w *writer) writePart(f *family, s *series.Series) *part {
	p := &part{cursor: s.Cursor()}
	split := f.Type == "histogram" || f.Type == "summary"
	switch {
	case split && strings.HasSuffix(s.Name, "_sum"):
		p.rank = 1
	case split && strings.HasSuffix(s.Name, "_count"):
		p.rank = 2
	}
	var base, all []byte
	for _, l := range s.Exposed(w.options.targetLabels) {
		if split && (l.Name == "le" || l.Name == "quantile") {
			p.ordered, l.Value = boundText(l.Value)
		} else {
			base = appendLabel(base, l)
		}
		all = appendLabel(all, l)
	}
	p.base = string(base)
	p.head = append([]byte(s.Name), '{')
	p.head = append(append(p.head, all...), "} "...)
	w.advanceTime(p)
	return p
}

func appendLabel(b []byte, l record.Label) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	return append(append(append(append(b, l.Name...), `="`...), escapeText(l.Value)...), '"')
}

// boundText writes the bound of a bucket or a quantile as OpenMetrics wants it: as
// a number that is not a whole one, 1.0.
func boundText(text string) (float64, string) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, text
	}
	text = numberText(v)
	if !strings.ContainsAny(text, ".eIN") {
		text += ".0"
	}
	return v, text
}

func numberText(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if text == "Inf" {
		return "+Inf"
	}
	return text
}

// advanceTime goes on to the next sample of a later millisecond.
func (w *writer) advanceTime(p *part) {
	for p.more = p.cursor.Next(); p.more; p.more = p.cursor.Next() {
		if ms := w.millisecondsOf(p.cursor.At()); !p.cursor.Stale() && ms > p.at {
			p.at = ms
			return
		}
	}
}

func (w *writer) millisecondsOf(t clock.Time) int64 { return w.epoch.Add(time.Duration(t)).UnixMilli() }

// writeMetric writes a metric's samples in the order of time, all parts of one time
// together.
func (w *writer) writeMetric(parts []*part) {
	next := soonest{}
	for i, p := range parts {
		if p.place = i; p.more {
			next = append(next, p)
		}
	}
	heap.Init(&next)
	for len(next) > 0 && !w.failed {
		w.writeSample(next[0])
		if w.advanceTime(next[0]); next[0].more {
			heap.Fix(&next, 0)
		} else {
			heap.Pop(&next)
		}
	}
}

// soonest is a heap of parts by the time of their next sample.
type soonest []*part

func (s soonest) Len() int { return len(s) }
func (s soonest) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].place < s[j].place
}
func (s soonest) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *soonest) Push(p any)   { *s = append(*s, p.(*part)) }
func (s *soonest) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

func (w *writer) writeSample(p *part) {
	w.written.Samples++
	w.line = append(w.line[:0], p.head...)
	w.line = append(w.line, numberText(p.cursor.Value())...)
	w.line = append(w.line, ' ')
	w.line = strconv.AppendInt(w.line, p.at/1000, 10)
	w.line = append(w.line, '.', byte('0'+p.at/100%10), byte('0'+p.at/10%10), byte('0'+p.at%10), '\n')
	if _, err := w.Write(w.line); err != nil {
		w.failed = true
	}
}

func escapeText(s string) string {
	if !strings.ContainsAny(s, "\\\n\"") {
		return s // nearly all
	}
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(s)
}
