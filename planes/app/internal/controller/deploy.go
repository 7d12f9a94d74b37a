package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
)

// delivered is what came of one component in one place.
type delivered struct {
	plan.Target
	healthy bool
	message string
	err     error
}

// deploy delivers all components to all places: how each is there is looked at
// first, and what is not healthy is applied, several at the same time. A component
// waits for those that it depends on in the same place.
func (d *delivery) deploy(ctx context.Context, what plan.Deployment) (ok bool, message string, err error) {
	targets, err := d.plan.Targets(what, d.app.c.clusters)
	if err != nil {
		return false, "", err
	}
	var all []*delivered
	for _, t := range targets {
		all = append(all, &delivered{Target: t})
	}
	forEach(all, what.Parallelism, func(t *delivered) { t.healthy = d.isHealthy(ctx, t.Component, t.At) })
	var mu sync.Mutex // of healthy: others look whether what they wait for is well by now
	forEach(all, what.Parallelism, func(t *delivered) {
		mu.Lock()
		rests := t.healthy || waitsFor(t, all)
		mu.Unlock()
		if rests {
			return
		}
		var healthy bool
		healthy, t.message, t.err = d.applyComponent(ctx, t.Component, t.At)
		mu.Lock()
		t.healthy = healthy
		mu.Unlock()
	})
	var errs []error
	var waiting []string
	for _, t := range all {
		if t.err != nil {
			errs = append(errs, t.err)
		} else if !t.healthy {
			waiting = append(waiting, strings.TrimSpace(fmt.Sprintf("%s in %s is not healthy %s", t.Component.Name, nameOf(t.At), t.message)))
		}
	}
	return len(errs)+len(waiting) == 0, fewWords(waiting), fewErrors(errs)
}

// isHealthy looks whether a component that this workflow has sent is well, without
// changing anything. One that was not sent, or cannot be looked at, is not.
func (d *delivery) isHealthy(ctx context.Context, component api.Component, at plan.Place) bool {
	manifests, err := d.plan.Render(component, at)
	if err != nil || !d.isSent(manifests) {
		return false
	}
	ok, message, err := d.checkHealth(ctx, component, at, manifests)
	if err == nil {
		d.reportService(component, at, manifests, ok, message)
	}
	return ok && err == nil
}

// waitsFor says whether what a component depends on is not well yet in its place.
func waitsFor(t *delivered, all []*delivered) bool {
	return slices.ContainsFunc(all, func(o *delivered) bool {
		return o.At == t.At && !o.healthy && slices.Contains(t.Component.DependsOn, o.Component.Name)
	})
}

// forEach calls f with every delivery, so many at the same time.
func forEach(all []*delivered, limit int, f func(*delivered)) {
	_ = parallel(len(all), limit, func(i int) error { // f keeps its own errors
		f(all[i])
		return nil
	})
}

func nameOf(at plan.Place) string { return cmp.Or(at.Cluster, cluster.Local) }

// mostNamed is how many of what is wrong a step's message names: an application may
// go to hundreds of clusters.
const mostNamed = 3

func fewWords(all []string) string {
	if len(all) > mostNamed {
		return strings.Join(all[:mostNamed], "; ") + fmt.Sprintf("; and %d more", len(all)-mostNamed)
	}
	return strings.Join(all, "; ")
}

func fewErrors(all []error) error {
	if len(all) > mostNamed {
		return fmt.Errorf("%w\nand %d more", errors.Join(all[:mostNamed]...), len(all)-mostNamed)
	}
	return errors.Join(all...)
}
