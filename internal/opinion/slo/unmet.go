package slo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Unmet is something that a run was asked for and that did not come about (rule of
// measurement 9). A run with one is no pass: one that is refuted fails, with any other
// the verdict is unknown.
type Unmet struct {
	Asked string       `json:"asked"` // "step ready", "limit of etcd"
	State record.State `json:"state"`
	Why   string       `json:"why"` // a clause
}

// describeUnmet says it to a person.
func (u Unmet) describeUnmet() string {
	became := map[record.State]string{record.Refuted: "failed", record.NotDone: "was not completed",
		record.NotInForce: "is not in force", record.NotMeasured: "was not measured"}[u.State]
	asked := u.Asked
	if u.State == record.NotHonored {
		became = "is not honored" // the name of a file keeps its case
	} else if asked != "" {
		asked = strings.ToUpper(asked[:1]) + asked[1:]
	}
	return fmt.Sprintf("%s %s: %s.", asked, became, strings.TrimSuffix(u.Why, "."))
}

// demands looks for what each thing that a run was asked for came to. Steps and limits need
// evidence that they were done: without any they are not.
type demands struct {
	sc *scenario.Scenario
	f  *run.Facts
	m  record.Manifest
}

// listUnmet returns what did not come about: limits first, then what the run itself has said,
// then steps. The steps of a run that was cut short are left out: they had no chance.
func (a demands) listUnmet() []Unmet {
	told := a.reportedUnmet()
	limits := slices.DeleteFunc(a.unmetLimits(), func(l Unmet) bool { // told with the reason
		return slices.ContainsFunc(told, func(t Unmet) bool { return t.Asked == l.Asked })
	})
	return slices.Concat(limits, a.ofOthers(), told, a.unmetSteps(), a.violatedProbes())
}

// ofOthers is what a scenario asks of its plane that nobody can set in a cluster that
// windtunnel has not started.
func (a demands) ofOthers() (out []Unmet) {
	if a.m.Plane.Kind != record.KindAttached {
		return nil
	}
	const why = "windtunnel has not started this cluster, and cannot set it"
	p := a.sc.Plane
	for _, field := range []struct {
		name  string
		asked bool
	}{
		{"release", p.Release != "" || p.Etcd != ""}, {"binaries", p.Binaries != ""}, {"limits", p.Limits != (scenario.Limits{})}, {"components", len(p.Components) > 0},
		{"etcdMembers", p.EtcdMembers > 1}, {"apiservers", p.APIServers > 1}, {"schedulers", p.Schedulers > 1}, {"controllerManagers", p.ControllerManagers > 1},
	} {
		if field.asked {
			out = append(out, Unmet{"field plane." + field.name, record.NotInForce, why})
		}
	}
	return out
}

// reportedUnmet is what the run itself has said of what did not come about.
func (a demands) reportedUnmet() (out []Unmet) {
	for _, e := range a.f.EventsOf(record.EventUnmet) {
		state := e.State
		if !slices.Contains([]record.State{record.Refuted, record.NotInForce, record.NotMeasured, record.NotHonored}, state) {
			state = record.NotDone // also what a later version says
		}
		if one := (Unmet{e.Name, state, e.Text}); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// unmetSteps returns those that failed, were left out, or of which the records have no end. The
// step that stopped the run is told with that, unless it was refuted.
func (a demands) unmetSteps() (out []Unmet) {
	end := a.f.Ended
	if !a.f.Began() || end.Reason != record.Done && end.Reason != record.Broken {
		return nil
	}
	held, began := map[string]*scenario.Step{}, map[string]bool{}
	for s := range a.sc.AllSteps() {
		if holdsWait(s) {
			held[s.Name] = s
		}
	}
	for _, s := range a.f.Steps {
		began[s.Name] = true
		state := orNotDone(s.State)
		switch {
		case !s.Ended && end.Reason == record.Done:
			out = append(out, Unmet{"step " + s.Name, record.NotDone, "the records have no end of it"})
		case s.Note == "" || s.Inside != "":
		case held[s.Name] != nil && isUnmetWait(held[s.Name], s): // an objective says it
		case state == record.Refuted || end.Reason == record.Done || end.Step != s.Name:
			out = append(out, Unmet{"step " + s.Name, state, s.Note})
		}
	}
	if end.Reason == record.Done {
		for s := range a.sc.AllSteps() {
			if !began[s.Name] {
				out = append(out, Unmet{"step " + s.Name, record.NotDone, "the run did not come to it"})
			}
		}
	}
	return out
}

func orNotDone(s record.State) record.State {
	if s == record.Refuted {
		return s
	}
	return record.NotDone
}

// unmetLimits returns those that do not hold: not set, or beyond what the machine has.
func (a demands) unmetLimits() (out []Unmet) {
	all := a.m.Processes()
	if whole, limited := a.m.Plane.Whole(); limited {
		whole.Name = "the plane"
		all = append(all, whole)
	}
	for _, c := range all {
		name := "limit of " + c.Name
		cores, memory := a.m.Machine.Cores, a.m.Machine.MemoryBytes
		switch {
		case c.CPULimit == 0 && c.MemoryLimit == 0:
		case !c.Limited:
			out = append(out, Unmet{name, record.NotInForce, "this machine did not let it be set"})
		case cores > 0 && c.CPULimit > float64(cores):
			out = append(out, Unmet{name, record.NotInForce, fmt.Sprintf("%s of CPU were asked for, and the machine has %s",
				unit.Text(c.CPULimit, "cores"), unit.Text(float64(cores), "cores"))})
		case memory > 0 && c.MemoryLimit > memory:
			out = append(out, Unmet{name, record.NotInForce, fmt.Sprintf("%s of memory were asked for, and the machine has %s",
				unit.Bytes(c.MemoryLimit).Human(), unit.Bytes(memory).Human())})
		}
	}
	return out
}
