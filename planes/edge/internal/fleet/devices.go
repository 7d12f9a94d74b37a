package fleet

import (
	"strconv"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
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
		s.after(s.spread(s.o.ReportEvery), report{own})
	}
}

// report is the time at which a device says what it is, as often as it is to say that.
// While the edge is offline it says nothing, and goes on later.
type report struct{ *device }

func (r report) happen(s *step) {
	if s.e.devices[r.uid] != r.device {
		return
	}
	if s.e.connected && len(r.properties) > 0 {
		r.reports++
		r.send(s)
	}
	if r.reports < s.o.Reports {
		s.after(s.o.ReportEvery, r)
	}
}

// send sends a report.
func (d *device) send(s *step) {
	u := message.TwinUpdate{Timestamp: s.wall.UnixMilli(), Twin: map[string]message.TwinReport{}}
	for _, name := range d.properties {
		u.Twin[name] = message.TwinReport{
			Actual:   &message.TwinActual{Value: strconv.Itoa(d.reports), Metadata: message.TwinTime{Timestamp: u.Timestamp}},
			Metadata: &message.TwinKind{Type: "int"},
		}
	}
	m := s.message(message.Route{
		Source: message.SourceTwin, Group: message.GroupCloud, Operation: message.Update, Resource: message.TwinResource(d.namespace, d.name),
	}, encode(u))
	s.send(&m)
	s.observe(reported, "")
}

// unreported names the devices whose status is not what they said last.
func (c *checker) unreported() (out []Difference) {
	for _, o := range c.devices.GetStore().List() {
		d := o.(*api.Device)
		e := c.fleet.byName[d.Spec.NodeName]
		if e == nil {
			continue
		}
		said, id := e.reports(string(d.UID)), d.Namespace+"/"+d.Name
		if said == 0 {
			continue
		}
		there, ok, err := c.statuses.GetStore().GetByKey(id)
		if err != nil || !ok {
			out = append(out, Difference{d.Spec.NodeName, "devicestatus", id, "missing"})
			continue
		}
		for _, t := range there.(*api.DeviceStatus).Status.Twins {
			if t.Reported == nil || t.Reported.Value != strconv.Itoa(said) {
				out = append(out, Difference{d.Spec.NodeName, "devicestatus", id, "stale"})
				break
			}
		}
	}
	return out
}
