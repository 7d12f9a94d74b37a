package flight

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/pace"
	"github.com/windtunnel/windtunnel/internal/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/observe/scrape"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
	"github.com/windtunnel/windtunnel/internal/record"
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
	groups, err := r.groups()
	if err != nil {
		return err
	}
	r.life = lifecycle.New(r.records, groups...)
	if err := r.observeLives(watching, &instruments); err != nil {
		return err
	}
	instruments.Go(func() {
		if err := r.life.Run(watching, r.watcher, r.clock); err != nil {
			cancel(err)
		}
	})
	scraper := scrape.New(r.records, r.clock, r.targets(), scrape.Options{})
	instruments.Go(func() { scraper.Run(watching) })
	r.meter = usage.New(r.records, r.clock, r.processes(), usage.Options{})
	instruments.Go(func() { r.meter.Run(watching) })
	carried := &traffic{r: r, series: map[string]record.SeriesID{}}
	instruments.Go(func() { carried.loop(watching) })
	r.measure = func(ctx context.Context) {
		r.meter.Sample()
		scraper.Scrape(ctx)
	}
	select {
	case <-r.life.Synced():
		return r.lives.Synced(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// groups are the scenario's groups of pods.
func (r *run) groups() ([]lifecycle.Group, error) {
	var out []lifecycle.Group
	for _, g := range r.scenario.Groups {
		selector, err := labels.Parse(g.Selector)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		out = append(out, lifecycle.Group{Name: g.Name, Namespace: g.Namespace, Selector: selector})
	}
	return out, nil
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
			out = append(out, usage.Process{Name: c.Name, PID: c.PID, Cgroup: c.Cgroups["cpu"], Memory: c.Cgroups["memory"]})
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
		Ops:   []record.Op{{Source: load.Source, Step: "namespaces", Verb: "create", Resource: "namespaces", Scope: "resource"}},
		Count: count, Pace: pace.Constant(namespaceRate),
		Build: func(i int, req *load.Request) (bool, error) {
			req.Method, req.Path, req.ContentType = http.MethodPost, "/api/v1/namespaces", "application/json"
			req.Body = fmt.Appendf(req.Body, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s","annotations":{"%s":"%s"}}}`, r.workload.Namespace(i), markOfRun, r.stamp)
			return true, nil
		},
		// Each call has places of its own, and Run returns after the last.
		Done: func(answer load.Result) {
			r.ours[answer.Index], codes[answer.Index] = answer.Outcome == record.OK, answer.Response.Code
		},
	})
	if err != nil {
		return err
	}
	for i, ours := range r.ours {
		if code := codes[i]; !ours && (code == 0 || code >= http.StatusInternalServerError) {
			r.doubtful = append(r.doubtful, i)
		}
	}
	for i, ours := range r.ours {
		name := r.workload.Namespace(i)
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

// markOfRun is the annotation by which a run knows its own namespaces, even one
// whose creation was never answered.
const markOfRun = "windtunnel.dev/run"

// namespaceRate is how many namespaces are made in a second.
const namespaceRate = 50

// usableEvery is how often a namespace is looked at that is not usable yet.
const usableEvery = 25 * time.Millisecond

// usable waits for a namespace's service account "default".
func (r *run) usable(ctx context.Context, namespace string) error {
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/default"
	for {
		answer, err := r.watcher.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
		if err == nil && answer.Code == http.StatusOK {
			return nil
		}
		if err := clock.Sleep(ctx, usableEvery); err != nil {
			return fmt.Errorf("namespace %s did not become usable: %w", namespace, err)
		}
	}
}
