package fleet

import (
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// device is one that reports: how often it did is what it reports.
type device struct {
	uid             string
	namespace, name string
	properties      []string
	reports         int
}

// applyDevice lets a device that is new report, and one that changed go on.
func (s *step) applyDevice(d *api.Device) {
	if s.o.Reports == 0 {
		return
	}
	uid := string(d.UID)
	own := s.e.devices[uid]
	isNew := own == nil
	if isNew {
		own = &device{uid: uid}
		if s.e.devices == nil {
			s.e.devices = map[string]*device{}
		}
		s.e.devices[uid] = own
	}
	own.namespace, own.name, own.properties = d.Namespace, d.Name, nil
	for _, p := range d.Spec.Properties {
		own.properties = append(own.properties, p.Name)
	}
	if isNew {
		s.addTimer(s.randomPart(s.o.ReportEvery), report{own})
	}
}

// report is the time at which a device says what it is, as often as it is to say that.
// While the edge is offline it says nothing, and goes on later.
type report struct{ *device }

func (r report) happenTo(s *step) {
	if s.e.devices[r.uid] != r.device {
		return
	}
	if s.e.connected && len(r.properties) > 0 {
		r.reports++
		r.sendReport(s)
	}
	if r.reports < s.o.Reports {
		s.addTimer(s.o.ReportEvery, r)
	}
}

// sendReport sends a report.
func (d *device) sendReport(s *step) {
	u := message.TwinUpdate{Timestamp: s.wall.UnixMilli(), Twin: map[string]message.TwinReport{}}
	for _, name := range d.properties {
		u.Twin[name] = message.TwinReport{
			Actual:   &message.TwinActual{Value: strconv.Itoa(d.reports), Metadata: message.TwinTime{Timestamp: u.Timestamp}},
			Metadata: &message.TwinKind{Type: "int"},
		}
	}
	m := s.newMessage(message.Route{
		Source: message.SourceTwin, Group: message.GroupCloud, Operation: message.Update, Resource: message.TwinResource(d.namespace, d.name),
	}, encodeContent(u))
	s.sendMessage(&m)
	s.addFact(reported, "")
}

// unreportedDevices names the devices whose status is not what they said last.
func (c *checker) unreportedDevices() (out []agree.Difference) {
	for _, d := range slim.All[*object](c.devices) {
		e := c.fleet.byName[d.node]
		if e == nil {
			continue
		}
		said, id := e.countReports(string(d.UID)), d.Namespace+"/"+d.Name
		if said == 0 {
			continue
		}
		differs := agree.Difference{Kind: "devicestatus", Object: id, Where: []string{d.node}}
		there, ok := slim.Lookup[*api.DeviceStatus](c.statuses, id)
		switch {
		case !ok:
			differs.How = howMissing
		case slices.ContainsFunc(there.Status.Twins, func(t api.Twin) bool { return t.Reported == nil || t.Reported.Value != strconv.Itoa(said) }):
			differs.How = howStale
		default:
			continue
		}
		out = append(out, differs)
	}
	return out
}
