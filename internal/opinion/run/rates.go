package run

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Rate is how much of something a step asked for per second, and how much came.
//
// Of calls what was asked for is the mean rate of the step's pace, and what was
// achieved n-1 in the time from the first to the last of n answers with success. Of
// objects that the plane brings to their last phase (pods that run) what was asked
// for is the rate of the calls times the objects that one call led to, and what was
// achieved n-1 in the time from the first to the last of n objects in that phase. It
// is no more than was asked for: objects that come in bursts are ahead at the end.
// How long an object takes is in neither: a plane that keeps up achieves what was
// asked for, whatever its latency.
type Rate struct {
	Name     string  `json:"name"` // "pods running of fill", "calls of fill"
	Step     string  `json:"step"`
	Unit     string  `json:"unit"`               // "pods/s", "objects/s", "calls/s"
	Asked    float64 `json:"asked,omitempty"`    // 0: as much as the plane would take
	Parallel int     `json:"parallel,omitempty"` // calls that a closed loop kept under way
	Achieved float64 `json:"achieved"`
	// LeftOut are the declared lifecycles, of a step's calls that created objects and
	// has no rate of objects: what they were seen of is of no step's group.
	LeftOut []string `json:"left_out,omitempty"`
}

// Rates are those of the steps that sent calls, in the order of their begin: of
// each first that of the objects it created, where they have phases of their own,
// then that of its calls. A step of which fewer than two came has none.
//
// Groups says by its name the group of a step's objects where that is not the step's
// name. Objects of a group that several steps share are of none of them.
func (f *Facts) Rates(groups map[string]string) []Rate {
	var out []Rate
	stepOf := f.stepOf(groups)
	by := f.byStep(stepOf)
	ungrouped := f.ungroupedLifecycles(stepOf)
	for i := range f.Steps {
		s := &f.Steps[i]
		if s.Asked.Count == 0 {
			continue
		}
		calls, created := by[s.Name].rate(s)
		if !f.Together(by[s.Name].answered) {
			continue
		}
		if created > 0 && len(by[s.Name].objects) == 0 {
			calls.LeftOut = ungrouped
		}
		for _, l := range by[s.Name].objects {
			if r, ok := objectRate(l, calls, created); ok && created > 0 {
				out = append(out, r)
			}
		}
		if calls.Achieved > 0 {
			out = append(out, calls)
		}
	}
	return out
}

// ungroupedLifecycles names the declared lifecycles of which no object is of a step's group.
func (f *Facts) ungroupedLifecycles(stepOf map[string]string) (out []string) {
	grouped := map[string]bool{}
	for _, l := range f.Lifecycles {
		if l.Name != "" {
			grouped[l.Name] = grouped[l.Name] || stepOf[l.Group] != ""
		}
	}
	for _, name := range slices.Sorted(maps.Keys(grouped)) {
		if !grouped[name] {
			out = append(out, name)
		}
	}
	return out
}

// stepOf gives the step of each group that is one step's.
func (f *Facts) stepOf(groups map[string]string) map[string]string {
	out := map[string]string{}
	for _, s := range f.Steps {
		group := cmp.Or(groups[s.Name], s.Name)
		if other, taken := out[group]; taken && other != s.Name {
			out[group] = ""
		} else {
			out[group] = s.Name
		}
	}
	return out
}

// ofStep is what came of the steps of one name.
type ofStep struct {
	answered Span // of the load's calls
	ok       int  // calls that were answered with success
	created  int  // those of them that created an object
	objects  []*Lifecycles
}

func (f *Facts) byStep(stepOf map[string]string) map[string]ofStep {
	out := map[string]ofStep{}
	for _, c := range f.Calls {
		if c.Source != Load {
			continue
		}
		of := out[c.Step]
		of.answered.Join(c.Answered)
		of.ok += c.Outcomes[record.OK]
		if c.Verb == "create" {
			of.created += c.Outcomes[record.OK]
		}
		out[c.Step] = of
	}
	for _, l := range f.Lifecycles {
		if step := stepOf[l.Group]; step != "" {
			of := out[step]
			of.objects = append(of.objects, l)
			out[step] = of
		}
	}
	return out
}

// rate is the rate of a step's calls; created are those that created an object.
func (o ofStep) rate(s *Step) (r Rate, created int) {
	r = Rate{Name: "calls of " + s.Name, Step: s.Name, Unit: "calls/s", Parallel: s.Asked.Parallel, Achieved: perSecond(o.ok, o.answered)}
	if r.Parallel == 0 && !math.IsInf(s.Asked.Rate, 0) {
		r.Asked = s.Asked.Rate
	}
	return r, o.created
}

// objectRate is the rate of the objects that a step's calls led to.
func objectRate(l *Lifecycles, calls Rate, created int) (Rate, bool) {
	phase := lastPhase(l)
	if phase == "" || created == 0 {
		return Rate{}, false
	}
	r := Rate{
		Name: cmp.Or(l.Name, l.Resource) + " " + phase + " of " + calls.Step, Step: calls.Step, Unit: "objects/s",
		Parallel: calls.Parallel, Asked: calls.Asked * float64(l.Len()) / float64(created),
		Achieved: perSecond(l.Reached(phase), l.Span(phase)),
	}
	if l.Resource == "pods" {
		r.Unit = "pods/s"
	}
	if r.Asked > 0 {
		r.Achieved = min(r.Achieved, r.Asked)
	}
	return r, r.Achieved > 0
}

// lastPhase is how far a group's objects came on their way up: of pods running,
// of others the phase that was seen last. Empty where being created is all.
func lastPhase(l *Lifecycles) string {
	seen := slices.DeleteFunc(l.Phases(), func(p string) bool {
		return slices.Contains([]string{record.PhaseCreated, record.PhaseDeleting, record.PhaseDeleted, record.PhaseUnknown}, p)
	})
	switch {
	case l.Resource == "pods" && l.Name == "":
		if slices.Contains(seen, record.PhaseRunning) {
			return record.PhaseRunning
		}
		return ""
	case len(seen) == 0 || strings.TrimSpace(l.Group) == "":
		return ""
	}
	return seen[len(seen)-1]
}

// perSecond is n-1 in the time of a span; 0 for fewer than two, or all at once.
func perSecond(n int, s Span) float64 {
	if seconds := s.Seconds(); n > 1 && seconds > 0 {
		return float64(n-1) / seconds
	}
	return 0
}
