package run

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// attributed makes facts of a run from 10 s to 20 s, whose API server was scraped at 9, 15 and
// 19 s. Each sample is of a moment in seconds.
type attributed struct {
	store   *series.Store
	defined []record.Series
	facts   *Facts
}

func newAttributed() *attributed {
	a := &attributed{store: series.NewStore()}
	a.facts = &Facts{Series: a.store, Begin: seconds(10), End: seconds(20), Events: []record.Event{{Type: record.EventRunBegan}}}
	for _, s := range []float64{9, 15, 19} {
		a.store.Event(record.Event{Type: record.EventScraped, Name: "kube-apiserver", At: seconds(s)})
	}
	return a
}

func seconds(s float64) clock.Time { return clock.Time(s * float64(time.Second)) }

func (a *attributed) add(target, name string, labels map[string]string, samples ...float64) {
	s := record.Series{Target: target, Name: name}
	for _, l := range []string{"client", "code", "group", "resource", "subresource", "user", "verb", "version"} {
		if v := labels[l]; v != "" {
			s.Labels = append(s.Labels, record.Label{Name: l, Value: v})
		}
	}
	a.defined = append(a.defined, s)
	for i := 0; i < len(samples); i += 2 {
		a.store.Add(a.defined, record.Sample{Series: record.SeriesID(len(a.defined) - 1), At: seconds(samples[i]), Value: samples[i+1]})
	}
}

func (a *attributed) request(client, user, verb, resource, code string, count, took float64) {
	l := map[string]string{"client": client, "user": user, "verb": verb, "resource": resource, "code": code, "version": "v1"}
	a.add(Instrument, ClientRequests, l, 9, 100, 18, 100+count)
	a.add(Instrument, ClientSeconds, l, 9, 5, 18, 5+took)
}

func TestAttribute(t *testing.T) {
	a := newAttributed()
	if a.facts.Attribute() != nil {
		t.Error("clients are known without an audit log")
	}
	a.add(Instrument, AuditBytes, nil, 9, 0, 18, 4096)
	a.add(Instrument, AuditUnreadable, nil, 9, 1, 18, 3)
	a.request("manager", "x", "update", "pods", "200", 30, 6)
	a.request("manager", "x", "update", "pods", "409", 10, 1)
	a.request("manager", "y", "get", "", "200", 5, 1)
	a.request("load", "z", "create", "deployments.apps", "201", 20, 2)
	a.add(Instrument, ClientWatches, map[string]string{"client": "load", "user": "z", "resource": "pods"}, 9, 1, 18, 3)
	a.add("kube-apiserver", CPUSeries, nil, 9, 50, 15, 53, 19, 60)
	a.add("kube-apiserver", AllocatedBytes, nil, 9, 1e6, 19, 3e6)
	served := func(verb, group, resource string, n float64) {
		a.add("kube-apiserver", servedRequests, map[string]string{"verb": verb, "group": group, "resource": resource}, 9, 7, 19, 7+n)
	}
	served("PUT", "", "pods", 40)
	served("POST", "apps", "deployments", 20)
	served("GET", "", "", 99) // no resource
	got := a.facts.Attribute()
	if share, known := got.CoveredShare(); !known || share != 1 || !got.Enough() || got.Bytes != 4096 || got.Unreadable != 2 {
		t.Errorf("%v of the server's count, %+v", share, got)
	}
	if k := got.Kinds[RequestKey{"update", "pods", ""}]; k != (Counted{40, 40, 40}) || !k.Agree() {
		t.Errorf("updates of pods: %+v", k)
	}
	if len(got.Clients) != 3 {
		t.Fatalf("%+v", got.Clients)
	}
	x := got.Clients[0]
	if x.Name != "manager" || x.User != "x" || x.Version != "v1" || x.Requests != 40 || x.Failed != 10 || x.Seconds != 7 || x.Share != 0.7 || math.Abs(x.CPU-7) > 1e-9 || math.Abs(x.Allocated-1.4e6) > 1e-6 {
		t.Errorf("%+v", x)
	}
	if y := got.Clients[1]; y.Name != "load" || y.Watches != 2 {
		t.Errorf("%+v", y)
	}
	names := got.ByName()
	if len(names) != 2 || names[0].Requests != 45 || math.Abs(names[0].Share-0.8) > 1e-9 || names[0].Version != "v1" {
		t.Errorf("%+v", names)
	}
	if busy := names[0].Busiest(1); len(busy) != 1 || busy[0].String() != "update pods" || (RequestKey{Verb: "get"}).String() != "get (no resource)" || (RequestKey{"get", "a", "b"}).String() != "get a/b" {
		t.Errorf("%v", busy)
	}
	served("DELETE", "", "pods", 3)
	if again := a.facts.Attribute(); again.Enough() {
		t.Errorf("60 of 63 requests are enough: %+v", again)
	}
}

// Without the server's own counters, whether the log has all is not known.
func TestAttributionWithoutCounters(t *testing.T) {
	a := newAttributed()
	a.add(Instrument, AuditBytes, nil, 9, 0, 18, 4096)
	for i := range 3 {
		a.request("a", strconv.Itoa(i), "get", "pods", "200", 1, 0)
	}
	got := a.facts.Attribute()
	if _, known := got.CoveredShare(); known || got.Enough() || len(got.Clients) != 3 || got.Clients[0].Share != 0 || got.Clients[0].User != "0" {
		t.Errorf("%+v", got)
	}
}

// TestRequestsAroundAScrape counts requests that ended while the server's counters were read: the
// server may have counted them or not.
func TestRequestsAroundAScrape(t *testing.T) {
	for served, agree := range map[float64]bool{9: false, 10: true, 12: true, 15: true, 16: false} {
		a := newAttributed()
		a.add(Instrument, AuditBytes, nil, 9, 0, 18, 4096)
		// Read at 8.9 and 9.5 s, around the scrape at 9, and at 18.9 and 19.5 s, around that at 19.
		a.add(Instrument, ClientRequests, map[string]string{"client": "a", "verb": "get", "resource": "pods"}, 8.9, 100, 9.5, 102, 18.9, 112, 19.5, 115)
		a.add("kube-apiserver", servedRequests, map[string]string{"verb": "GET", "resource": "pods"}, 9, 7, 19, 7+served)
		got := a.facts.Attribute()
		if k := got.Kinds[RequestKey{Verb: "get", Resource: "pods"}]; k.Agree() != agree || k.Least != 10 || k.Most != 15 {
			t.Errorf("%v served: %+v", served, k)
		}
		if share, _ := got.CoveredShare(); share != min(1, 15/served) {
			t.Errorf("%v served: a share of %v", served, share)
		}
	}
}
