package edge_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

const (
	devicesVersion = "devices.kubeedge.io/v1beta1"
	devicesPath    = "/apis/" + devicesVersion + "/namespaces/default/"
)

// deviceRig is a rig with devices.
func deviceRig(t testing.TB) *rig {
	r := newRig(t)
	for plural, kind := range map[string]string{"devices": "Device", "devicemodels": "DeviceModel", "devicestatuses": "DeviceStatus"} {
		r.server.Define(apitest.Resource{Version: devicesVersion, Plural: plural, Kind: kind, Namespaced: true})
	}
	return r
}

func withDevices(change func(*hub.Options)) func(*hub.Options) {
	return func(o *hub.Options) {
		if change != nil {
			change(o)
			o.DeviceWorkers, o.DeviceLookup, o.ModelWait = 16, hub.LookupIndex, 0
		}
		o.Devices = true
	}
}

func (r *rig) model(name, unit string) {
	r.server.Add(devicesPath+"devicemodels/"+name, map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default", "uid": fmt.Sprintf("22222222-0000-4000-8000-%012x", []byte(name))},
		"spec":     map[string]any{"protocol": "modbus", "properties": []any{map[string]any{"name": "temperature", "type": "INT", "unit": unit}}},
	})
}

func (r *rig) device(i int, node, model string) {
	r.server.Add(devicesPath+"devices/d"+strconv.Itoa(i), map[string]any{
		"metadata": map[string]any{"name": "d" + strconv.Itoa(i), "namespace": "default", "uid": fmt.Sprintf("33333333-0000-4000-8000-%012d", i)},
		"spec": map[string]any{
			"nodeName": node, "deviceModelRef": map[string]any{"name": model}, "protocol": map[string]any{"protocolName": "modbus"},
			"properties": []any{map[string]any{"name": "temperature", "desired": map[string]any{"value": "20"}}},
		},
	})
}

// statusOf is what stands at the API server of a device's temperature: as it is, and as
// it should be.
func (r *rig) statusOf(i int) (reported, desired string) {
	o := r.server.Get(devicesPath + "devicestatuses/d" + strconv.Itoa(i))
	if o == nil {
		return "", ""
	}
	twins, _, _ := unstructured.NestedSlice(o.Object, "status", "twins")
	if len(twins) != 1 {
		return "", ""
	}
	twin, _ := twins[0].(map[string]any)
	reported, _, _ = unstructured.NestedString(twin, "reported", "value")
	desired, _, _ = unstructured.NestedString(twin, "observedDesired", "value")
	return reported, desired
}

func reporting(o *fleet.Options) {
	o.Devices, o.Reports, o.ReportEvery = true, 3, 50*time.Millisecond
}

// TestLifeOfDevices holds that edges have their devices and the models of those, take
// changes, let them go, and that what devices report stands at the API server.
func TestLifeOfDevices(t *testing.T) {
	planetest.Each(t, map[string]func(*hub.Options){"default": nil, "improved": improved}, func(t *testing.T, name string, change func(*hub.Options)) {
		const edges, devices = 3, 9
		r := deviceRig(t)
		registry := instrument.New("")
		stop := r.hub(func(o *hub.Options) {
			withDevices(change)(o)
			o.Registry = registry
			if change == nil {
				o.Round = time.Hour // one amid a move leaves the device at its old edge, see TestOwed
			}
		})
		r.fleet(edges, reporting)
		repotest.Eventually(t, "all edges join", func() bool { return len(r.server.Nodes()) == edges })
		r.model("meter", "C")
		for i := range devices {
			r.device(i, fmt.Sprintf("edge-%d", i%edges), "meter")
		}
		repotest.Eventually(t, "all devices have reported three times", func() bool {
			for i := range devices {
				if reported, desired := r.statusOf(i); reported != "3" || desired != "20" {
					return false
				}
			}
			return true
		})
		r.converged()
		if owners := r.server.Get(devicesPath + "devicestatuses/d0").GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Device" {
			t.Errorf("the status belongs to %+v", owners)
		}

		r.model("meter", "K")
		r.device(1, "edge-2", "meter") // it was at edge-1
		apitest.Change(r.server, devicesPath+"devices/d2", func(d *unstructured.Unstructured) { d.SetLabels(map[string]string{"a": "b"}) })
		r.server.Remove(devicesPath + "devices/d3")
		repotest.Eventually(t, "the hub has moved and removed devices", func() bool { // before it is stopped
			names := r.server.Names("/apis/reliablesyncs.kubeedge.io/v1alpha1/objectsyncs")
			has := func(edge, device int) bool {
				return slices.Contains(names, fmt.Sprintf("default/edge-%d.33333333-0000-4000-8000-%012d", edge, device))
			}
			return has(2, 1) && !has(1, 1) && !has(0, 3)
		})
		repotest.Eventually(t, "what the moved device reported anew is written", func() bool { // a report under way when the hub ends is lost
			return instrumenttest.Measured(t, registry, "edge_hub_device_reports_total", "result=written").Value == 3*(devices+1)
		})
		r.converged()

		stop()
		r.server.Remove(devicesPath + "devices/d0")
		r.server.Remove(devicesPath + "devices/d6") // the last of edge-0, and so its model
		r.model("meter", "F")
		r.device(10, "edge-2", "meter")
		r.hub(withDevices(change))
		if name == "improved" { // KubeEdge's rounds leave the model of an edge that has no device of it
			r.converged()
		}
		repotest.Eventually(t, "the new device has reported", func() bool { reported, _ := r.statusOf(10); return reported == "3" })
	})
}

