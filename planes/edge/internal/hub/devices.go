package hub

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// devices is KubeEdge's device controller: it tells edges of their devices and of the
// models of those, and writes down what devices report.
type devices struct {
	hub              *Hub
	informer, models cache.SharedIndexInformer
	turns            chan func() // what is to be done about devices: one after another, and what one waits for the others wait for, too

	mu    sync.Mutex
	twins map[string]map[string]api.Twin // by namespace/name of the device, then by property
}

func newDevices(h *Hub) *devices {
	return &devices{
		hub: h, informer: h.client.DeviceInformer(api.DeviceIndexers()), models: h.client.ModelInformer(), turns: make(chan func(), h.o.Buffer.other),
		twins: map[string]map[string]api.Twin{},
	}
}

// runTurns does what there is to do about devices until ctx ends.
func (d *devices) runTurns(ctx context.Context) {
	runQueue(ctx, d.turns, func(_ context.Context, do func()) { do() })
}

// enqueueTurn lets something be done about devices after all that came before it; when too much
// waits, it holds up who asks for it.
func (d *devices) enqueueTurn(ctx context.Context, do func()) {
	select {
	case d.turns <- do:
	case <-ctx.Done():
	}
}

// addHandlers says what events bring.
func (d *devices) addHandlers(ctx context.Context) error {
	return errors.Join(
		loop.Watch(d.models, func(old, now *api.DeviceModel) {
			switch {
			case old == nil && d.hub.o.ModelWait == 0:
				d.modelIs(ctx, message.Insert, now)
			case old != nil && now != nil && api.Sum(old) != api.Sum(now):
				d.modelIs(ctx, message.Update, now)
			}
		}),
		loop.Watch(d.informer, func(old, now *api.Device) { d.enqueueTurn(ctx, func() { d.onChange(ctx, old, now) }) }),
	)
}

// servesNode says whether the hub has to do with an edge.
func (d *devices) servesNode(node string) bool {
	return node != "" && d.hub.isEdge(node) && (d.hub.o.Owner == OwnerAll || d.hub.sessions.get(node) != nil)
}

// onChange does what follows from a change of a device; it is old before and now after, or nil.
func (d *devices) onChange(ctx context.Context, old, now *api.Device) {
	for _, e := range deviceEvents(old, now) {
		if e.operation == message.Delete {
			d.mu.Lock()
			delete(d.twins, idOf(e.device).ID)
			d.mu.Unlock()
		}
		if !d.servesNode(e.device.Spec.NodeName) {
			continue // it is told when it is there
		}
		for _, part := range e.parts(d.isModelUsed) {
			d.sendPart(ctx, e, part)
		}
	}
}

// sendPart does one thing that follows from an event.
func (d *devices) sendPart(ctx context.Context, e deviceEvent, part devicePart) {
	x, node, h := e.device, e.device.Spec.NodeName, d.hub
	switch part {
	case deviceStatus:
		if err := d.createStatus(ctx, x); err != nil && ctx.Err() == nil {
			h.metrics.dropped.WithLabelValues("no status of a device").Inc()
			h.o.Log.Warn("status of a device not made", "device", x.Name, "error", err)
		}
	case deviceMembership:
		d.sendMembership(node, e.membership())
	case deviceModel:
		if m := d.awaitModel(ctx, x); m != nil {
			h.downstream.enqueue(ctx, h.newChange(node, message.TypeModel, e.operation, m))
		} else if e.operation == message.Insert {
			h.metrics.dropped.WithLabelValues("no model of a device").Inc()
		}
	case deviceItself:
		h.downstream.enqueue(ctx, h.newChange(node, message.TypeDevice, e.operation, x))
	}
}

