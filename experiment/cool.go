package experiment

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/discovery"
	"github.com/windtunnel/windtunnel/gate"
	"github.com/windtunnel/windtunnel/observe/usage"
	"github.com/windtunnel/windtunnel/plane"
	"github.com/windtunnel/windtunnel/scenario"
)

// coolEvery is how often a cooling plane is looked at: long enough for a
// mean of its CPU, which the kernel counts in steps of 10 ms.
const coolEvery = 2 * time.Second

// cool waits until the plane is quiet.
func (r *run) cool(ctx context.Context, x *scenario.Cool) error {
	late := fmt.Errorf("%v have passed", x.Within)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Within), late)
	defer cancel()
	meter := r.newMeter()
	return gate.Clean(ctx, coolEvery, func(ctx context.Context) gate.Facts {
		f := gate.Facts{Queues: map[string]float64{}, CPU: meter.cores(), Before: r.quiet}
		r.terminating(ctx, &f)
		for _, c := range r.plane.Components() {
			if err := queues(ctx, c, f.Queues); err != nil {
				f.Unread = append(f.Unread, fmt.Sprintf("the queues of %s could not be read: %v", c.Name, err))
			}
		}
		return f
	})
}

// quietFor is over how long the CPU of the components is measured before the
// first step, for steps that cool.
const quietFor = 2 * time.Second

// levels measures what the components use when there is no load yet; only
// scenarios that cool want to know.
func (r *run) levels(ctx context.Context) error {
	for s := range r.scenario.AllSteps() {
		if s.Cool != nil {
			m := r.newMeter()
			if err := nap(ctx, quietFor); err != nil {
				return err
			}
			r.quiet = m.cores()
			return nil
		}
	}
	return nil
}

// meter measures the cores that components use between two looks.
type meter struct {
	r    *run
	at   clock.Time
	used map[string]float64 // CPU seconds
}

func (r *run) newMeter() *meter {
	m := &meter{r: r}
	m.cores()
	return m
}

// cores returns what the components used since the last look.
func (m *meter) cores() map[string]float64 {
	now, used, out := m.r.clock.Now(), map[string]float64{}, map[string]float64{}
	for _, c := range m.r.plane.Components() {
		if c.PID == 0 {
			continue
		}
		u, err := usage.Of(c.PID)
		if err != nil {
			continue
		}
		used[c.Name] = u.CPUSeconds
		if before, ok := m.used[c.Name]; ok && now > m.at {
			out[c.Name] = (u.CPUSeconds - before) / now.Sub(m.at).Seconds()
		}
	}
	m.at, m.used = now, used
	return out
}

// terminating lists what is on its way out: namespaces, pods, and what the
// steps made.
func (r *run) terminating(ctx context.Context, f *gate.Facts) {
	paths := map[string]string{"namespaces": "/api/v1/namespaces", "pods": "/api/v1/pods"}
	r.mu.Lock()
	for _, m := range r.made {
		for _, k := range m.kinds {
			if k.resource != (discovery.Resource{}) {
				paths[k.resource.Name] = k.resource.All()
			}
		}
	}
	r.mu.Unlock()
	for name, path := range paths {
		err := listNames(ctx, r.watcher, path, "", func(o listed) {
			if m := o.Metadata; m.DeletionTimestamp != "" {
				f.Terminating = append(f.Terminating, gate.Object{Resource: name, Namespace: m.Namespace, Name: m.Name, Finalizers: m.Finalizers})
			}
		})
		if err != nil {
			f.Unread = append(f.Unread, err.Error())
		}
	}
}

// maxMetrics bounds what is read of a component's metrics.
const maxMetrics = 64 << 20

// queues adds the depths of a component's work queues.
func queues(ctx context.Context, c plane.Component, depths map[string]float64) error {
	if c.MetricsURL == "" || c.PID == 0 { // a plane of somebody else's has queues for other reasons
		return nil
	}
	client, _, err := c.Scrape.Client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.MetricsURL, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMetrics))
	if err != nil {
		return err
	}
	for name, depth := range gate.QueueDepths(string(text)) {
		depths[c.Name+" "+name] = depth
	}
	return nil
}
