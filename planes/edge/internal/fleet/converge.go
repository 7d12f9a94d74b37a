package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// Difference is an object that an edge and the API server do not have alike.
type Difference struct {
	Edge   string `json:"edge"`
	Kind   string `json:"kind"`
	Object string `json:"object"` // namespace/name; of one that is at the edge alone its UID
	What   string `json:"what"`   // missing, stale or extra
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s %s is %s", d.Edge, d.Kind, d.Object, d.What)
}

// checker compares what edges have with what the API server has, by watches of its
// own, which see what there is and not what a hub made of it.
type checker struct {
	fleet                         *Fleet
	pods, nodes, configs, secrets cache.SharedIndexInformer
	devices, models, statuses     cache.SharedIndexInformer // nil: edges have no devices

	mu     sync.Mutex
	at     clock.Time
	latest []Difference
}

// The annotations in which the checker keeps what it needs of an object, and the mark
// of what it keeps.
const (
	keptSum  = "sum"
	keptUses = "uses"
	kept     = "kept" // as generateName
)

func newChecker(f *Fleet) (*checker, error) {
	core := informers.NewSharedInformerFactory(f.client, 0).Core().V1()
	c := &checker{fleet: f, pods: core.Pods().Informer(), nodes: core.Nodes().Informer(), configs: core.ConfigMaps().Informer(), secrets: core.Secrets().Informer()}
	all := []cache.SharedIndexInformer{c.pods, c.nodes, c.configs, c.secrets}
	if f.o.Devices {
		c.devices, c.models, c.statuses = f.client.DeviceInformer(), f.client.ModelInformer(), f.client.StatusInformer()
		all = append(all, c.devices, c.models)
	}
	for _, i := range all {
		if err := i.SetTransform(keep); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// keep makes of an object what the checker keeps of it.
func keep(o any) (any, error) {
	x, ok := o.(metav1.Object)
	if !ok || x.GetGenerateName() == kept {
		return o, nil // an informer may transform what it has transformed
	}
	m := metav1.ObjectMeta{
		Namespace: x.GetNamespace(), Name: x.GetName(), UID: x.GetUID(), ResourceVersion: x.GetResourceVersion(),
		GenerateName: kept, Annotations: map[string]string{keptSum: strconv.FormatUint(api.Sum(x), 16)},
	}
	switch p := o.(type) {
	case *corev1.Pod:
		m.Annotations[keptUses] = strings.Join(api.References(p), " ")
		return &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}}, nil
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: m}, nil
	case *corev1.ConfigMap:
		return &corev1.ConfigMap{ObjectMeta: m}, nil
	case *api.Device:
		return &api.Device{ObjectMeta: m, Spec: api.DeviceSpec{NodeName: p.Spec.NodeName, Model: p.Spec.Model}}, nil
	case *api.DeviceModel:
		return &api.DeviceModel{ObjectMeta: m}, nil
	}
	return &corev1.Secret{ObjectMeta: m}, nil
}

func (c *checker) start(ctx context.Context) error {
	all := []cache.SharedIndexInformer{c.pods, c.nodes, c.configs, c.secrets}
	if c.devices != nil {
		all = append(all, c.devices, c.models, c.statuses)
	}
	return loop.Start(ctx, &c.fleet.wait, all...)
}

// wanted is an object that an edge is to have.
type wanted struct {
	held
	object string
}

// Differences compares everything.
func (c *checker) differences() []Difference {
	want := c.want()
	var out []Difference
	for _, d := range c.fleet.edges {
		have, name := d.held(), d.edge.name
		if len(have) == 0 && len(want[name]) == 0 {
			continue
		}
		out = append(out, compare(name, want[name], have, c.fleet.o.CompareNodes)...)
	}
	if c.devices != nil {
		out = append(out, c.unreported()...)
	}
	return out
}

