package experiment

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/load"
	"github.com/windtunnel/windtunnel/pace"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/scenario"
	"github.com/windtunnel/windtunnel/template"
	"github.com/windtunnel/windtunnel/wire"
)

// ErrStep says that a step did not do what it should.
var ErrStep = errors.New("step failed")

// waitPoll is how often a wait looks at its counts; nothing measured depends on it.
const waitPoll = 25 * time.Millisecond

// bodies are the scenario's compiled templates by name.
type bodies map[string]*template.Template

// made is what a create step left: where, and which calls came to nothing.
type made struct {
	resource load.Resource
	create   *scenario.Create
	name     string
	mu       sync.Mutex
	missing  map[int]bool // calls that failed: the object does not exist
	sent     int
}

func (m *made) miss(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing[i] = true
}

// compile reads and compiles every body, so that a faulty one is known before
// anything is started.
func (r *run) compile() (bodies, error) {
	out := bodies{}
	var faults []error
	for name, body := range r.scenario.Bodies {
		file, line := r.options.File, body.Line
		text := body.Text
		if body.File != "" {
			file, line = filepath.Join(filepath.Dir(r.options.File), body.File), 1
			raw, err := r.scenario.ReadBody(r.options.File, body)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			text = string(raw)
		}
		t, err := template.Compile(file, text, line)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		out[name] = t
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return out, r.trial(out)
}

// trial renders the first object of every create step.
func (r *run) trial(all bodies) error {
	var faults []error
	for _, step := range r.scenario.Steps {
		if step.Create == nil || step.Create.Count == 0 {
			continue
		}
		if _, err := all[step.Create.Body].Render(nil, r.vars(step.Create, 0)); err != nil {
			faults = append(faults, fmt.Errorf("%w (the first object of step %q)", err, step.Name))
		}
	}
	return errors.Join(faults...)
}

// namespace returns the namespace of a step's i-th object: all of the
// scenario's in turn, unless the step names one.
func (r *run) namespace(c *scenario.Create, i int) string {
	if c.Namespace != "" {
		return c.Namespace
	}
	return r.namespaceName(i % r.scenario.Namespaces.Count)
}

// namespaceName returns the name of the scenario's i-th namespace, from 0.
func (r *run) namespaceName(i int) string {
	return fmt.Sprintf("%s-%d", r.scenario.Namespaces.Prefix, i+1)
}

func objectName(c *scenario.Create, i int) string { return fmt.Sprintf("%s-%d", c.Name, i) }

func (r *run) vars(c *scenario.Create, i int) template.Vars {
	return template.Vars{
		Name: objectName(c, i), Namespace: r.namespace(c, i), Group: c.Group, Index: i,
		Seed: r.scenario.Seed, With: c.With,
	}
}

// pacer returns a step's pace. Each step has random arrivals of its own, all of
// them from the scenario's seed.
func (r *run) pacer(step string, p scenario.Pace) load.Pacer {
	switch {
	case p.Constant > 0:
		return pace.Constant(p.Constant)
	case p.Poisson > 0:
		h := fnv.New64a()
		_, _ = h.Write([]byte(step))
		return pace.Poisson(p.Poisson, r.scenario.Seed^h.Sum64())
	}
	return pace.Burst()
}

// steps runs the scenario's steps in order. When one fails and is not marked
// onFailure: continue, only the deletions that follow are still run: they clean
// up, and tell how deletion goes.
func (r *run) steps(ctx context.Context, all bodies) error {
	var failed error
	for i := range r.scenario.Steps {
		s := &r.scenario.Steps[i]
		if failed != nil && s.Delete == nil {
			continue
		}
		err := r.step(ctx, s.Name, func() error { return r.one(ctx, s, all) })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.log.Error("step failed", "step", s.Name, "error", err)
			if s.OnFailure != "continue" && failed == nil {
				failed = fmt.Errorf("%w: %s: %w", ErrStep, s.Name, err)
			}
		}
	}
	return failed
}