// TestMissingModel holds that a device whose model is missing holds up others for as
// long as KubeEdge waits for it, whether it or its edge was seen first, and none where
// that is not waited for.
func TestMissingModel(t *testing.T) {
	for name, first := range map[string]struct {
		device bool // before its edge
		change func(*hub.Options)
	}{"default": {}, "device first": {device: true}, "improved": {change: improved}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := deviceRig(t)
			r.settings("info")
			r.hub(func(o *hub.Options) {
				withDevices(first.change)(o)
				if first.change == nil {
					o.ModelWait = time.Hour
				}
			})
			if first.device {
				r.device(0, "edge-0", "none")
			}
			r.fleet(1, reporting)
			repotest.Eventually(t, "the edge joins", func() bool { return len(r.server.Nodes()) == 1 })
			r.model("meter", "C")
			if !first.device {
				r.device(0, "edge-0", "none")
			}
			repotest.Eventually(t, "the first is looked at", func() bool { return r.server.Get(devicesPath+"devicestatuses/d0") != nil })
			r.device(1, "edge-0", "meter")
			if first.change == nil {
				r.pods(0, 1, 1) // which comes later, and does not wait
				repotest.Eventually(t, "the pod runs", func() bool { return r.running() == 1 })
				if o := r.server.Get(devicesPath + "devicestatuses/d1"); o != nil {
					t.Errorf("the second device did not wait: %v", o)
				}
			} else {
				repotest.Eventually(t, "the second device reports", func() bool { reported, _ := r.statusOf(1); return reported == "3" })
			}
			r.model("none", "C")
			repotest.Eventually(t, "both report", func() bool {
				a, _ := r.statusOf(0)
				b, _ := r.statusOf(1)
				return a == "3" && b == "3"
			})
			r.converged()
		})
	}
}

// deviceGate is a gate with device d0 of edge-0, and that edge's connection.
func deviceGate(t *testing.T) (*gate, *link.Conn) {
	g := newGate(t, withDevices(improved))
	g.server.AddNode(edgeNode("edge-0"))
	g.model("meter", "C")
	g.device(0, "edge-0", "meter")
	own, _ := g.connected("edge-0")
	repotest.Eventually(t, "the device has a status", func() bool { return g.server.Get(devicesPath+"devicestatuses/d0") != nil })
	return g, own
}

// report is the message with which an edge reports of a device.
func report(device, content string) string {
	return `{"header":{"msg_id":"1","timestamp":1},"route":{"source":"twin","group":"resource","operation":"update","resource":"device/default/` +
		device + `/twin/edge_updated"},"content":` + content + `}`
}

// TestReportsOfOthers holds that an edge reports for its own devices alone, and that what
// is no report is counted and harms nobody.
func TestReportsOfOthers(t *testing.T) {
	g, own := deviceGate(t)
	r := g.rig
	r.server.AddNode(edgeNode("edge-1"))
	other, _ := g.connected("edge-1")
	for _, raw := range []string{
		report("d0", `{"twin":{"temperature":{"actual":{"value":"666"}}}}`), // another's
		report("d9", `{"twin":{}}`),                                         // nobody's
		report("d0", `"no report"`),
	} {
		repotest.NoError(t, other.Send([]byte(raw)))
	}
	repotest.NoError(t, own.Send([]byte(report("d0", `{"twin":{"temperature":{"actual":{"value":"7"}},"colour":{"actual":{"value":"red"}}}}`))))
	repotest.Eventually(t, "the own report is written", func() bool { reported, _ := r.statusOf(0); return reported == "7" })
	repotest.Eventually(t, "the others are counted", func() bool {
		return g.counter("edge_hub_device_reports_total", "result=no such device") == 2 && g.counter("edge_hub_device_reports_total", "result=malformed") == 1
	})
	if reported, _ := r.statusOf(0); reported != "7" {
		t.Errorf("the device's temperature is %s", reported)
	}
}

func edgeNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelEdge: ""}}}
}