// compare holds what an edge has against what it is to have. ConfigMaps and Secrets
// that no pod uses any more may stay.
func compare(edge string, want []wanted, have []held, nodes bool) (out []Difference) {
	there := make(map[[16]byte]held, len(have))
	for _, h := range have {
		there[h.uid] = h
	}
	for _, w := range want {
		h, ok := there[w.uid]
		delete(there, w.uid)
		switch {
		case !ok:
			out = append(out, Difference{edge, w.kind.String(), w.object, "missing"})
		case h.sum != w.sum:
			out = append(out, Difference{edge, w.kind.String(), w.object, "stale"})
		}
	}
	for _, h := range have {
		if _, left := there[h.uid]; left && (h.kind == kindPod || h.kind == kindDevice || h.kind == kindModel || h.kind == kindNode && nodes) {
			out = append(out, Difference{edge, h.kind.String(), fmt.Sprintf("%x", h.uid), "extra"})
		}
	}
	return out
}

// want returns what each edge is to have.
func (c *checker) want() map[string][]wanted {
	out := map[string][]wanted{}
	seen := map[string]map[string]bool{}
	for _, o := range c.pods.GetStore().List() {
		p := o.(*corev1.Pod)
		node := p.Spec.NodeName
		if c.fleet.byName[node] == nil {
			continue
		}
		out[node] = append(out[node], wantedOf(p, kindPod))
		for _, id := range strings.Fields(p.Annotations[keptUses]) {
			if seen[node][id] {
				continue
			}
			if seen[node] == nil {
				seen[node] = map[string]bool{}
			}
			seen[node][id] = true
			word, key, _ := strings.Cut(id, "/")
			k, informer := kindConfigMap, c.configs
			if word == kindSecret.String() {
				k, informer = kindSecret, c.secrets
			}
			if o, ok, err := informer.GetStore().GetByKey(key); ok && err == nil {
				out[node] = append(out[node], wantedOf(o.(metav1.Object), k))
			}
		}
	}
	if c.devices != nil {
		c.wantDevices(out)
	}
	if !c.fleet.o.CompareNodes {
		return out
	}
	for _, o := range c.nodes.GetStore().List() {
		if n := o.(*corev1.Node); c.fleet.byName[n.Name] != nil {
			out[n.Name] = append(out[n.Name], wantedOf(n, kindNode))
		}
	}
	return out
}

// wantDevices adds the devices of each edge, and their models.
func (c *checker) wantDevices(out map[string][]wanted) {
	seen := map[string]bool{}
	for _, o := range c.devices.GetStore().List() {
		d := o.(*api.Device)
		node := d.Spec.NodeName
		if c.fleet.byName[node] == nil {
			continue
		}
		out[node] = append(out[node], wantedOf(d, kindDevice))
		model := d.Namespace + "/" + d.Spec.Model.Name
		if seen[node+"/"+model] {
			continue
		}
		seen[node+"/"+model] = true
		if m, ok, err := c.models.GetStore().GetByKey(model); ok && err == nil {
			out[node] = append(out[node], wantedOf(m.(metav1.Object), kindModel))
		}
	}
}

func wantedOf(o metav1.Object, k kind) wanted {
	sum, _ := strconv.ParseUint(o.GetAnnotations()[keptSum], 16, 64) // keep wrote it
	return wanted{held: held{uid: pack(string(o.GetUID())), sum: sum, kind: k}, object: strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")}
}

// fresh is how long a comparison holds.
const fresh = 2 * time.Second

// get returns the differences of now, or of a moment ago.
func (c *checker) get() []Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.fleet.now(); c.at == 0 || now.Sub(c.at) > fresh {
		c.latest, c.at = c.differences(), now
	}
	return c.latest
}

func (c *checker) count() int { return len(c.get()) }

// ServeHTTP names the differences, at most a hundred.
func (c *checker) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	all := c.get()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"count": len(all), "first": all[:min(len(all), 100)]}) // whoever asked has left
}

// named is how many differences the log names when a fleet ends.
const named = 20

// report logs what is not as it is to be.
func (c *checker) report() {
	all := c.differences()
	for _, d := range all[:min(len(all), named)] {
		c.fleet.o.Log.Warn("edge does not have what the API server has", "edge", d.Edge, "kind", d.Kind, "object", d.Object, "is", d.What)
	}
	if len(all) > named {
		c.fleet.o.Log.Warn("and more", "objects", len(all)-named)
	}
}