// createStatus makes a device's status, if there is none.
func (d *devices) createStatus(ctx context.Context, x *api.Device) error {
	there, err := d.hub.client.Statuses().Get(ctx, x.Namespace, x.Name)
	switch {
	case apierrors.IsNotFound(err):
		if err := d.hub.client.CreateDeviceStatus(ctx, x); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	case err != nil:
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := x.Namespace + "/" + x.Name; d.twins[id] == nil {
		d.twins[id] = map[string]api.Twin{}
		for _, t := range there.Status.Twins {
			d.twins[id][t.PropertyName] = t
		}
	}
	return nil
}

// sendMembership tells an edge which devices came to it and left it. Nobody acknowledges it: who
// is away hears nothing of it.
func (d *devices) sendMembership(node string, u message.MembershipUpdate) {
	s := d.hub.sessions.get(node)
	if s == nil {
		return
	}
	u.EventID, u.Timestamp = message.NewID(), d.hub.wallMillis()
	raw, err := json.Marshal(u)
	if err != nil {
		panic(err) // this can always be written
	}
	m := message.New(d.hub.wallMillis(), message.Route{Source: message.SourceDevice, Group: message.GroupTwin, Operation: message.Update, Resource: message.Membership}, raw)
	s.sendAnswer(&m)
}

// lookEvery is how often a model that is not there yet is looked for.
const lookEvery = 100 * time.Millisecond

// awaitModel returns a device's model. KubeEdge waits for one that is missing, and with it all
// that happens to other devices.
func (d *devices) awaitModel(ctx context.Context, x *api.Device) *api.DeviceModel {
	until := d.hub.o.Clock.Now().Add(d.hub.o.ModelWait)
	for {
		if m := slim.Get[*api.DeviceModel](d.models, x.Namespace+"/"+x.Spec.Model.Name); m != nil {
			return m
		}
		if d.hub.o.Clock.Now() >= until || clock.Sleep(ctx, lookEvery) != nil {
			return nil
		}
	}
}

// isModelUsed says whether another device of an edge is of a device's model. KubeEdge looks at
// all devices that there are.
func (d *devices) isModelUsed(x *api.Device) bool {
	node := x.Spec.NodeName
	if d.hub.o.DeviceLookup == LookupIndex {
		return d.hasModel(node, x.Namespace, x.Spec.Model.Name)
	}
	return slices.ContainsFunc(slim.All[*api.Device](d.informer), func(y *api.Device) bool {
		return y.Spec.NodeName == node && y.Namespace == x.Namespace && y.Spec.Model == x.Spec.Model
	})
}

// leftBehind says whether an edge has a model that no device of it is of any more, since
// the last one left while the hub or the edge was away. KubeEdge leaves it there.
func (d *devices) leftBehind(k key) bool {
	return d.hub.o.DeviceLookup == LookupIndex && !d.hasModel(k.node, k.namespace, k.name)
}

// hasModel says whether an edge has devices of a model.
func (d *devices) hasModel(node, namespace, model string) bool {
	return len(slim.ByIndex[*api.Device](d.informer, api.ByModel, api.ModelAt(node, namespace, model))) > 0
}

// modelIs tells the edges that have devices of a model of it.
func (d *devices) modelIs(ctx context.Context, operation string, m *api.DeviceModel) {
	sent := map[string]bool{}
	for _, x := range slim.All[*api.Device](d.informer) {
		if node := x.Spec.NodeName; x.Namespace == m.Namespace && x.Spec.Model.Name == m.Name && !sent[node] && d.servesNode(node) {
			sent[node] = true
			d.hub.downstream.enqueue(ctx, d.hub.newChange(node, message.TypeModel, operation, m))
		}
	}
}

// devicesOf returns the devices of an edge, and their models.
func (d *devices) devicesOf(node string) (own []*api.Device, models []*api.DeviceModel) {
	own = slim.ByIndex[*api.Device](d.informer, api.ByNode, node)
	seen := map[string]bool{}
	for _, x := range own {
		if id := x.Namespace + "/" + x.Spec.Model.Name; !seen[id] {
			seen[id] = true
			if m := slim.Get[*api.DeviceModel](d.models, id); m != nil {
				models = append(models, m)
			}
		}
	}
	return own, models
}

// sendMissing tells an edge of devices of which nothing is written down: those that came
// while it was away.
func (d *devices) sendMissing(ctx context.Context, node string) {
	own, models := d.devicesOf(node)
	for _, m := range models {
		d.hub.downstream.enqueueUnrecorded(ctx, d.hub.newChange(node, message.TypeModel, message.Insert, m))
	}
	for _, x := range own {
		if !d.isUnrecorded(x) {
			continue
		}
		d.enqueueTurn(ctx, func() { // its own events may have come before
			if now := slim.Get[*api.Device](d.informer, idOf(x).ID); now != nil && now.Spec.NodeName == node && d.isUnrecorded(now) {
				d.onChange(ctx, nil, now)
			}
		})
	}
}

// isUnrecorded says that nothing is written down of a device for its edge.
func (d *devices) isUnrecorded(x *api.Device) bool {
	_, ok := d.hub.store.versionOf(d.hub.newChange(x.Spec.NodeName, message.TypeDevice, message.Insert, x).key)
	return !ok
}

// recordReport writes down what a device reports, and then tells the edge so.
func (d *devices) recordReport(ctx context.Context, q *request) {
	id := q.resource.Namespace + "/" + q.resource.Name
	x := slim.Get[*api.Device](d.informer, id)
	u, refused := acceptReport(x, q.session.node, q.message.Content)
	if refused != "" {
		d.hub.metrics.reports.WithLabelValues(refused).Inc()
		return
	}
	switch err := d.hub.client.PatchDeviceStatus(ctx, x, d.reportTwins(id, x, u)); {
	case err == nil:
		d.hub.metrics.reports.WithLabelValues("written").Inc()
		m := q.message.Reply(d.hub.wallMillis(), message.SourceDevice, []byte(message.OK))
		m.Route.Group, m.Route.Resource = message.GroupTwin, message.Twin
		d.hub.upstream.sendAnswer(ctx, q, func() { q.session.sendAnswer(&m) })
	case ctx.Err() == nil:
		d.hub.metrics.reports.WithLabelValues("not written").Inc()
		d.hub.o.Log.Warn("report of a device not written", "device", id, "error", err)
	}
}

// acceptReport reads what an edge reports of a device, nil where there is none. A report is
// refused, and never answered, unless it can be read and the device is this edge's.
func acceptReport(x *api.Device, node string, content []byte) (u message.TwinUpdate, refused string) {
	if json.Unmarshal(content, &u) != nil {
		return u, "malformed"
	}
	if x == nil || x.Spec.NodeName != node {
		return u, "no such device"
	}
	return u, ""
}

// reportTwins takes what was reported of a device, and returns all its twins.
func (d *devices) reportTwins(id string, x *api.Device, u message.TwinUpdate) []api.Twin {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.twins[id] == nil {
		d.twins[id] = map[string]api.Twin{}
	}
	return mergeTwins(d.twins[id], x, u)
}
