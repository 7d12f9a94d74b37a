package hub

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
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
		hub: h, informer: h.client.DeviceInformer(api.DeviceIndexers()), models: h.client.ModelInformer(), turns: make(chan func(), h.o.Buffer),
		twins: map[string]map[string]api.Twin{},
	}
}

// run does what there is to do about devices until ctx ends.
func (d *devices) run(ctx context.Context) {
	work(ctx, d.turns, func(_ context.Context, do func()) { do() })
}

// turn lets something be done about devices after all that came before it; when too much
// waits, it holds up who asks for it.
func (d *devices) turn(ctx context.Context, do func()) {
	select {
	case d.turns <- do:
	case <-ctx.Done():
	}
}

// watch says what events bring.
func (d *devices) watch(ctx context.Context) error {
	if _, err := d.models.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if d.hub.o.ModelWait == 0 {
				d.modelIs(ctx, message.Insert, o.(*api.DeviceModel))
			}
		},
		UpdateFunc: func(a, b any) {
			if a, b := a.(*api.DeviceModel), b.(*api.DeviceModel); api.Sum(a) != api.Sum(b) {
				d.modelIs(ctx, message.Update, b)
			}
		},
	}); err != nil {
		return err
	}
	_, err := d.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.turn(ctx, func() { d.added(ctx, o.(*api.Device)) }) },
		UpdateFunc: func(a, b any) { d.turn(ctx, func() { d.updated(ctx, a.(*api.Device), b.(*api.Device)) }) },
		DeleteFunc: func(o any) {
			if x, ok := loop.Last[*api.Device](o); ok {
				d.turn(ctx, func() { d.removed(ctx, x) })
			}
		},
	})
	return err
}

// concerned says whether the hub has to do with an edge.
func (d *devices) concerned(node string) bool {
	return node != "" && d.hub.edge(node) && (d.hub.o.Owner == OwnerAll || d.hub.sessions.get(node) != nil)
}

// added tells an edge of a device that is its own now.
func (d *devices) added(ctx context.Context, x *api.Device) {
	node := x.Spec.NodeName
	if !d.concerned(node) {
		return // it is told when it is there
	}
	if err := d.status(ctx, x); err != nil && ctx.Err() == nil {
		d.hub.metrics.dropped.WithLabelValues("no status of a device").Inc()
		d.hub.o.Log.Warn("status of a device not made", "device", x.Name, "error", err)
	}
	d.member(node, message.MembershipUpdate{Added: []message.ID{idOf(x)}, Removed: []message.ID{}})
	if m := d.model(ctx, x); m != nil {
		d.hub.downstream.enqueue(ctx, d.hub.change(node, message.TypeModel, message.Insert, m))
	} else {
		d.hub.metrics.dropped.WithLabelValues("no model of a device").Inc()
	}
	d.hub.downstream.enqueue(ctx, d.hub.change(node, message.TypeDevice, message.Insert, x))
}

