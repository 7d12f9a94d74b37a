package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// diagnosisFile says what gave way first; package diagnose makes it.
const diagnosisFile = "diagnosis.json"

// shownCauses are told at once; those after them are folded away.
const shownCauses = 2

// Cause is one thing that gave way, as diagnosis.json has it.
type Cause struct {
	Rank      int        `json:"rank"` // 1 gave way first
	Cause     string     `json:"cause"`
	Component string     `json:"component"`
	Sentence  string     `json:"sentence"`
	Score     float64    `json:"score"`
	Evidence  []Evidence `json:"evidence"`
	Try       advice     `json:"try"` // what to change to find out
}

// Evidence is one figure that speaks for a cause.
type Evidence struct {
	Expr     string   `json:"expr"` // that the figure is the answer of
	Value    *float64 `json:"value"`
	Unit     string   `json:"unit"`
	Bound    *float64 `json:"bound"` // that it is held against
	Sentence string   `json:"sentence"`
}

// ValueText is the figure with its unit.
func (e Evidence) ValueText() string { return optional(e.Value, e.Unit) }

// BoundText is the bound with its unit.
func (e Evidence) BoundText() string { return optional(e.Bound, e.Unit) }

func optional(v *float64, u string) string {
	if v == nil {
		return ""
	}
	return unit.Text(*v, u)
}

// advice is a sentence, or several in a list.
type advice []string

// UnmarshalJSON takes a text or a list of texts.
func (a *advice) UnmarshalJSON(raw []byte) error {
	var one string
	if err := json.Unmarshal(raw, &one); err == nil {
		if *a = nil; one != "" {
			*a = advice{one}
		}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// readDiagnosis returns what gave way, first of all what did so first; nothing
// where the run has no diagnosis.
func readDiagnosis(dir record.Dir) ([]Cause, error) {
	raw, err := os.ReadFile(dir.File(diagnosisFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read diagnosis: %w", err)
	}
	var out []Cause
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("decode %s: %w", diagnosisFile, err)
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return a.Rank - b.Rank })
	return out, nil
}

// Title names the cause and the component.
func (c Cause) Title() string {
	words := causeWords(c.Cause)
	switch {
	case c.Component == "" || strings.Contains(words, c.Component):
		return words
	case words == "":
		return c.Component
	}
	return words + " (" + c.Component + ")"
}

// causeWords is what people call a cause of package diagnose; one that is not
// known here keeps its name.
func causeWords(cause string) string {
	if words, ok := map[string]string{
		"cpu-limit": "CPU limit", "memory": "Memory", "client-throttle": "Its own rate limiter", "work-queue": "Workers of a queue",
		"apf": "Priority and fairness", "webhook": "Webhook", "etcd-disk": "etcd’s disk", "etcd-latency": "etcd’s latency",
		"etcd-quota": "etcd’s quota", "watch-cache": "Watch cache", "locks": "Locks", "scheduler": "Scheduling itself",
		"load-late": "windtunnel’s load was late", "fleet-late": "windtunnel’s fleet was late", "machine": "The machine’s CPU",
	}[cause]; ok {
		return words
	}
	return cause
}

// Share is how much of the load's time the cause explains, in words.
func (c Cause) Share() string {
	if c.Score <= 0 {
		return ""
	}
	return fmt.Sprintf("It explains %.0f %% of the load’s time.", 100*min(c.Score, 1))
}

// causes splits the diagnosis into what is shown and what is folded away.
func (r *Report) causes() (shown, folded []Cause) {
	n := min(len(r.Causes), shownCauses)
	return r.Causes[:n], r.Causes[n:]
}
