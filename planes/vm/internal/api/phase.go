package api

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is where an instance or a migration is.
type Phase string

// The phases of an instance, in order; migrations have some of their own.
const (
	Pending         Phase = "Pending"
	Scheduling      Phase = "Scheduling"
	Scheduled       Phase = "Scheduled"
	Running         Phase = "Running"
	Succeeded       Phase = "Succeeded"
	Failed          Phase = "Failed"
	PreparingTarget Phase = "PreparingTarget" // migrations
	TargetReady     Phase = "TargetReady"
)

// PhaseTime is when a phase was entered: in whole seconds as the API of
// KubeVirt has it, and beside it to the microsecond.
type PhaseTime struct {
	Phase                    Phase            `json:"phase"`
	PhaseTransitionTimestamp metav1.Time      `json:"phaseTransitionTimestamp"`
	MicroTime                metav1.MicroTime `json:"microTime,omitempty"`
}

// Enter sets the phase and, the first time that it is entered, its time.
func (s *InstanceStatus) Enter(p Phase, now time.Time) {
	s.Phase = p
	s.PhaseTransitionTimestamps = withPhaseTime(s.PhaseTransitionTimestamps, p, now)
}

// Enter sets the phase and, the first time that it is entered, its time.
func (s *MigrationStatus) Enter(p Phase, now time.Time) {
	s.Phase = p
	s.PhaseTransitionTimestamps = withPhaseTime(s.PhaseTransitionTimestamps, p, now)
}

// withPhaseTime appends to a list that others may hold, so it never writes into it.
func withPhaseTime(list []PhaseTime, p Phase, now time.Time) []PhaseTime {
	if slices.ContainsFunc(list, func(t PhaseTime) bool { return t.Phase == p }) {
		return list
	}
	return append(slices.Clip(list), PhaseTime{
		Phase: p, PhaseTransitionTimestamp: metav1.NewTime(now.Truncate(time.Second)),
		MicroTime: metav1.NewMicroTime(now.Truncate(time.Microsecond)),
	})
}

// Entered returns when a phase was entered; the zero time if it was not.
func Entered(list []PhaseTime, p Phase) time.Time {
	for _, t := range list {
		if t.Phase != p {
			continue
		}
		if !t.MicroTime.IsZero() {
			return t.MicroTime.Time
		}
		return t.PhaseTransitionTimestamp.Time
	}
	return time.Time{}
}

// Final says that an instance or a migration does not change any more.
func (p Phase) Final() bool { return p == Succeeded || p == Failed }

// Unprocessed says that there is no launcher pod yet.
func (p Phase) Unprocessed() bool { return p == "" || p == Pending }

// OnNode says that the node's agent owns the object.
func (p Phase) OnNode() bool { return p == Scheduled || p == Running }

// Find returns the condition of a type; nil if there is none.
func Find(list []Condition, kind string) *Condition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// With returns the list with a condition set; the same list if it is so already.
// The time of a condition changes only with its status.
func With(list []Condition, c Condition, now time.Time) []Condition {
	old := Find(list, c.Type)
	if old != nil && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return list
	}
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if old == nil {
		return append(slices.Clip(list), c)
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	c.kept = old.kept
	out := slices.Clone(list)
	*Find(out, c.Type) = c
	return out
}

// True says whether a condition is there and true.
func True(list []Condition, kind string) bool {
	c := Find(list, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}
