package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Outages are counted with the part that is under way or, until the next one begins, was
// the last: those of calls that are not the load's, and those before the step, are not.
func TestPartsHaveTheirOutages(t *testing.T) {
	ms := func(n int) clock.Time { return clock.Time(time.Duration(n) * time.Millisecond) }
	part := func(at int, what record.EventType, name, to, text string) record.Event {
		return record.Event{At: ms(at), Type: what, Name: name, Text: text, Detail: record.Detail{Step: "up", From: "v1", To: to}}
	}
	f := Facts{End: ms(10_000), Steps: []Step{{Name: "up", Ended: true, From: ms(900), To: ms(5000)}}, Events: []record.Event{
		part(1000, record.EventPartBegan, "etcd-0", "v2", ""),
		part(1500, record.EventPartEnded, "etcd-0", "v2", ""),
		part(2000, record.EventPartBegan, "etcd-1", "v2", ""),
		part(2500, record.EventPartEnded, "etcd-1", "v2", ""),
		part(3000, record.EventPartBegan, "kube-apiserver", "v2", ""),
		part(4000, record.EventPartEnded, "kube-apiserver", "v2", "died"),
	}}
	load, fleet := &Calls{Op: record.Op{Source: Load}}, &Calls{Op: record.Op{Source: "fleet"}}
	f.Calls = []*Calls{load, fleet}
	add := func(c *Calls, due int, code uint16) {
		o := record.OK
		if code != 200 {
			o = record.Failed
		}
		c.Outages.Add(record.Call{Due: ms(due), Sent: ms(due), Done: ms(due), Code: code, Outcome: o})
	}
	for due := 0; due < 10_000; due += 100 {
		bad := due == 500 || due >= 1800 && due < 2300 || due == 3100 || due == 4500 || due == 6000
		code := uint16(200)
		if bad {
			code = 503
		}
		add(load, due, code)
		add(fleet, due, 503)
	}
	var got []string
	for _, p := range f.Parts() {
		got = append(got, fmt.Sprintf("%s %s-%s %d: %v %v%s", p.Name, p.From, p.To, p.Outages, p.Longest, p.Unserved, p.Note))
	}
	want := "etcd-0 v1-v2 1: 200ms 200ms; etcd-1 v1-v2 1: 300ms 300ms; kube-apiserver v1-v2 2: 100ms 200msdied"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if worst := WorstPart(f.Parts()); worst == nil || worst.Name != "etcd-1" {
		t.Errorf("worst %+v", worst)
	}
	if worst := WorstPart([]Part{{Name: "a"}}); worst != nil {
		t.Errorf("served throughout: %+v", worst)
	}
	for _, p := range f.Parts() {
		if p.Uncalled {
			t.Errorf("calls were due during %s", p.Name)
		}
	}
	f.Calls = []*Calls{fleet}
	for _, p := range f.Parts() {
		if !p.Uncalled {
			t.Errorf("without a load calls were due during %s", p.Name)
		}
	}
	f.Events = nil
	if got := f.Parts(); got != nil {
		t.Errorf("without an upgrade: %v", got)
	}
}
