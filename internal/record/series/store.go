package series

import (
	"math"
	"slices"
	"sort"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Series is one series with its samples in the order of time. One that is a
// native histogram has no values but histograms.
type Series struct {
	record.Series
	at     []clock.Time
	values []float64
	native *native      // nil unless the series is a native histogram
	gone   []clock.Time // when it was found to be served no longer
	target *target
	from   source
}

// source says how a series' samples came to be, and thus what it means when
// there is none: an unchanged value is written once only.
type source uint8

const (
	metered source = iota // by package usage, all of a target at the same times
	scraped
	derived // from the scrapes themselves: no value is left out
)

// target is what was scraped, and when.
type target struct {
	scrapes          []clock.Time // complete ones
	failed           []clock.Time
	metered          []clock.Time
	up, took, points *Series
}

// Store holds the samples of a record stream, 16 bytes each and some 20 for
// one of a native histogram. It is filled by one goroutine and may then be
// read by many.
type Store struct {
	all         []*Series            // by record.SeriesID
	byName      map[string][]*Series // metric name -> series in the order of definition
	targets     map[string]*target
	families    []record.Family
	first, last clock.Time
	any         bool
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{byName: map[string][]*Series{}, targets: map[string]*target{}}
}

// Add adds a sample of a stream; defined are the stream's definitions so far.
func (s *Store) Add(defined []record.Series, v record.Sample) {
	one := s.seriesAt(defined, v.Series, v.At)
	one.at, one.values = append(one.at, v.At), append(one.values, v.Value)
}

// seriesAt returns the series that has a sample at a moment.
func (s *Store) seriesAt(defined []record.Series, id record.SeriesID, at clock.Time) *Series {
	for i := len(s.all); i <= int(id); i++ {
		one := &Series{Series: defined[i], target: s.targetOf(defined[i].Target)}
		s.all = append(s.all, one)
		s.byName[one.Name] = append(s.byName[one.Name], one)
	}
	one := s.all[id]
	t := one.target
	if n := len(t.scrapes); one.Len() == 0 && n > 0 && t.scrapes[n-1] == at {
		one.from = scraped
	}
	if n := len(t.metered); one.from == metered && (n == 0 || t.metered[n-1] < at) {
		t.metered = append(t.metered, at)
	}
	s.extendRange(at)
	return one
}

func (s *Store) extendRange(at clock.Time) {
	if !s.any {
		s.first, s.last, s.any = at, at, true
	}
	s.first, s.last = min(s.first, at), max(s.last, at)
}

// Span returns the times of the first and the last sample; false where there
// is none.
func (s *Store) Span() (first, last clock.Time, any bool) { return s.first, s.last, s.any }

// Families returns what targets said of the families of their series.
func (s *Store) Families() []record.Family { return s.families }

// Event takes note of a scrape; events of other types are ignored.
func (s *Store) Event(m record.Event) {
	t := s.targetOf(m.Name)
	switch n := len(t.scrapes); {
	case m.Type == record.EventScraped && (n == 0 || t.scrapes[n-1] != m.At):
		t.scrapes = append(t.scrapes, m.At)
	case m.Type == record.EventScrapeFailed:
		t.failed = append(t.failed, m.At)
		s.addDerived(&t.up, record.Series{Target: m.Name, Name: "up"}, m.At, 0)
	}
}

func (s *Store) targetOf(name string) *target {
	t, ok := s.targets[name]
	if !ok {
		t = &target{}
		s.targets[name] = t
	}
	return t
}

// Scrapes returns when a target was read completely, in the order of time; of a component
// with several processes, when the first of them was.
func (s *Store) Scrapes(target string) []clock.Time { return s.findTarget(target).scrapes }

// findTarget returns a target, or the first process of a component; an empty one where
// there is none.
func (s *Store) findTarget(name string) *target {
	for _, process := range []string{name, component.Instances(name, 2)[0]} {
		if t, ok := s.targets[process]; ok {
			return t
		}
	}
	return &target{}
}

// Scraped returns the targets that were read completely, sorted.
func (s *Store) Scraped() []string {
	var out []string
	for name, t := range s.targets {
		if len(t.scrapes) > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Metered returns when a target has samples that are of no scrape, in the order
// of time.
func (s *Store) Metered(target string) []clock.Time { return s.findTarget(target).metered }

// Select returns the series of a metric that have the given labels, in the
// order of their definition. Target empty selects all targets, a component all of its
// processes.
func (s *Store) Select(target, name string, labels map[string]string) []*Series {
	var out []*Series
	for _, one := range s.byName[name] {
		if (target == "" || component.Is(one.Target, target)) && one.Has(labels) {
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

// Len returns the number of samples that were written: those that differ from
// the one before.
func (s *Series) Len() int { return len(s.at) }

// IsHistogram says whether the series is a native histogram, which has no
// values for At and its like.
func (s *Series) IsHistogram() bool { return s.native != nil }

// First returns the time of the first sample; false where there is none.
func (s *Series) First() (clock.Time, bool) {
	if len(s.at) == 0 {
		return 0, false
	}
	return s.at[0], true
}

// Sample returns the i-th sample in the order of time.
func (s *Series) Sample(i int) (clock.Time, float64) { return s.at[i], s.values[i] }

// At returns the value at a moment: that of the last sample until then. It is
// false where nothing had been read yet.
func (s *Series) At(t clock.Time) (float64, bool) {
	if i := s.countUntil(t); i > 0 {
		return s.values[i-1], true
	}
	return 0, false
}

// Gone reports whether the series had come to an end by a moment: its target
// was found to serve it no longer, and it has no sample since. At knows nothing
// of that.
func (s *Series) Gone(t clock.Time) bool {
	n, i := sort.Search(len(s.gone), func(i int) bool { return s.gone[i] > t }), s.countUntil(t)
	return n > 0 && (i == 0 || s.gone[n-1] > s.at[i-1])
}

// Ends returns when the series was found to be served no longer, in the order of
// time.
func (s *Series) Ends() []clock.Time { return s.gone }

// Last returns the last value.
func (s *Series) Last() (float64, bool) { return s.At(math.MaxInt64) }

// Max returns the largest value in effect between two moments: that at from,
// and all samples after it until to.
func (s *Series) Max(from, to clock.Time) (float64, bool) {
	lo, hi := max(s.countUntil(from)-1, 0), s.countUntil(to)
	if lo >= hi {
		return 0, false
	}
	return slices.Max(s.values[lo:hi]), true
}

// countUntil returns how many samples were taken at t or before.
func (s *Series) countUntil(t clock.Time) int {
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
	return s.increaseWithRestarts(from, to, nil)
}

// increaseWithRestarts is Increase where it is known when the counter was restarted: it
// then began at 0, whatever it has reached since.
func (s *Series) increaseWithRestarts(from, to clock.Time, restarts []clock.Time) (float64, bool) {
	first, end := s.countUntil(from), s.countUntil(to)
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
	for i := first; i < end; i++ {
		for ; len(restarts) > 0 && restarts[0] < s.at[i]; restarts = restarts[1:] {
			sum += last // it has come to where it was
		}
		v := s.values[i]
		restarted := len(restarts) > 0 && restarts[0] == s.at[i]
		if restarted {
			restarts = restarts[1:]
		}
		if v >= last && !restarted {
			sum += v - last
		} else {
			sum += v
		}
		last = v
	}
	return sum + last*float64(len(restarts)), true
}

// findFalls returns when a counter fell after from and until to.
func (s *Series) findFalls(from, to clock.Time) []clock.Time {
	var out []clock.Time
	for i := max(1, s.countUntil(from)); i < s.countUntil(to); i++ {
		if s.values[i] < s.values[i-1] {
			out = append(out, s.at[i])
		}
	}
	return out
}

// lookedAtBefore reports whether the target had been scraped before t. The
// samples of a scrape bear the time of its mark.
func (t *target) lookedAtBefore(at clock.Time) bool {
	return len(t.scrapes) > 0 && t.scrapes[0] < at
}
