package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// transitionTimes times the phases of instances, as KubeVirt's controller does, from the
// stamps of their moves; here those are microseconds, not whole seconds.
type transitionTimes struct {
	clock                      clock.Clock
	since, creation, deletions *prometheus.HistogramVec

	mu       sync.Mutex
	deleting map[types.UID]time.Time // when the deletion was first seen
}

// newTransitionTimes registers the metrics; call it once a registry.
func newTransitionTimes(r *instrument.Registry, c clock.Clock) *transitionTimes {
	return &transitionTimes{
		clock:    c,
		since:    r.Histogram("kubevirt_vmi_phase_transition_time_seconds", "From one phase of an instance to the next.", "phase", "last_phase"),
		creation: r.Histogram("kubevirt_vmi_phase_transition_time_from_creation_seconds", "From an instance's admission (its Pending stamp; without one its creation, in whole seconds) to a phase.", "phase"),
		deletions: r.Histogram("kubevirt_vmi_phase_transition_time_from_deletion_seconds",
			"From the moment when the deletion of an instance was seen to a phase.", "phase"),
		deleting: map[types.UID]time.Time{},
	}
}

// observeInstance takes an instance as it was and as it is.
func (p *transitionTimes) observeInstance(old, now *api.Instance) {
	if now.DeletionTimestamp != nil {
		p.noteDeleting(now.UID)
	}
	if old == nil || old.Status.Phase == now.Status.Phase {
		return
	}
	stamps := now.Status.PhaseTransitionTimestamps
	at := api.Entered(stamps, now.Status.Phase)
	if at.IsZero() {
		return
	}
	if before := api.Entered(stamps, old.Status.Phase); !before.IsZero() {
		p.since.WithLabelValues(string(now.Status.Phase), string(old.Status.Phase)).Observe(at.Sub(before).Seconds())
	}
	created := api.Entered(stamps, api.Pending)
	if created.IsZero() {
		created = now.CreationTimestamp.Time
	}
	p.creation.WithLabelValues(string(now.Status.Phase)).Observe(at.Sub(created).Seconds())
	if seen, ok := p.deletedAt(now.UID); ok && at.After(seen) {
		p.deletions.WithLabelValues(string(now.Status.Phase)).Observe(at.Sub(seen).Seconds())
	}
}

// forgetInstance forgets an instance.
func (p *transitionTimes) forgetInstance(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.deleting, uid)
}

func (p *transitionTimes) noteDeleting(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.deleting[uid]; !ok {
		p.deleting[uid] = p.clock.Wall(p.clock.Now())
	}
}

func (p *transitionTimes) deletedAt(uid types.UID) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.deleting[uid]
	return t, ok
}
