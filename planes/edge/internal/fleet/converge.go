package fleet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// checker compares what edges have with what the API server has, by watches of its
// own, which see what there is and not what a hub made of it.
type checker struct {
	*agree.Check

	fleet                         *Fleet
	pods, nodes, configs, secrets cache.SharedIndexInformer // of *object
	devices, models               cache.SharedIndexInformer // of *object; nil: edges have no devices
	statuses                      cache.SharedIndexInformer
}

// object is what the checker keeps of an object.
type object struct {
	metav1.ObjectMeta // its name, UID and version alone

	sum   uint64   // a digest of what an edge acts on
	node  string   // of a pod or device: the edge that is to have it
	uses  []string // of a pod: its ConfigMaps and Secrets, as api.References names them
	model string   // of a device: NAMESPACE/NAME
}

func keepObject[T metav1.Object](o T) *object {
	return &object{ObjectMeta: slim.Named(o), sum: api.Sum(o)}
}

func keepPod(p *corev1.Pod) *object {
	kept := keepObject(p)
	kept.node, kept.uses = p.Spec.NodeName, api.References(p)
	return kept
}

func keepDevice(d *api.Device) *object {
	kept := keepObject(d)
	kept.node, kept.model = d.Spec.NodeName, d.Namespace+"/"+d.Spec.Model.Name
	return kept
}

func newChecker(f *Fleet) (*checker, error) {
	core := informers.NewSharedInformerFactory(f.client, 0).Core().V1()
	c := &checker{fleet: f, pods: core.Pods().Informer(), nodes: core.Nodes().Informer(), configs: core.ConfigMaps().Informer(), secrets: core.Secrets().Informer()}
	c.Check = agree.New(f.o.Clock, c.findDifferences)
	errs := []error{
		slim.Keep(c.pods, slim.Always(keepPod)), slim.Keep(c.nodes, slim.Always(keepObject[*corev1.Node])),
		slim.Keep(c.configs, slim.Always(keepObject[*corev1.ConfigMap])), slim.Keep(c.secrets, slim.Always(keepObject[*corev1.Secret])),
	}
	if f.o.Devices {
		c.devices, c.models, c.statuses = f.client.DeviceInformer(nil), f.client.ModelInformer(), f.client.Statuses().Informer("", 0, nil)
		errs = append(errs, slim.Keep(c.devices, slim.Always(keepDevice)), slim.Keep(c.models, slim.Always(keepObject[*api.DeviceModel])))
	}
	return c, errors.Join(errs...)
}

// informers are all that are compared with what edges have.
func (c *checker) informers() []cache.SharedIndexInformer {
	all := []cache.SharedIndexInformer{c.pods, c.nodes, c.configs, c.secrets}
	if c.devices != nil {
		all = append(all, c.devices, c.models, c.statuses)
	}
	return all
}

// wanted is an object that an edge is to have.
type wanted struct {
	held
	object string
}

// The ways in which an edge and the API server can differ.
const (
	howMissing = "missing" // the edge does not have it
	howStale   = "stale"   // the edge has it otherwise
	howExtra   = "extra"   // the edge alone has it
)

// findDifferences compares everything.
func (c *checker) findDifferences() []agree.Difference {
	want := c.wantedByEdge()
	var out []agree.Difference
	for _, d := range c.fleet.edges {
		have, name := d.heldObjects(), d.edge.name
		if len(have) == 0 && len(want[name]) == 0 {
			continue
		}
		out = append(out, compareEdge(name, want[name], have, c.fleet.o.CompareNodes)...)
	}
	if c.devices != nil {
		out = append(out, c.unreportedDevices()...)
	}
	return out
}

// compareEdge holds what an edge has against what it is to have. ConfigMaps and Secrets
// that no pod uses any more may stay.
func compareEdge(edge string, want []wanted, have []held, nodes bool) (out []agree.Difference) {
	there := make(map[[16]byte]held, len(have))
	for _, h := range have {
		there[h.uid] = h
	}
	for _, w := range want {
		h, ok := there[w.uid]
		delete(there, w.uid)
		switch {
		case !ok:
			out = append(out, agree.Difference{How: howMissing, Kind: w.kind.String(), Object: w.object, Where: []string{edge}})
		case h.sum != w.sum:
			out = append(out, agree.Difference{How: howStale, Kind: w.kind.String(), Object: w.object, Where: []string{edge}})
		}
	}
	for _, h := range have {
		if _, left := there[h.uid]; left && (h.kind == kindPod || h.kind == kindDevice || h.kind == kindModel || h.kind == kindNode && nodes) {
			out = append(out, agree.Difference{How: howExtra, Kind: h.kind.String(), Object: fmt.Sprintf("%x", h.uid), Where: []string{edge}})
		}
	}
	return out
}

// wantedByEdge returns what each edge is to have.
func (c *checker) wantedByEdge() map[string][]wanted {
	out := map[string][]wanted{}
	seen := map[string]map[string]bool{}
	for _, p := range slim.All[*object](c.pods) {
		if c.fleet.byName[p.node] == nil {
			continue
		}
		out[p.node] = append(out[p.node], wantedOf(p, kindPod))
		for _, id := range p.uses {
			if seen[p.node][id] {
				continue
			}
			if seen[p.node] == nil {
				seen[p.node] = map[string]bool{}
			}
			seen[p.node][id] = true
			word, key, _ := strings.Cut(id, "/")
			k, informer := kindConfigMap, c.configs
			if word == kindSecret.String() {
				k, informer = kindSecret, c.secrets
			}
			if o, ok := slim.Lookup[*object](informer, key); ok {
				out[p.node] = append(out[p.node], wantedOf(o, k))
			}
		}
	}
	if c.devices != nil {
		c.wantDevices(out)
	}
	if !c.fleet.o.CompareNodes {
		return out
	}
	for _, n := range slim.All[*object](c.nodes) {
		if c.fleet.byName[n.Name] != nil {
			out[n.Name] = append(out[n.Name], wantedOf(n, kindNode))
		}
	}
	return out
}

// wantDevices adds the devices of each edge, and their models.
func (c *checker) wantDevices(out map[string][]wanted) {
	seen := map[string]bool{}
	for _, d := range slim.All[*object](c.devices) {
		if c.fleet.byName[d.node] == nil {
			continue
		}
		out[d.node] = append(out[d.node], wantedOf(d, kindDevice))
		if seen[d.node+"/"+d.model] {
			continue
		}
		seen[d.node+"/"+d.model] = true
		if m, ok := slim.Lookup[*object](c.models, d.model); ok {
			out[d.node] = append(out[d.node], wantedOf(m, kindModel))
		}
	}
}

func wantedOf(o *object, k kind) wanted {
	return wanted{held: held{uid: packUID(string(o.UID)), sum: o.sum, kind: k}, object: strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")}
}

// maxAge is how old a comparison may be of which the metric shows the count.
const maxAge = 2 * time.Second
