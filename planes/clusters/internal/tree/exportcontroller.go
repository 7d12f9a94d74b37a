package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

const exportWorkers = 2 // Kosmos'

// exportController marks the hub's slices of the services that members may import, and
// lets members know what they may import.
type exportController struct {
	tree  *tree
	queue *loop.Loop
}

func newExportController(t *tree) *exportController {
	c := &exportController{tree: t}
	c.queue = t.newLoop("exports", exportWorkers, c.reconcile)
	return c
}

// addHandlers connects the hub's caches with the queue.
func (c *exportController) addHandlers() error {
	hub := c.tree.hub
	errs := []error{
		watchMarks(hub.exports, &c.tree.o, func(key string) {
			c.queue.Queue.Add(key)
			c.hubChanged(key) // for those who asked before it was exported
		}),
		loop.Watch(hub.slices, func(old, now *discoveryv1.EndpointSlice) {
			if old == nil || now == nil || !sameEndpoints(old, now) {
				c.sliceEvent(cmp.Or(now, old))
			}
		}),
	}
	if c.tree.o.ImportEnd == ImportEndAll { // Kosmos looks at services when it writes them
		errs = append(errs, loop.Watch(hub.services, c.serviceEvent))
	}
	return errors.Join(errs...)
}

// serviceEvent lets members hear of a service that the hub makes or deletes.
func (c *exportController) serviceEvent(old, now *corev1.Service) {
	if old != nil && now != nil {
		return
	}
	if key := loop.Key(cmp.Or(now, old)); c.tree.hub.isExported(key) {
		c.hubChanged(key)
	}
}

// hubChanged lets all members look at a service again.
func (c *exportController) hubChanged(key string) {
	for _, j := range c.tree.leaves.everyMember() {
		j.imports.addService(key)
	}
}

// sliceEvent lets a change of a slice come to those who import its service.
func (c *exportController) sliceEvent(s *discoveryv1.EndpointSlice) {
	key := serviceOf(s)
	exported := c.tree.hub.isExported(key)
	if needsMark(s, exported, &c.tree.o) {
		c.queue.Queue.Add(key)
	}
	if !exported {
		return
	}
	for _, j := range c.tree.leaves.everyMember() {
		j.imports.addImport(key, s.Name)
	}
}

// reconcile marks the slices of a service that members may import: each of them, whenever
// one changes, and says so in an event. Those of one that they may import no more lose
// their marks.
func (c *exportController) reconcile(ctx context.Context, key string) error {
	exported := c.tree.hub.isExported(key)
	for _, s := range c.tree.hub.slicesOf(key) {
		next := decideMark(s, exported, &c.tree.o)
		if next == nil {
			continue
		}
		if _, err := c.tree.hub.client.Slices.Update(ctx, next); err != nil {
			return fmt.Errorf("mark slice %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	if exported && c.tree.o.Import == ImportMCS {
		if err := c.tree.writeEvent(ctx, c.tree.hub.client, key, "ServiceExport"); err != nil {
			return err
		}
	}
	if export := slim.Get[*api.Mark](c.tree.hub.exports, key); export != nil {
		return c.tree.updateFinalizer(ctx, c.tree.hub.client.Exports, export)
	}
	return nil
}
