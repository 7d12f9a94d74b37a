package experiment

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/windtunnel/windtunnel/load"
	"github.com/windtunnel/windtunnel/observe/life"
	"github.com/windtunnel/windtunnel/observe/scrape"
	"github.com/windtunnel/windtunnel/observe/usage"
	"github.com/windtunnel/windtunnel/pace"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/wire"
)

// observe starts the instruments and the load's client: from here on pods are
// seen being created, and CPU, memory and metrics are sampled.
func (r *run) observe(ctx context.Context, cancel context.CancelCauseFunc, wait *sync.WaitGroup) error {
	var err error
	r.watcher, err = wire.New(r.plane.Endpoint("observe"), wire.Options{UserAgent: "windtunnel-observe", Clock: r.clock})
	if err != nil {
		return err
	}
	r.atEnd(func() { _ = r.watcher.Close() })
	r.generator, err = load.New(load.Options{Endpoint: r.plane.Endpoint("load"), Records: r.records, Clock: r.clock})
	if err != nil {
		return err
	}
	r.atEnd(func() { _ = r.generator.Close() })
	r.status.follow(r.generator, nil)

	// The instruments outlive the cancelled steps, so that an interrupted run
	// still shows its last moments; close ends them.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var instruments sync.WaitGroup
	r.atEnd(func() { stop(); instruments.Wait() })
	r.life = life.New(r.records)
	instruments.Go(func() {
		if err := r.life.Run(watching, r.watcher, r.clock); err != nil {
			cancel(err)
		}
	})
	scraper := scrape.New(r.records, r.clock, r.targets(), scrape.Options{})
	instruments.Go(func() { scraper.Run(watching) })
	meter := usage.New(r.records, r.clock, r.processes(), usage.Options{})
	instruments.Go(func() { meter.Run(watching) })
	r.measure = func(ctx context.Context) {
		meter.Sample()
		scraper.Scrape(ctx)
	}
	select {
	case <-r.life.Synced():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// targets are the components whose /metrics are read. Those that cannot be
// reached are named once and left out.
func (r *run) targets() []scrape.Target {
	var out []scrape.Target
	for _, c := range r.plane.Components() {
		if c.MetricsURL == "" {
			continue
		}
		client, _, err := c.Scrape.Client()
		if err != nil {
			r.warn(fmt.Sprintf("the metrics of %s cannot be read: %v", c.Name, err))
			continue
		}
		out = append(out, scrape.Target{Name: c.Name, URL: c.MetricsURL, Client: client, Process: c.PID == 0})
	}
	return out
}

// processes are the plane's own processes.
func (r *run) processes() []usage.Process {
	var out []usage.Process
	for _, c := range r.plane.Components() {
		if c.PID > 0 {
			out = append(out, usage.Process{Name: c.Name, PID: c.PID, Cgroup: c.Cgroups["cpu"]})
		}
	}
	return out
}

// namespaces makes the scenario's namespaces and waits until pods can be made
// in them: the admission of pods wants the namespace's service account.
func (r *run) namespaces(ctx context.Context) error {
	count := r.scenario.Namespaces.Count
	r.ours = make([]bool, count)
	codes := make([]int, count)
	err := r.generator.Run(ctx, load.Plan{
		Op:    record.Op{Source: load.Source, Step: "namespaces", Verb: "create", Resource: "namespaces", Scope: "resource"},
		Count: count, Pace: pace.Constant(namespaceRate),
		Build: func(i int, body []byte, req *wire.Request) (bool, error) {
			req.Method, req.Path, req.ContentType = http.MethodPost, "/api/v1/namespaces", "application/json"
			req.Body = fmt.Appendf(body, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s"}}`, r.namespaceName(i))
			return true, nil
		},
		// Each call has places of its own, and Run returns after the last.
		Done: func(i int, o record.Outcome, answer *wire.Response) {
			r.ours[i], codes[i] = o == record.OK, answer.Code
		},
	})
	if err != nil {
		return err
	}
	for i, ours := range r.ours {
		name := r.namespaceName(i)
		switch {
		case codes[i] == http.StatusConflict:
			return fmt.Errorf("namespace %s: %w: it is left alone; name others with namespaces.prefix", name, ErrExists)
		case !ours:
			return fmt.Errorf("namespace %s could not be made: status %d", name, codes[i])
		}
		if err := r.usable(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// namespaceRate is how many namespaces are made in a second.
const namespaceRate = 50

// usable waits for a namespace's service account "default".
func (r *run) usable(ctx context.Context, namespace string) error {
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/default"
	for {
		answer, err := r.watcher.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
		if err == nil && answer.Code == http.StatusOK {
			return nil
		}
		if err := nap(ctx, waitPoll); err != nil {
			return fmt.Errorf("namespace %s did not become usable: %w", namespace, err)
		}
	}
}
