package kubeburner

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// held is longer than any job: a job's watches are closed when it ends.
const held = 24 * time.Hour

// watchersOpen waits until the job's watches are open: kube-burner starts them at the
// job's rate before anything else of the job.
func (s jobSteps) watchersOpen() []scenario.Step {
	n := s.countWatches()
	if n == 0 {
		return nil
	}
	opening := time.Duration(float64(n) / s.j.rateOf() * float64(time.Second))
	return []scenario.Step{{Name: s.uniqueStep(dnsLabel(s.j.Name), "watchers", "open"), Pause: unit.Duration(max(time.Millisecond, opening.Round(time.Millisecond)))}}
}

// countWatches is how many watches the job has.
func (s jobSteps) countWatches() int {
	n := 0
	for i := range s.j.Watchers {
		n += max(0, s.j.Watchers[i].Replicas)
	}
	return n
}

// addWatches has the job's watches beside its steps: they are closed after the last of these,
// which is jobPause where the job has one.
func (s jobSteps) addWatches(steps []scenario.Step) []scenario.Step {
	all := s.countWatches()
	if all == 0 {
		return steps
	}
	name := dnsLabel(s.j.Name)
	branches := []scenario.Step{{Name: s.uniqueStep(name, "beside", "watchers"), Sequence: steps}}
	for i := range s.j.Watchers {
		w := &s.j.Watchers[i]
		if w.Replicas < 1 {
			s.addNote(s.lineAt(w.At+".replicas"), "watcher.replicas", "below 1: nothing is watched, as in kube-burner")
			continue
		}
		resource, _ := s.resourceOf(byDefault(w.APIVersion, apiVersionOf(w.Kind)), w.Kind)
		branches = append(branches, scenario.Step{Name: s.uniqueStep(name, "watch", dnsLabel(w.Kind)), Beside: true, Requests: &scenario.Requests{
			Count: w.Replicas, Pace: scenario.Pace{Constant: s.j.rateOf() * float64(w.Replicas) / float64(all)}, // together the job's rate
			Timeout: unit.Duration(s.cfg.Global.RequestTimeout),
			Mix:     []scenario.Call{{Verb: "watch", Resource: resource, Namespace: "*", Selector: selectorText(w.LabelSelector), Hold: unit.Duration(held)}},
		}})
	}
	return []scenario.Step{{Name: s.uniqueStep(name, "watched"), Parallel: branches}}
}
