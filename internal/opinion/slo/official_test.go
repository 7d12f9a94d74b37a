package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestOfficialObjectives(t *testing.T) {
	f := newFlight(t)
	f.objective(official("latency"))
	f.pods("saturation", 500, 20) // not asked about
	f.pods("latency", 500, 0.4)
	// Of before the run: 1,000 slow calls that the run must not be blamed for.
	f.histogram(9, request{"PATCH", "", "nodes", "status", "resource"}, map[float64]int{2.5: 1000})
	f.histogram(50, request{"PATCH", "", "nodes", "status", "resource"}, map[float64]int{2.5: 1000, 0.03: 5000})
	f.quickRequests()
	f.histogram(50, request{"PUT", "apps", "deployments", "", "resource"}, map[float64]int{0.03: 980, 1.1: 20})
	f.histogram(50, request{"GET", "", "pods", "", "resource"}, map[float64]int{0.03: 50})
	f.histogram(50, request{"LIST", "", "pods", "", "namespace"}, map[float64]int{12: 500})
	f.histogram(50, request{"LIST", "", "pods", "", "cluster"}, map[float64]int{29: 990, 31: 10})
	for _, ignored := range []request{
		{"WATCH", "", "pods", "", "cluster"}, {"CONNECT", "", "pods", "exec", "resource"}, {"GET", "", "pods", "log", "resource"},
		{"POST", "", "services", "proxy", "resource"}, {"POST", "example.com", "apps", "", "resource"},
		{"POST", "apiextensions.k8s.io", "customresourcedefinitions", "", "resource"},
		{"POST", "authorization.k8s.io", "subjectaccessreviews", "", "resource"}, {"GET", "", "", "", ""},
		{"DELETECOLLECTION", "", "pods", "", "namespace"},
		{"LIST", "apiregistration.k8s.io", "apiservices", "", "cluster"}, // windtunnel's own pulse
	} {
		f.histogram(50, ignored, map[float64]int{50: 1000})
	}
	f.end(record.Done)
	j := f.judge()
	if j.Verdict != slo.Fail || len(j.Objectives) != 7 {
		t.Fatalf("verdict %s, %d objectives: %+v", j.Verdict, len(j.Objectives), j.Objectives)
	}
	if first := j.Objectives[0]; first.Verdict != slo.Fail || first.Labels["resource"] != "deployments.apps" || first.Labels["verb"] != "PUT" {
		t.Errorf("the worst stands first: %+v", first)
	}
	if got := j.Objectives[0].Interval; got == nil || *got != [2]float64{1, 1.25} {
		t.Errorf("a histogram's interval is its bucket: %v", got)
	}
	for _, c := range []struct {
		name    string
		labels  map[string]string
		samples int
		warns   string
	}{
		{"mutating calls", map[string]string{"verb": "PATCH", "resource": "nodes", "subresource": "status"}, 5000, ""},
		{"mutating calls", map[string]string{"verb": "POST", "resource": "pods"}, 3000, ""},
		{"reads of one object", map[string]string{"verb": "GET"}, 50, "only 50 samples"},
		{"lists of a namespace", map[string]string{"scope": "namespace"}, 500, ""},
		{"lists of the cluster", map[string]string{"scope": "cluster"}, 1000, ""},
		{"pod startup", map[string]string{"group": "latency", "phase": "startup"}, 500, ""},
	} {
		r := find(t, j, c.name, c.labels)
		warned := strings.Join(r.Warnings, "; ")
		if r.Verdict != slo.Pass || r.Samples != c.samples || (c.warns == "") != (warned == "") || !strings.Contains(warned, c.warns) {
			t.Errorf("%s %v = %+v", c.name, c.labels, r)
		}
	}
}

func TestOfficialObjectivesWithoutTheServer(t *testing.T) {
	f := newFlight(t)
	f.objective(official())
	f.pods("g", 500, 0.4)
	f.event(50, record.EventScrapeFailed, "kube-apiserver", "connection refused")
	f.end(record.Done)
	j := f.judge()
	r := find(t, j, "API calls", nil)
	if j.Verdict != slo.Unknown || r.Verdict != slo.Unknown || r.Value != nil {
		t.Errorf("verdict %s, %+v", j.Verdict, r)
	}
	if !strings.Contains(j.Reasons[0], "nothing was read of the API server's apiserver_request_sli_duration_seconds: it could not be scraped") {
		t.Errorf("reasons = %q", j.Reasons)
	}
}

// Lists that nobody asked for are no news; an objective on them says that there were none.
func TestClassesWithoutCallsAreSaidWhereAskedFor(t *testing.T) {
	f := newFlight(t)
	f.objective(official())
	f.pods("g", 500, 0.4)
	f.quickRequests()
	f.end(record.Done)
	j := f.judge()
	if j.Verdict != slo.Pass || len(j.Reasons) != 0 {
		t.Errorf("verdict %s, reasons %q", j.Verdict, j.Reasons)
	}
	f.objective(scenario.Objective{SLI: "server-latency", Labels: map[string]string{"verb": "list", "scope": "cluster"}, Statistic: "p99", Max: new(1.0)})
	if j := f.judge(); j.Verdict != slo.Unknown || len(j.Reasons) != 1 || !strings.Contains(j.Reasons[0], "cluster") {
		t.Errorf("asked for: verdict %s, reasons %q", j.Verdict, j.Reasons)
	}
}

