package series

import (
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/record"
)

// Series is one series with its samples in the order of time.
type Series struct {
	record.Series
	at     []clock.Time
	values []float64
	target *target
}

// target is when something was scraped.
type target struct{ scrapes []clock.Time }

// Store holds the samples of a record stream, 16 bytes each. It is filled by
// one goroutine and may then be read by many.
type Store struct {
	all     []*Series            // by record.SeriesID
	byName  map[string][]*Series // metric name -> series in the order of definition
	targets map[string]*target
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{byName: map[string][]*Series{}, targets: map[string]*target{}}
}

// Add adds a sample of a stream; defined are the stream's definitions so far.
func (s *Store) Add(defined []record.Series, v record.Sample) {
	for i := len(s.all); i <= int(v.Series); i++ {
		one := &Series{Series: defined[i], target: s.target(defined[i].Target)}
		s.all = append(s.all, one)
		s.byName[one.Name] = append(s.byName[one.Name], one)
	}
	one := s.all[v.Series]
	one.at, one.values = append(one.at, v.At), append(one.values, v.Value)
}

// Mark takes note of a scrape; marks of other kinds are ignored.
func (s *Store) Mark(m record.Mark) {
	if m.Kind == record.MarkScrape {
		t := s.target(m.Name)
		t.scrapes = append(t.scrapes, m.At)
	}
}

func (s *Store) target(name string) *target {
	t, ok := s.targets[name]
	if !ok {
		t = &target{}
		s.targets[name] = t
	}
	return t
}

// Scrapes returns when a target was read completely, in the order of time.
func (s *Store) Scrapes(target string) []clock.Time {
	if t, ok := s.targets[target]; ok {
		return t.scrapes
	}
	return nil
}

// Select returns the series of a metric that have the given labels, in the
// order of their definition. Target empty selects all targets.
func (s *Store) Select(target, name string, labels map[string]string) []*Series {
	var out []*Series
	for _, one := range s.byName[name] {
		if (target == "" || one.Target == target) && one.Has(labels) {
			out = append(out, one)
		}
	}
	return out
}

// Targets returns the targets that have a series of this name, sorted.
func (s *Store) Targets(name string) []string {
	var out []string
	for _, one := range s.byName[name] {
		if !slices.Contains(out, one.Target) {
			out = append(out, one.Target)
		}
	}
	slices.Sort(out)
	return out
}

