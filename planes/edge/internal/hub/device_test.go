package hub

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// TestDeviceEvents holds what follows from a change of a device, for which edge and in which
// order.
func TestDeviceEvents(t *testing.T) {
	at := func(node string) *api.Device {
		return &api.Device{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}, Spec: api.DeviceSpec{NodeName: node}}
	}
	labeled, heard := at("a"), at("a")
	labeled.Labels = map[string]string{"x": "y"}
	heard.ResourceVersion = "2"
	for name, c := range map[string]struct {
		old, now  *api.Device
		modelUsed bool
		want      string
	}{
		"new":                        {nil, at("a"), false, "insert at a: status membership model device"},
		"gone, the last of its kind": {at("a"), nil, false, "delete at a: device membership model"},
		"gone, others are there":     {at("a"), nil, true, "delete at a: device membership"},
		"moved":                      {at("a"), at("b"), false, "delete at a: device membership model; insert at b: status membership model device"},
		"given to an edge":           {at(""), at("a"), true, "delete at : device membership; insert at a: status membership model device"},
		"labeled":                    {at("a"), labeled, false, "update at a: device"},
		"only its version changed":   {at("a"), heard, false, ""},
	} {
		var got []string
		for _, e := range deviceEvents(c.old, c.now) {
			parts := fmt.Sprint(e.parts(func(*api.Device) bool { return c.modelUsed }))
			got = append(got, fmt.Sprintf("%s at %s: %s", e.operation, e.device.Spec.NodeName, strings.Trim(parts, "[]")))
			u := e.membership()
			if e.operation != message.Update && (len(u.Added) == 1) == (len(u.Removed) == 1) {
				t.Errorf("%s: membership %+v", name, u)
			}
		}
		if said := strings.Join(got, "; "); said != c.want {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
	}
}

// TestTwinsAreMerged holds that a report changes the properties that it names and the device has,
// that others keep what was reported before, and that all have the desired value of now.
func TestTwinsAreMerged(t *testing.T) {
	x := &api.Device{Spec: api.DeviceSpec{Properties: []api.DeviceProperty{{Name: "heat", Desired: &api.TwinValue{Value: "20"}}, {Name: "light"}}}}
	known := map[string]api.Twin{"light": {PropertyName: "light", Reported: &api.TwinValue{Value: "on"}}}
	got := mergeTwins(known, x, message.TwinUpdate{Twin: map[string]message.TwinReport{
		"heat":   {Actual: &message.TwinActual{Value: "7", Metadata: message.TwinTime{Timestamp: 5}}, Metadata: &message.TwinKind{Type: "int"}},
		"light":  {},
		"colour": {Actual: &message.TwinActual{Value: "red"}},
	}})
	want := []api.Twin{
		{PropertyName: "heat", Desired: &api.TwinValue{Value: "20"}, Reported: &api.TwinValue{Value: "7", Metadata: map[string]string{"timestamp": "5", "type": "int"}}},
		{PropertyName: "light", Reported: &api.TwinValue{Value: "on"}},
	}
	if !reflect.DeepEqual(got, want) || len(known) != 2 {
		t.Errorf("twins %+v, want %+v", got, want)
	}
}

// TestAcceptReport holds which reports of devices are written down.
func TestAcceptReport(t *testing.T) {
	own := &api.Device{Spec: api.DeviceSpec{NodeName: "a"}}
	for _, tt := range []struct {
		name, content string
		device        *api.Device
		want          string
	}{
		{"of its own device", `{"twin":{}}`, own, ""},
		{"of another edge's device", `{"twin":{}}`, &api.Device{Spec: api.DeviceSpec{NodeName: "b"}}, "no such device"},
		{"of a device of no edge", `{}`, &api.Device{}, "no such device"},
		{"of none", `{}`, nil, "no such device"},
		{"that cannot be read", `{"twin":7}`, own, "malformed"},
		{"of nothing", ``, own, "malformed"},
	} {
		if _, refused := acceptReport(tt.device, "a", []byte(tt.content)); refused != tt.want {
			t.Errorf("a report %s: %q, want %q", tt.name, refused, tt.want)
		}
	}
}