// No call at all that changes something is nothing to judge a plane by.
func TestNoMutatingCallIsUnknown(t *testing.T) {
	f := newFlight(t)
	f.objective(official())
	f.pods("g", 500, 0.4)
	f.histogram(50, request{"GET", "", "pods", "", "resource"}, map[float64]int{0.03: 500})
	f.end(record.Done)
	if j := f.judge(); j.Verdict != slo.Unknown {
		t.Errorf("verdict %s, %+v", j.Verdict, j.Objectives)
	}
}

func TestPodStartup(t *testing.T) {
	for _, c := range []struct {
		name    string
		fly     func(*flight)
		want    slo.Verdict
		samples int
		warns   string
	}{
		{"all run", func(f *flight) { f.pods("g", 1000, 0.5) }, slo.Pass, 1000, ""},
		{"a few never run", func(f *flight) {
			f.pods("g", 995, 0.5)
			for range 5 {
				f.pod("g", "created", 20.0)
			}
		}, slo.Pass, 1000, ""},
		{"too many never run, long enough", func(f *flight) {
			f.pods("g", 980, 0.5)
			for range 20 {
				f.pod("g", "created", 20.0, "bound", 21.0)
			}
		}, slo.Fail, 1000, "20 of 1000 samples known only within bounds: the p99 lies above 80"},
		{"too many do not run yet", func(f *flight) {
			f.pods("g", 980, 0.5)
			for range 20 {
				f.pod("g", "created", 98.0)
			}
		}, slo.Unknown, 1000, "the p99 lies above 2"},
		{"deleted before they ran", func(f *flight) {
			f.pods("g", 980, 0.5)
			for range 20 {
				f.pod("g", "created", 20.0, "deleting", 23.0, "deleted", 24.0)
			}
		}, slo.Unknown, 1000, "the p99 lies above 3"},
		{"a wait asks for more than was seen", func(f *flight) {
			f.sc.Steps = []scenario.Step{{Name: "wait", Wait: &scenario.Wait{Pods: "g", Are: "running", Count: 1100}}}
			f.event(11, record.EventStepBegan, "wait", "")
			f.pods("g", 1000, 0.5)
		}, slo.Unknown, 1100, "100 of the 1100 pods of group g were never seen created"},
		{"a wait that was not reached asks for nothing", func(f *flight) {
			f.sc.Steps = []scenario.Step{{Name: "wait", Wait: &scenario.Wait{Pods: "g", Are: "running", Count: 1100}}}
			f.pods("g", 1000, 0.5)
		}, slo.Pass, 1000, ""},
		{"the watch was interrupted", func(f *flight) {
			f.pods("g", 900, 0.5)
			for range 100 {
				f.pod("g", "created", 20.0, "bound", 21.0, "unknown", 27.0, "running", 27.0)
			}
		}, slo.Unknown, 1000, "the p99 lies between 1 and 7"},
		{"the watch was interrupted, but not for long", func(f *flight) {
			f.pods("g", 900, 0.5)
			for range 100 {
				f.pod("g", "created", 20.0, "unknown", 24.0, "running", 24.0)
			}
		}, slo.Pass, 1000, "the p99 lies between 0.5 and 4"},
		{"created while the watch was interrupted", func(f *flight) {
			f.pods("g", 900, 0.5)
			for range 100 {
				f.pod("g", "unknown", 24.0, "running", 24.0)
			}
		}, slo.Unknown, 1000, "100 of 1000 samples known only within bounds"},
		{"left over from before the run", func(f *flight) {
			f.pods("g", 1000, 0.5)
			for range 100 {
				f.pod("g", "unknown", 5.0, "running", 5.0)
				f.pod("g", "created", 6.0)
			}
		}, slo.Pass, 1000, ""},
		{"an empty group", func(f *flight) { f.pods("other", 10, 0.5) }, slo.Unknown, 0, "nothing was measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			f.objective(official("g"))
			f.quickRequests()
			c.fly(f)
			f.end(record.Done)
			j := f.judge()
			r := find(t, j, "pod startup", nil)
			warned := strings.Join(r.Warnings, "; ")
			if r.Verdict != c.want || r.Samples != c.samples || (c.warns == "") != (warned == "") || !strings.Contains(warned, c.warns) {
				t.Errorf("%+v", r)
			}
			whole := c.want
			if len(f.sc.Steps) > 0 && len(j.Unmet) > 0 {
				whole = slo.Unknown // the step was not reached
			}
			if j.Verdict != whole {
				t.Errorf("verdict of the whole = %s, reasons %q", j.Verdict, j.Reasons)
			}
		})
	}
}

// A restart of the API server begins its counters anew.
func TestHistogramsSurviveARestart(t *testing.T) {
	f := newFlight(t)
	f.objective(official())
	f.pods("g", 500, 0.4)
	r := request{"POST", "", "pods", "", "resource"}
	f.histogram(9, r, map[float64]int{0.03: 1000})
	f.histogram(40, r, map[float64]int{0.03: 1500})
	f.histogram(60, r, map[float64]int{0.03: 200})
	f.end(record.Done)
	j := f.judge()
	if got := find(t, j, "mutating calls", nil); got.Samples != 700 || got.Verdict != slo.Pass {
		t.Errorf("%+v, want 500 requests before the restart and 200 after it", got)
	}
}
