package hub

import (
	"reflect"
	"strconv"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// deviceEvent is a device that comes to an edge (message.Insert), changes there or leaves it.
// What an edge is told of it is decided here, without a watch, a server or a session.
type deviceEvent struct {
	operation string
	device    *api.Device // with the node of the edge
}

// deviceEvents returns what a change of a device is for the edges that it was at and is at now.
func deviceEvents(old, now *api.Device) []deviceEvent {
	switch {
	case old == nil:
		return []deviceEvent{{message.Insert, now}}
	case now == nil:
		return []deviceEvent{{message.Delete, old}}
	case old.Spec.NodeName != now.Spec.NodeName:
		return []deviceEvent{{message.Delete, old}, {message.Insert, now}}
	case reflect.DeepEqual(old.Spec, now.Spec) && reflect.DeepEqual(old.Labels, now.Labels) && reflect.DeepEqual(old.Annotations, now.Annotations):
		return nil
	}
	return []deviceEvent{{message.Update, now}}
}

// devicePart is something that follows from an event of a device.
type devicePart string

const (
	deviceStatus     devicePart = "status"     // it is made, if there is none
	deviceMembership devicePart = "membership" // the edge is told which devices came or left
	deviceModel      devicePart = "model"      // the edge is told of it, once it is there
	deviceItself     devicePart = "device"
)

// parts returns what follows from an event, in order. A model leaves an edge with the last
// device of it.
func (e deviceEvent) parts(isModelUsed func(*api.Device) bool) []devicePart {
	switch {
	case e.operation == message.Insert:
		return []devicePart{deviceStatus, deviceMembership, deviceModel, deviceItself}
	case e.operation == message.Update:
		return []devicePart{deviceItself}
	case isModelUsed(e.device):
		return []devicePart{deviceItself, deviceMembership}
	}
	return []devicePart{deviceItself, deviceMembership, deviceModel}
}

// membership is what an edge is told of the devices that came and left.
func (e deviceEvent) membership() message.MembershipUpdate {
	u := message.MembershipUpdate{Added: []message.ID{}, Removed: []message.ID{}}
	if e.operation == message.Insert {
		u.Added = append(u.Added, idOf(e.device))
	} else {
		u.Removed = append(u.Removed, idOf(e.device))
	}
	return u
}

func idOf(x *api.Device) message.ID { return message.ID{ID: x.Namespace + "/" + x.Name, Name: x.Name} }

// mergeTwins adds to the known twins of a device, by property, what was reported of the
// properties that it has, and returns all of these.
func mergeTwins(known map[string]api.Twin, x *api.Device, u message.TwinUpdate) (out []api.Twin) {
	for _, p := range x.Spec.Properties {
		t := known[p.Name]
		t.PropertyName, t.Desired = p.Name, p.Desired
		if r, ok := u.Twin[p.Name]; ok && r.Actual != nil {
			t.Reported = &api.TwinValue{Value: r.Actual.Value, Metadata: map[string]string{"timestamp": strconv.FormatInt(r.Actual.Metadata.Timestamp, 10)}}
			if r.Metadata != nil {
				t.Reported.Metadata["type"] = r.Metadata.Type
			}
		}
		known[p.Name] = t
		out = append(out, t)
	}
	return out
}