func (r *run) one(ctx context.Context, s *scenario.Step, all bodies) error {
	switch {
	case s.Create != nil:
		return r.createObjects(ctx, s.Name, s.Create, all[s.Create.Body])
	case s.Delete != nil:
		return r.deleteObjects(ctx, s.Name, s.Delete)
	case s.Wait != nil:
		return r.wait(ctx, s.Wait)
	}
	return nap(ctx, time.Duration(s.Pause))
}

func (r *run) createObjects(ctx context.Context, step string, c *scenario.Create, body *template.Template) error {
	if c.Count == 0 {
		return nil
	}
	resource, err := load.Discover(ctx, r.generator.Client(), body.APIVersion(), body.Kind())
	if err != nil {
		return err
	}
	m := &made{resource: resource, create: c, name: step, missing: map[int]bool{}}
	r.made[step] = m
	return r.generator.Run(ctx, r.creation(m, body))
}

// creation is the plan of a create step: the same requests in the same order
// for the same scenario, parameters and seed (rule of measurement 6).
func (r *run) creation(m *made, body *template.Template) load.Plan {
	c := m.create
	return load.Plan{
		Op:    record.Op{Source: load.Source, Step: m.name, Verb: "create", Resource: m.resource.Name, Scope: "resource"},
		Count: c.Count, Pace: r.pacer(m.name, c.Pace),
		Build: func(i int, buf []byte, req *wire.Request) (bool, error) {
			m.sent = i + 1
			v := r.vars(c, i)
			out, err := body.Render(buf, v)
			if err != nil {
				m.miss(i)
				return false, err
			}
			req.Method, req.Path = http.MethodPost, m.resource.Collection(v.Namespace)
			req.ContentType, req.Body, req.Timeout = "application/json", out, time.Duration(c.Timeout)
			return true, nil
		},
		Done: func(i int, o record.Outcome, _ *wire.Response) {
			if o == record.Failed {
				m.miss(i)
			}
		},
	}
}

func (r *run) deleteObjects(ctx context.Context, step string, d *scenario.Delete) error {
	m := r.made[d.Step]
	if m == nil {
		return nil // its step was not reached
	}
	policy := map[string]string{"": "Background", "background": "Background", "foreground": "Foreground", "orphan": "Orphan"}[d.Propagation]
	body := []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"` + policy + `"}`)
	return r.generator.Run(ctx, load.Plan{
		Op:    record.Op{Source: load.Source, Step: step, Verb: "delete", Resource: m.resource.Name, Scope: "resource"},
		Count: m.sent, Pace: r.pacer(step, d.Pace),
		Build: func(i int, _ []byte, req *wire.Request) (bool, error) {
			m.mu.Lock()
			gone := m.missing[i]
			m.mu.Unlock()
			req.Method, req.Path = http.MethodDelete, m.resource.Object(r.namespace(m.create, i), objectName(m.create, i))
			req.ContentType, req.Body, req.Timeout = "application/json", body, time.Duration(d.Timeout)
			return !gone, nil
		},
	})
}

// wait holds until enough pods of a group are in a phase.
func (r *run) wait(ctx context.Context, w *scenario.Wait) error {
	deadline := r.clock.Now().Add(time.Duration(w.Within))
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		have, ok := r.reached(w)
		r.status.waiting(have, w.Count)
		if ok {
			return nil
		}
		if r.clock.Now() > deadline {
			if w.Are == "gone" {
				return fmt.Errorf("%d pods of group %q are still there after %v, at most %d may be", have, w.Pods, w.Within, w.Count)
			}
			return fmt.Errorf("%d of %d pods of group %q were %s within %v", have, w.Count, w.Pods, w.Are, w.Within)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) reached(w *scenario.Wait) (have int, ok bool) {
	c := r.life.Counts(w.Pods)
	switch w.Are {
	case "created":
		have = c.Created
	case "bound":
		have = c.Bound
	case "running":
		have = c.RunningNow
	case "ready":
		have = c.ReadyNow
	case "gone":
		return c.Existing, c.Existing <= w.Count
	}
	return have, have >= w.Count
}