// status makes a device's status, if there is none.
func (d *devices) status(ctx context.Context, x *api.Device) error {
	there, err := d.hub.client.GetDeviceStatus(ctx, x.Namespace, x.Name)
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

func idOf(x *api.Device) message.ID { return message.ID{ID: x.Namespace + "/" + x.Name, Name: x.Name} }

// member tells an edge which devices came to it and left it. Nobody acknowledges it: who
// is away hears nothing of it.
func (d *devices) member(node string, u message.MembershipUpdate) {
	s := d.hub.sessions.get(node)
	if s == nil {
		return
	}
	u.EventID, u.Timestamp = message.NewID(), d.hub.wall()
	raw, err := json.Marshal(u)
	if err != nil {
		panic(err) // this can always be written
	}
	m := message.New(d.hub.wall(), message.Route{Source: message.SourceDevice, Group: message.GroupTwin, Operation: message.Update, Resource: message.Membership}, raw)
	s.answer(&m)
}

// lookEvery is how often a model that is not there yet is looked for.
const lookEvery = 100 * time.Millisecond

// model returns a device's model. KubeEdge waits for one that is missing, and with it all
// that happens to other devices.
func (d *devices) model(ctx context.Context, x *api.Device) metav1.Object {
	until := d.hub.o.Clock.Now().Add(d.hub.o.ModelWait)
	for {
		if m := object(d.models, x.Namespace+"/"+x.Spec.Model.Name); m != nil {
			return m
		}
		if d.hub.o.Clock.Now() >= until || clock.Sleep(ctx, lookEvery) != nil {
			return nil
		}
	}
}

func (d *devices) updated(ctx context.Context, old, now *api.Device) {
	switch {
	case old.Spec.NodeName != now.Spec.NodeName:
		d.removed(ctx, old)
		d.added(ctx, now)
	case reflect.DeepEqual(old.Spec, now.Spec) && reflect.DeepEqual(old.Labels, now.Labels) && reflect.DeepEqual(old.Annotations, now.Annotations):
	case d.concerned(now.Spec.NodeName):
		d.hub.downstream.enqueue(ctx, d.hub.change(now.Spec.NodeName, message.TypeDevice, message.Update, now))
	}
}

// removed tells an edge that a device has left it and, when no other of its devices is of
// that model, the model, too.
func (d *devices) removed(ctx context.Context, x *api.Device) {
	d.mu.Lock()
	delete(d.twins, x.Namespace+"/"+x.Name)
	d.mu.Unlock()
	node := x.Spec.NodeName
	if !d.concerned(node) {
		return
	}
	d.hub.downstream.enqueue(ctx, d.hub.change(node, message.TypeDevice, message.Delete, x))
	d.member(node, message.MembershipUpdate{Added: []message.ID{}, Removed: []message.ID{idOf(x)}})
	if m := object(d.models, x.Namespace+"/"+x.Spec.Model.Name); m != nil && !d.isModelUsed(node, x) {
		d.hub.downstream.enqueue(ctx, d.hub.change(node, message.TypeModel, message.Delete, m))
	}
}

// isModelUsed says whether another device of an edge is of a device's model. KubeEdge looks at
// all devices that there are.
func (d *devices) isModelUsed(node string, x *api.Device) bool {
	if d.hub.o.DeviceLookup == LookupIndex {
		return d.indexed(node, x.Namespace, x.Spec.Model.Name)
	}
	found := false
	for _, o := range d.informer.GetStore().List() {
		y := o.(*api.Device)
		found = found || y.Spec.NodeName == node && y.Namespace == x.Namespace && y.Spec.Model == x.Spec.Model
	}
	return found
}

// leftBehind says whether an edge has a model that no device of it is of any more, since
// the last one left while the hub or the edge was away. KubeEdge leaves it there.
func (d *devices) leftBehind(k key) bool {
	return d.hub.o.DeviceLookup == LookupIndex && !d.indexed(k.node, k.namespace, k.name)
}

// indexed says whether an edge has devices of a model.
func (d *devices) indexed(node, namespace, model string) bool {
	same, _ := d.informer.GetIndexer().ByIndex(api.ByModel, api.ModelAt(node, namespace, model)) // the index is there
	return len(same) > 0
}

// modelIs tells the edges that have devices of a model of it.
func (d *devices) modelIs(ctx context.Context, operation string, m *api.DeviceModel) {
	sent := map[string]bool{}
	for _, o := range d.informer.GetStore().List() {
		x := o.(*api.Device)
		if node := x.Spec.NodeName; x.Namespace == m.Namespace && x.Spec.Model.Name == m.Name && !sent[node] && d.concerned(node) {
			sent[node] = true
			d.hub.downstream.enqueue(ctx, d.hub.change(node, message.TypeModel, operation, m))
		}
	}
}

// of returns the devices of an edge, and their models.
func (d *devices) of(node string) (own []*api.Device, models []metav1.Object) {
	list, _ := d.informer.GetIndexer().ByIndex(api.ByNode, node) // the index is there
	seen := map[string]bool{}
	for _, o := range list {
		x := o.(*api.Device)
		own = append(own, x)
		if id := x.Namespace + "/" + x.Spec.Model.Name; !seen[id] {
			seen[id] = true
			if m := object(d.models, id); m != nil {
				models = append(models, m)
			}
		}
	}
	return own, models
}

// missing tells an edge of devices of which nothing is written down: those that came
// while it was away.
func (d *devices) missing(ctx context.Context, node string) {
	own, models := d.of(node)
	for _, m := range models {
		c := d.hub.change(node, message.TypeModel, message.Insert, m)
		if _, ok := d.hub.store.version(c.key); !ok {
			d.hub.downstream.enqueue(ctx, c)
		}
	}
	for _, x := range own {
		if !d.unknown(x) {
			continue
		}
		d.turn(ctx, func() { // its own events may have come before
			if now, ok := object(d.informer, idOf(x).ID).(*api.Device); ok && now.Spec.NodeName == node && d.unknown(now) {
				d.added(ctx, now)
			}
		})
	}
}

// unknown says that nothing is written down of a device for its edge.
func (d *devices) unknown(x *api.Device) bool {
	_, ok := d.hub.store.version(d.hub.change(x.Spec.NodeName, message.TypeDevice, message.Insert, x).key)
	return !ok
}

// report writes down what a device reports. Nobody is told how that went.
func (d *devices) report(ctx context.Context, q *request) {
	var u message.TwinUpdate
	if err := json.Unmarshal(q.message.Content, &u); err != nil {
		d.hub.metrics.reports.WithLabelValues("malformed").Inc()
		return
	}
	id := q.resource.Namespace + "/" + q.resource.Name
	x, ok := object(d.informer, id).(*api.Device)
	if !ok || x.Spec.NodeName != q.session.node {
		d.hub.metrics.reports.WithLabelValues("no such device").Inc()
		return
	}
	switch err := d.hub.client.PatchDeviceStatus(ctx, x.Namespace, x.Name, d.merge(id, x, u)); {
	case err == nil:
		d.hub.metrics.reports.WithLabelValues("written").Inc()
	case ctx.Err() == nil:
		d.hub.metrics.reports.WithLabelValues("not written").Inc()
		d.hub.o.Log.Warn("report of a device not written", "device", id, "error", err)
	}
}

// merge takes what was reported of the properties that a device has, and returns all of
// them.
func (d *devices) merge(id string, x *api.Device, u message.TwinUpdate) (out []api.Twin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.twins[id] == nil {
		d.twins[id] = map[string]api.Twin{}
	}
	for _, p := range x.Spec.Properties {
		t := d.twins[id][p.Name]
		t.PropertyName, t.Desired = p.Name, p.Desired
		if r, ok := u.Twin[p.Name]; ok && r.Actual != nil {
			t.Reported = &api.TwinValue{Value: r.Actual.Value, Metadata: map[string]string{"timestamp": strconv.FormatInt(r.Actual.Metadata.Timestamp, 10)}}
			if r.Metadata != nil {
				t.Reported.Metadata["type"] = r.Metadata.Type
			}
		}
		d.twins[id][p.Name] = t
		out = append(out, t)
	}
	return out
}
