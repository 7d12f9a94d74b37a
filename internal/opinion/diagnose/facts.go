package diagnose

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Facts are all that a diagnosis is made of.
type Facts struct {
	Window  Window
	Coarse  bool      // the window is shorter than the interval of scrapes: only what is sampled each second is asked for
	Epoch   time.Time // wall time of the run clock's zero
	Machine record.Machine
	// Components are those of the plane, and the subjects, as they were started, for their flags and
	// limits; none of a plane that windtunnel did not start.
	Components []record.ComponentFact
	Sharing    []string // components that share the limits of the plane as a whole, which is one of Components then
	Remote     bool     // the plane is on other machines than windtunnel
	Load       Waiting  // calls of the load
	Fleet      Waiting  // calls of the simulated nodes
	Deaths     []Death
	Answers    map[string]Answer     // of the expressions, by their names in this package
	Contended  map[string]Contention // by component: what its profile says of locks
}

// Window is the time that is looked at, in slices: from the run's first call of
// the load until what it has set in motion is at rest.
type Window struct {
	From, To clock.Time
	Slices   int
}

// Step is the length of a slice.
func (w Window) Step() time.Duration { return w.To.Sub(w.From) / time.Duration(max(1, w.Slices)) }

// The slices of a window: no shorter than the interval of scrapes, and as many
// as make a picture.
const (
	minSlice  = 5 * time.Second
	maxSlices = 60
)

// newWindow cuts the time from one moment to another into slices.
func newWindow(from, to clock.Time) Window {
	return Window{from, to, min(max(1, int(to.Sub(from)/minSlice)), maxSlices)}
}

// Waiting says how many calls of windtunnel's own were waiting, on average over
// each slice.
type Waiting struct {
	Overdue  []float64 // due for longer than run.Late, and not yet sent
	InFlight []float64 // due, and not yet answered
	Late     int       // calls that were sent later than run.Late
	Calls    int
	Worst    time.Duration // the longest from due to sent
}

// Death is a component that ended by itself.
type Death struct {
	Component string
	Limit     record.MemoryLimit // at which it was killed, if that is why
}

// Contention is where goroutines of a component waited longest for a lock.
type Contention struct {
	File    string  // the profile, below the run directory
	Seconds float64 // that goroutines waited for all locks together, since the component started
	Where   string  // the function that waited longest
	Share   float64 // of Seconds that it did
}

// Answer is what an expression gave.
type Answer struct {
	Expr   string // over the whole window
	Series []Series
}

// Series is one series of an answer.
type Series struct {
	Labels map[string]string
	Whole  float64   // over the whole window
	Slices []float64 // over each slice; 0 where there was none
}

// componentFact returns what is known of a component.
func (f *Facts) componentFact(name string) record.ComponentFact {
	for _, c := range f.Components {
		if c.Name == name {
			return c
		}
	}
	return record.ComponentFact{Name: name}
}

// componentNames returns the components that an answer is about.
func (f *Facts) componentNames(question string) []string {
	var out []string
	for _, s := range f.Answers[question].Series {
		if name := s.Labels[instance]; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// findSeries returns the series of an answer with these labels, given in pairs.
func (f *Facts) findSeries(question string, labels ...string) (Series, bool) {
	for _, s := range f.Answers[question].Series {
		if s.hasLabels(labels) {
			return s, true
		}
	}
	return Series{}, false
}

// hasLabels reports whether a series has these labels, given in pairs. The name of a
// component stands for all of its processes.
func (s Series) hasLabels(labels []string) bool {
	for pair := range slices.Chunk(labels, 2) {
		is := s.Labels[pair[0]]
		if is != pair[1] && (pair[0] != instance || !component.Is(is, pair[1])) {
			return false
		}
	}
	return true
}

// wholeValue returns the value over the whole window; 0 where there is none.
func (f *Facts) wholeValue(question string, labels ...string) float64 {
	s, _ := f.findSeries(question, labels...)
	return s.Whole
}

// hasFlag tells whether a component was started with a flag, whatever its value is.
func hasFlag(c record.ComponentFact, name string) bool {
	return slices.ContainsFunc(c.Args, func(arg string) bool {
		set, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return set == name && strings.HasPrefix(arg, "-")
	})
}

// flagValue returns the value of a component's flag, or what it is without.
func flagValue(c record.ComponentFact, name string, otherwise float64) float64 {
	for _, arg := range c.Args {
		if text, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), name+"="); ok {
			if v, err := strconv.ParseFloat(text, 64); err == nil {
				return v
			}
		}
	}
	return otherwise
}
