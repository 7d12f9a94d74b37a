package tree

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

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
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		hub.exports: ofMarks(&c.tree.o, func(key string) {
			c.queue.Queue.Add(key)
			c.hubChanged(key) // for those who asked before it was exported
		}),
		hub.slices: {
			AddFunc: c.sliceEvent, DeleteFunc: c.sliceEvent,
			UpdateFunc: func(old, o any) {
				if !sameEndpoints(old.(*discoveryv1.EndpointSlice), o.(*discoveryv1.EndpointSlice)) {
					c.sliceEvent(o)
				}
			},
		},
	}
	if c.tree.o.ImportEnd == ImportEndAll { // Kosmos looks at services when it writes them
		handlers[hub.services] = cache.ResourceEventHandlerFuncs{AddFunc: c.serviceEvent, DeleteFunc: c.serviceEvent}
	}
	return addHandlers(handlers)
}

// serviceEvent lets members hear of a service that the hub makes or deletes.
func (c *exportController) serviceEvent(o any) {
	if key, ok := loop.Key(o); ok && c.tree.hub.isExported(key) {
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
func (c *exportController) sliceEvent(o any) {
	s, ok := loop.Last[*discoveryv1.EndpointSlice](o)
	if !ok {
		return
	}
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
