package fleet

import (
	"encoding/json"
	"strconv"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// thing is a device that reports: how often it did is what it reports.
type thing struct {
	namespace, name string
	properties      []string
	reports         int
}

// thingLocked lets a device that is new report, and one that changed go on.
func (e *edge) thingLocked(d *api.Device) {
	if e.fleet.o.Reports == 0 {
		return
	}
	uid := string(d.UID)
	own := e.things[uid]
	isNew := own == nil
	if isNew {
		own = &thing{}
		if e.things == nil {
			e.things = map[string]*thing{}
		}
		e.things[uid] = own
	}
	own.namespace, own.name, own.properties = d.Namespace, d.Name, nil
	for _, p := range d.Spec.Properties {
		own.properties = append(own.properties, p.Name)
	}
	if isNew {
		e.fleet.schedule.in(spread(e.fleet.o.ReportEvery), func() { e.report(uid, own) })
	}
}

// report says what a device is, now and as often as it is to be said. Who is offline says
// nothing, and goes on later.
func (e *edge) report(uid string, own *thing) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := &e.fleet.o
	if e.things[uid] != own {
		return
	}
	if e.conn != nil && len(own.properties) > 0 {
		own.reports++
		u := message.TwinUpdate{Timestamp: e.fleet.wall(), Twin: map[string]message.TwinReport{}}
		for _, name := range own.properties {
			u.Twin[name] = message.TwinReport{
				Actual:   &message.TwinActual{Value: strconv.Itoa(own.reports), Metadata: message.TwinTime{Timestamp: u.Timestamp}},
				Metadata: &message.TwinKind{Type: "int"},
			}
		}
		raw, err := json.Marshal(u)
		if err != nil {
			panic(err) // this can always be written
		}
		m := message.New(u.Timestamp, message.Route{
			Source: message.SourceTwin, Group: message.GroupCloud, Operation: message.Update, Resource: message.TwinResource(own.namespace, own.name),
		}, raw)
		e.sendLocked(&m)
		e.fleet.metrics.reports.Inc()
	}
	if own.reports < o.Reports {
		e.fleet.schedule.in(o.ReportEvery, func() { e.report(uid, own) })
	}
}

// reported is how often a device has reported, 0 where it has not.
func (e *edge) reported(uid string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if own := e.things[uid]; own != nil {
		return own.reports
	}
	return 0
}

// unreported names the devices whose status is not what they said last.
func (c *checker) unreported() (out []Difference) {
	for _, o := range c.devices.GetStore().List() {
		d := o.(*api.Device)
		e := c.fleet.byName[d.Spec.NodeName]
		if e == nil {
			continue
		}
		said, id := e.reported(string(d.UID)), d.Namespace+"/"+d.Name
		if said == 0 {
			continue
		}
		there, ok, err := c.statuses.GetStore().GetByKey(id)
		if err != nil || !ok {
			out = append(out, Difference{e.name, "devicestatus", id, "missing"})
			continue
		}
		for _, t := range there.(*api.DeviceStatus).Status.Twins {
			if t.Reported == nil || t.Reported.Value != strconv.Itoa(said) {
				out = append(out, Difference{e.name, "devicestatus", id, "stale"})
				break
			}
		}
	}
	return out
}