// Label returns the value of a label, empty where the series does not have it.
func (s *Series) Label(name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// Has reports whether the series has all these labels; as in PromQL an empty
// value means that the label is absent.
func (s *Series) Has(labels map[string]string) bool {
	for name, value := range labels {
		if s.Label(name) != value {
			return false
		}
	}
	return true
}

// Len returns the number of samples.
func (s *Series) Len() int { return len(s.at) }

// Sample returns the i-th sample in the order of time.
func (s *Series) Sample(i int) (clock.Time, float64) { return s.at[i], s.values[i] }

// At returns the value at a moment: that of the last sample until then. It is
// false where nothing had been read yet.
func (s *Series) At(t clock.Time) (float64, bool) {
	if i := s.until(t); i > 0 {
		return s.values[i-1], true
	}
	return 0, false
}

// Last returns the last value.
func (s *Series) Last() (float64, bool) { return s.At(math.MaxInt64) }

// Max returns the largest value in effect between two moments: that at from,
// and all samples after it until to.
func (s *Series) Max(from, to clock.Time) (float64, bool) {
	lo, hi := max(s.until(from)-1, 0), s.until(to)
	if lo >= hi {
		return 0, false
	}
	return slices.Max(s.values[lo:hi]), true
}

// until returns how many samples were taken at t or before.
func (s *Series) until(t clock.Time) int {
	return sort.Search(len(s.at), func(i int) bool { return s.at[i] > t })
}

// Increase returns by how much a counter rose from one moment to another: the
// sum of its rises, where a fall is taken for a restart from 0. Nothing is
// extrapolated, unlike PromQL's increase: it is the difference of values that
// were read, and a count of whole calls is a whole number.
//
// A counter that appears after its target had been scraped rose from 0. One
// that was there when its target was first looked at counts from that look.
// It is false where nothing is known of the time: no sample until to.
func (s *Series) Increase(from, to clock.Time) (float64, bool) {
	first, end := s.until(from), s.until(to)
	if end == 0 {
		return 0, false
	}
	var sum, last float64
	switch {
	case first > 0:
		last = s.values[first-1]
	case s.target.lookedAtBefore(s.at[0]):
		last = 0
	default:
		last, first = s.values[0], 1
	}
	for _, v := range s.values[first:max(first, end)] {
		if v >= last {
			sum += v - last
		} else {
			sum += v
		}
		last = v
	}
	return sum, true
}

// lookedAtBefore reports whether the target had been scraped before t. The
// samples of a scrape bear the time of its mark.
func (t *target) lookedAtBefore(at clock.Time) bool {
	return len(t.scrapes) > 0 && t.scrapes[0] < at
}

// Buckets is the increase of one classic histogram.
type Buckets struct {
	Labels []record.Label // those that it was grouped by, sorted by name
	UpTo   []float64      // ascending, the last is +Inf
	Counts []float64      // cumulative
	Sum    float64        // of NAME_sum
}

// Histograms returns the increases of a histogram family of one target between
// two moments, added up over the series that agree in the labels of by; keep
// decides by a series' labels whether it takes part, nil takes all. Groups
// are in the order of their labels' values. Histograms without an increase
// are left out; known is false when the family has no series at all.
func (s *Store) Histograms(q HistogramQuery) (groups []Buckets, known bool) {
	sums := map[string]*grouped{}
	for _, one := range s.Select(q.Target, q.Family+"_bucket", q.Labels) {
		known = true
		le, err := strconv.ParseFloat(one.Label("le"), 64)
		rise, ok := one.Increase(q.From, q.To)
		if err != nil || !ok || (q.Keep != nil && !q.Keep(one)) {
			continue
		}
		g := groupOf(sums, one, q.By)
		g.counts[le] += rise
	}
	for _, one := range s.Select(q.Target, q.Family+"_sum", q.Labels) {
		if rise, ok := one.Increase(q.From, q.To); ok && (q.Keep == nil || q.Keep(one)) {
			groupOf(sums, one, q.By).sum += rise
		}
	}
	return ordered(sums), known
}

// HistogramQuery says which histograms, over what time and how grouped.
type HistogramQuery struct {
	Target, Family string
	Labels         map[string]string // must be equal
	Keep           func(*Series) bool
	By             []string // names of labels, sorted
	From, To       clock.Time
}

type grouped struct {
	labels []record.Label
	counts map[float64]float64 // upper bound -> cumulative count
	sum    float64
}

func groupOf(sums map[string]*grouped, one *Series, by []string) *grouped {
	key := make([]byte, 0, 64)
	for _, name := range by {
		key = append(append(key, one.Label(name)...), 0)
	}
	g, ok := sums[string(key)]
	if !ok {
		g = &grouped{counts: map[float64]float64{}}
		for _, name := range by {
			g.labels = append(g.labels, record.Label{Name: name, Value: one.Label(name)})
		}
		sums[string(key)] = g
	}
	return g
}

func ordered(sums map[string]*grouped) []Buckets {
	keys := make([]string, 0, len(sums))
	for key, g := range sums {
		if g.counts[math.Inf(1)] > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	out := make([]Buckets, 0, len(keys))
	for _, key := range keys {
		g := sums[key]
		b := Buckets{Labels: g.labels, Sum: g.sum}
		for le := range g.counts {
			b.UpTo = append(b.UpTo, le)
		}
		slices.Sort(b.UpTo)
		for _, le := range b.UpTo {
			b.Counts = append(b.Counts, g.counts[le])
		}
		out = append(out, b)
	}
	return out
}
