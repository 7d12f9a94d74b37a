package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
)

// writePage writes the comparison as a page, if it was asked for: runs are
// those of each variant, pairs its comparisons with the first.
func (f *compareFlags) writePage(runs [][]compare.Run, pairs []*compare.Comparison) error {
	if f.page == "" {
		return nil
	}
	arms, err := armsOf(runs, pairs)
	if err != nil {
		return err
	}
	page, err := report.Compare(arms, pairs)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := page.HTML(&out); err != nil {
		return err
	}
	if err := writeFile(f.page, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// armsOf reads the records of the runs that are compared.
func armsOf(runs [][]compare.Run, pairs []*compare.Comparison) ([]content.Arm, error) {
	sides := []compare.Side{pairs[0].A}
	for _, c := range pairs {
		sides = append(sides, c.B)
	}
	var out []content.Arm
	for i, side := range sides {
		arm := content.Arm{Name: side.Name}
		for _, r := range runs[i] {
			if r.Facts == nil || !slices.Contains(side.Runs, r.Name) {
				continue
			}
			built, err := judge.Shown(r.Name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
			arm.Runs = append(arm.Runs, built)
		}
		if len(arm.Runs) == 0 {
			return nil, fmt.Errorf("--html: no run of %s has its records", side.Name)
		}
		out = append(out, arm)
	}
	return out, nil
}
