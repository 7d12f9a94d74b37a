package content

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/scenario"
)

// clientsFinding says how much of what the API server counted is attributed to clients, and
// what the audit log was; nil where none was read.
func clientsFinding(a *run.Attribution) []Finding {
	if a == nil {
		return nil
	}
	f := Finding{Fine, "Clients", ""}
	share, known := a.CoveredShare()
	switch {
	case !known:
		f.Level, f.Text = Bad, "kube-apiserver's own count of requests was not read: nobody can tell whether its audit log has all of them."
	case !a.Enough():
		f.Level, f.Text = Bad, fmt.Sprintf("The audit log has %.1f %% of the requests that kube-apiserver counted (at least %.0f %% are needed).", 100*share, 100*run.EnoughAttributed)
	default:
		f.Text = fmt.Sprintf("The audit log has %.1f %% of the requests that kube-apiserver counted.", 100*share)
	}
	if a.Unreadable > 0 {
		f.Text += fmt.Sprintf(" %.0f of its lines could not be read.", a.Unreadable)
	}
	return []Finding{f}
}

// clientsChart draws the requests of each client over time; none where no audit log was read.
func clientsChart(in *run.Run) []TimeChart {
	if len(in.Facts.Series.Named(run.ClientRequests)) == 0 {
		return nil
	}
	a, ok := newAsker(in)
	if !ok {
		return nil
	}
	return []TimeChart{a.newChart("clients", scenario.Chart{
		Name: "Requests by client", Query: "sum by (client) (rate(" + run.ClientRequests + "[5s]))", Unit: "1/s", Stacked: true,
	})}
}
