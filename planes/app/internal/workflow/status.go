package workflow

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// Reasons of a step's phase. A failed step is tried again for ReasonTry only.
const (
	ReasonTry        = "Execute"
	ReasonWait       = "Wait"
	ReasonSkip       = "Skip"
	ReasonSuspend    = "Suspend"
	ReasonRetries    = "FailedAfterRetries"
	ReasonTimeout    = "Timeout"
	ReasonTerminated = "Terminate"
	ReasonExpression = "Rendering"
	ReasonInput      = "ProcessParameter"
)

// Always is the condition of a step that runs even if a step before it failed.
const Always = "always"

// maxPatience is the number of looks at an unhealthy step after which it is reported.
// The first looks are one second apart, and a healthy step takes one or two.
const maxPatience = 5

// Bounds of tries.
const (
	maxTries   = 10
	maxWait    = 60 * time.Second  // between two looks at an unhealthy step
	maxFailing = 300 * time.Second // between two tries of a failing step
)

// tryWait returns how long a step waits before its next try: 1 s at first, twice as
// long each time from the sixth on, up to a bound.
func tryWait(tries int, bound time.Duration) time.Duration {
	seconds := math.Floor(0.05 * math.Pow(2, float64(min(tries, 20))))
	return min(time.Duration(max(seconds, 1))*time.Second, bound)
}

// minWait returns the shorter of two waits; one that is not above 0 is none.
func minWait(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}

// ByName returns the statuses of all steps by name, with those within groups.
func ByName(w *api.WorkflowStatus) map[string]api.StepStatus {
	out := map[string]api.StepStatus{}
	for _, s := range w.Steps {
		out[s.Name] = s
		for _, o := range s.SubSteps {
			out[o.Name] = o
		}
	}
	return out
}

// isFinished says whether a step does not run again.
func isFinished(s api.StepStatus) bool {
	return s.Phase == api.StepSucceeded || s.Phase == api.StepSkipped || s.Phase == api.StepFailed && s.Reason != ReasonTry
}

// summarizeSteps says whether as many steps as there are have finished, and whether one
// of them failed.
func summarizeSteps(all []api.StepStatus, steps int) (over, failed bool) {
	done := 0
	for _, s := range all {
		if isFinished(s) {
			done++
		}
		failed = failed || s.Phase == api.StepFailed
	}
	return done == steps, failed
}

// ensureStatus returns the status of a step, which is made if there is none.
func ensureStatus(all *[]api.StepStatus, s *Step, revision string) *api.StepStatus {
	for i := range *all {
		if (*all)[i].Name == s.Name {
			return &(*all)[i]
		}
	}
	*all = append(*all, api.StepStatus{ID: idOf(revision, s.Name), Name: s.Name, Type: s.Type, Phase: api.StepPending})
	return &(*all)[len(*all)-1]
}

// idOf returns an ID that is the same after a restart.
func idOf(revision, name string) string {
	hash, err := api.Hash(revision + "/" + name)
	if err != nil {
		return name // a string always has a hash
	}
	return hash[:10]
}
