package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

func TestTransitionTimes(t *testing.T) {
	r := instrument.New("kubevirt")
	phases := newTransitionTimes(r, clock.Start())
	old := &api.Instance{}
	begin := time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)
	old.Status.Enter(api.Pending, begin)
	now := old.Copy()
	now.DeletionTimestamp = &metav1.Time{Time: begin}
	now.Status.Enter(api.Scheduling, begin.Add(1500*time.Millisecond))
	phases.observe(nil, old)
	phases.observe(old, now)
	phases.observe(now, now)
	phases.forget(now.UID)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]float64{} // sum and count
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			got[f.GetName()+labels] = [2]float64{m.GetHistogram().GetSampleSum(), float64(m.GetHistogram().GetSampleCount())}
		}
	}
	for _, want := range []string{
		"kubevirt_vmi_phase_transition_time_seconds Pending Scheduling",
		"kubevirt_vmi_phase_transition_time_from_creation_seconds Scheduling",
	} {
		if got[want] != [2]float64{1.5, 1} {
			t.Errorf("%s: %v", want, got[want])
		}
	}
}
