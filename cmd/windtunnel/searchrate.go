package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/record"
)

// knowsRate refuses a --rate that a run has not.
func (x *searching) knowsRate(r capacity.Run) error {
	name := x.state.Plan.Rate
	if name == "" || len(r.Rates) == 0 {
		return nil
	}
	var have []string
	for _, one := range r.Rates {
		if one.Name == name {
			return nil
		}
		have = append(have, one.Name)
	}
	return fmt.Errorf("--rate %s: not found; the run has %s", name, strings.Join(have, ", "))
}

// limitedBy names what a run's diagnosis has found first; empty where it has
// found nothing.
func limitedBy(path string) string {
	raw, err := record.Dir(path).Read(diagnose.File)
	if err != nil {
		return ""
	}
	var found []diagnose.Finding
	if json.Unmarshal(raw, &found) != nil || len(found) == 0 {
		return ""
	}
	if found[0].Component == "" {
		return string(found[0].Cause)
	}
	return fmt.Sprintf("%s (%s)", found[0].Cause, found[0].Component)
}
