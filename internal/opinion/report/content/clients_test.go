package content

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

func TestClientsFinding(t *testing.T) {
	for want, a := range map[string]*run.Attribution{
		"fine The audit log has 99.5 % of the requests":                                 {Attributed: 199, Served: 200},
		"bad The audit log has 50.0 % of the requests":                                  {Attributed: 1, Served: 2},
		"bad kube-apiserver's own count of requests was not read":                       {Attributed: 1},
		"fine The audit log has 100.0 % of the requests that kube-apiserver counted. 3": {Attributed: 1, Served: 1, Unreadable: 3},
	} {
		got := clientsFinding(a)
		if len(got) != 1 || !strings.HasPrefix(string(got[0].Level)+" "+got[0].Text, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	if got := clientsFinding(nil); got != nil {
		t.Errorf("without an audit log: %+v", got)
	}
}

// TestClientsChart draws a line for each client.
func TestClientsChart(t *testing.T) {
	in := &run.Run{Manifest: record.Manifest{Started: time.Unix(1e9, 0)}, Facts: &run.Facts{Series: series.NewStore()}}
	if charts := clientsChart(in); charts != nil {
		t.Errorf("without an audit log: %+v", charts)
	}
	var defined []record.Series
	for i, client := range []string{"a", "b"} {
		defined = append(defined, record.Series{Target: run.Instrument, Name: run.ClientRequests, Labels: []record.Label{{Name: "client", Value: client}}})
		for s := range 40 {
			in.Facts.Series.Add(defined, record.Sample{Series: record.SeriesID(i), At: at(float64(s) / 2), Value: float64(s * (i + 1))})
		}
	}
	charts := clientsChart(in)
	if len(charts) != 1 || len(charts[0].Lines) != 2 || !charts[0].Stacked {
		t.Fatalf("%+v", charts)
	}
	for i, l := range charts[0].Lines {
		if mid := float64(l.Mean[len(l.Mean)/2]); mid < 1.9*float64(i+1) || mid > 2.1*float64(i+1) {
			t.Errorf("%s: %v requests a second, want %d", l.Name, mid, 2*(i+1))
		}
	}
}
