package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
)

// requeues is what the queues of a component said last of what came back to them.
type requeues struct {
	at     clock.Time
	counts map[string]float64 // by queue, since the component's start
	rates  map[string]float64 // by queue, per second; nil: not known yet
}

// readMetrics reads what components say of themselves. Those of a plane of
// somebody else's may not be for us to read, which the scraper says.
func (i *Inspector) readMetrics(ctx context.Context, s *preflight.State) {
	s.Queues, s.Heap = map[string]preflight.Work{}, map[string]float64{}
	if i.Plane == nil {
		return
	}
	for _, c := range i.Plane.Components() {
		if c.MetricsURL == "" {
			continue
		}
		text, err := fetchMetrics(ctx, c)
		if err != nil {
			if c.PID > 0 {
				s.Unread = append(s.Unread, fmt.Sprintf("the metrics of %s could not be read: %v", c.Name, err))
			}
			continue
		}
		found := preflight.ReadMetrics(text)
		rates := i.retryRates(c.Name, found.Retries)
		if rates == nil && len(found.Depth) > 0 {
			s.Unrated = append(s.Unrated, c.Name)
		}
		for queue, depth := range found.Depth {
			s.Queues[c.Name+" "+queue] = preflight.Work{Depth: depth, Longest: found.Longest[queue], Retries: rates[queue]}
		}
		if found.Heap > 0 {
			s.Heap[c.Name] = found.Heap
		}
		s.Store = max(s.Store, found.Store)
		if len(found.Objects) > 0 {
			i.stored = found.Objects
		}
	}
}

// retryRates returns how often items come back to a component's queues, per second,
// since it was read before; nil when it was not. A component that could not be
// read in between has a longer interval, not another rate.
func (i *Inspector) retryRates(component string, counts map[string]float64) map[string]float64 {
	now := i.Clock.Now()
	before, known := i.retries[component]
	took := now.Sub(before.at)
	if known && took < minInterval {
		return before.rates
	}
	var rates map[string]float64
	if known {
		rates = map[string]float64{}
		for queue, n := range counts {
			rise := n - before.counts[queue]
			if rise < 0 {
				rise = n // started again
			}
			rates[queue] = rise / took.Seconds()
		}
	}
	i.retries[component] = requeues{now, counts, rates}
	return rates
}

// maxMetrics bounds what is read of a component's metrics.
const maxMetrics = 64 << 20

// fetchMetrics reads a component's metrics.
func fetchMetrics(ctx context.Context, c plane.Component) (string, error) {
	client, _, err := c.Scrape.Client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.MetricsURL, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMetrics))
	return string(text), err
}
