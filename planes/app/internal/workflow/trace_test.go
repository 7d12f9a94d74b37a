package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// TestTrace plays testdata/workflow.trace, which explains itself.
func TestTrace(t *testing.T) {
	var p *player
	repotest.Trace(t, "testdata/workflow.trace", func(t *testing.T, s repotest.Step) string {
		if s.Name == "workflow" {
			var err error
			if p, err = newPlayer(s); err != nil {
				return "error: " + err.Error()
			}
			return ""
		}
		return p.play(t, s)
	})
}

// player plays passes over one workflow.
type player struct {
	graph   *workflow.Graph
	status  *api.WorkflowStatus
	memory  workflow.Memory
	now     time.Time
	answers map[string]string // by step
	out     strings.Builder
}

// begin is when every workflow begins.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newPlayer(s repotest.Step) (*player, error) {
	mode := api.WorkflowMode{Steps: s.Args["steps"], SubSteps: s.Args["subSteps"]}
	if mode.Steps == "" {
		mode.Steps = workflow.StepByStep
	}
	if mode.SubSteps == "" {
		mode.SubSteps = workflow.DAG
	}
	var steps []workflow.Step
	for line := range strings.Lines(s.Input) {
		step := parseStep(line)
		if strings.HasPrefix(line, "  ") {
			group := &steps[len(steps)-1]
			group.Group = append(group.Group, step)
			continue
		}
		steps = append(steps, step)
	}
	g, err := workflow.NewGraph(steps, mode)
	if err != nil {
		return nil, err
	}
	return &player{graph: g, status: workflow.NewStatus("app-v1", g, begin), now: begin, memory: workflow.Memory{Outputs: map[string]json.RawMessage{}, Tries: map[string]int{}}}, nil
}

// parseStep reads NAME [TYPE] [after=A,B] [if=X] [timeout=D] [gives=X] [takes=X].
func parseStep(line string) (out workflow.Step) {
	words := strings.Fields(line)
	out.Name, out.Type = words[0], "apply-component"
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "after":
			out.DependsOn = strings.Split(value, ",")
		case "if":
			out.If = value
		case "timeout":
			out.TimeLimit, _ = time.ParseDuration(value)
		case "gives":
			out.Outputs = []api.StepOutput{{Name: value}}
		case "takes":
			out.Inputs = []api.StepInput{{From: value}}
		default:
			out.Type = key
		}
	}
	return out
}

func (p *player) play(t *testing.T, s repotest.Step) string {
	t.Helper()
	p.out.Reset()
	switch s.Name {
	case "pass":
		p.pass(t, s)
	case "resume":
		p.status.Suspend = false
	case "terminate":
		p.status.Suspend, p.status.Terminated = false, true
	case "restart":
		p.memory.Tries = map[string]int{}
	case "lose-outputs":
		p.memory.Outputs = map[string]json.RawMessage{}
	default:
		t.Fatalf("%s: no such command", s.Line)
	}
	return p.out.String()
}

// pass plays one pass and writes what was done and what the statuses are then.
func (p *player) pass(t *testing.T, s repotest.Step) {
	t.Helper()
	d := repotest.Must(time.ParseDuration(s.Args["at"]))(t)
	p.now, p.answers = begin.Add(d), map[string]string{}
	for line := range strings.Lines(s.Input) {
		step, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		p.answers[step] = answer
	}
	run := workflow.Start(p.graph, p.status, p.memory)
	for a := run.Next(p.now); ; a = run.Next(p.now) {
		switch a.Kind {
		case workflow.Stop:
			p.show(a)
			return
		case workflow.Evaluate:
			fmt.Fprintf(&p.out, "evaluate %s: if %s\n", a.Step.Name, a.Step.If)
			runs, why := p.condition(a.Step)
			run.Decide(runs, why, p.now)
		case workflow.Execute:
			fmt.Fprintf(&p.out, "execute %s\n", a.Step.Name)
			run.Done(p.outcome(t, a.Step), p.now)
		case workflow.Save:
			fmt.Fprintf(&p.out, "save %s\n", a.Step.Name)
		case workflow.Report:
			fmt.Fprintf(&p.out, "report %s: %s\n", a.Report.Event, a.Report.Message)
		}
	}
}

// condition knows true, false and STEP.PHASE.
func (p *player) condition(s *workflow.Step) (bool, error) {
	step, phase, ok := strings.Cut(s.If, ".")
	if !ok {
		return s.If == "true", nil
	}
	status, ok := workflow.ByName(p.status)[step]
	if !ok {
		return false, errors.New("no step " + step)
	}
	return status.Phase == phase || strings.EqualFold(status.Reason, phase), nil
}

func (p *player) outcome(t *testing.T, s *workflow.Step) (o workflow.Outcome) {
	t.Helper()
	word, rest, _ := strings.Cut(p.answers[s.Name], " ")
	switch word {
	case "": // it is healthy at once
		o.Healthy, o.Outputs = true, map[string]json.RawMessage{}
		for _, output := range s.Outputs {
			o.Outputs[output.Name] = json.RawMessage("1")
		}
	case "takes": // longer than the pass has taken so far
		d := repotest.Must(time.ParseDuration(rest))(t)
		p.now = p.now.Add(d)
		o.Healthy = true
	case "suspends":
		o.Duration, _ = time.ParseDuration(rest)
	case "waits":
		o.Message = rest
	case "fails":
		o.Err = errors.New(rest)
	case "invalid":
		o.Invalid = errors.New(rest)
	default:
		t.Fatalf("%s: no such answer", word)
	}
	return o
}

func (p *player) show(a workflow.Action) {
	if a.Wait > 0 {
		fmt.Fprintf(&p.out, "wait %v\n", a.Wait)
	}
	fmt.Fprintf(&p.out, "workflow %s", p.status.Phase)
	if p.status.Message != "" {
		fmt.Fprintf(&p.out, ": %s", p.status.Message)
	}
	p.out.WriteString("\n")
	p.showAll(p.status.Steps, "  ")
}

func (p *player) showAll(all []api.StepStatus, indent string) {
	for _, s := range all {
		fmt.Fprintf(&p.out, "%s%s %s", indent, s.Name, s.Phase)
		if s.Reason != "" {
			fmt.Fprintf(&p.out, " (%s)", s.Reason)
		}
		if s.Message != "" {
			fmt.Fprintf(&p.out, ": %s", s.Message)
		}
		p.out.WriteString("\n")
		p.showAll(s.SubSteps, indent+"  ")
	}
}
