package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// maxAnnotations is how many of a kind GitHub shows of one step.
const maxAnnotations = 10

// printAnnotations prints a run's judgement as commands of GitHub's workflows, which become
// annotations of the build: an error for each reason of a fail, a warning for
// each of an unknown, a notice for a pass.
func printAnnotations(w io.Writer, dir record.Dir) error {
	raw, err := dir.Read(record.VerdictFile)
	if err != nil {
		return fmt.Errorf("read verdict: %w", err)
	}
	var j slo.Judgement
	if err := json.Unmarshal(raw, &j); err != nil {
		return fmt.Errorf("%s: %w", dir.File(record.VerdictFile), err)
	}
	level := map[slo.Verdict]string{slo.Pass: "notice", slo.Fail: "error", slo.Unknown: "warning"}[j.Verdict]
	title := "windtunnel " + j.Scenario + ": " + strings.ToUpper(string(j.Verdict))
	lines := j.Reasons
	if j.Verdict == slo.Pass {
		lines = append([]string{fmt.Sprintf("%d of %d objectives passed.", len(j.Objectives), len(j.Objectives))}, lines...)
	}
	if len(lines) == 0 {
		lines = []string{"The run has no verdict."}
	}
	if left := len(lines) - maxAnnotations; left > 0 {
		lines = append(lines[:maxAnnotations-1:maxAnnotations-1], fmt.Sprintf("The run's report has %s.", unit.Count(left+1, "more reasons")))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(w, "::%s title=%s::%s\n", level, escapeProperty(title), escapeData(line)); err != nil {
			return fmt.Errorf("print annotations: %w", err)
		}
	}
	return nil
}

// escapeData writes a text so that it stays the message of one command: as
// escapeData of @actions/core does.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty is escapeProperty of @actions/core: a property ends at a colon or comma.
func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}
