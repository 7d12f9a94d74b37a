package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
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
	phases.observeInstance(nil, old)
	phases.observeInstance(old, now)
	phases.observeInstance(now, now)
	phases.forgetInstance(now.UID)
	for name, labels := range map[string][]string{
		"kubevirt_vmi_phase_transition_time_seconds":               {"phase=Scheduling", "last_phase=Pending"},
		"kubevirt_vmi_phase_transition_time_from_creation_seconds": {"phase=Scheduling"},
	} {
		if got := instrumenttest.Measured(t, r, name, labels...); got.Sum != 1.5 || got.Observed != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
