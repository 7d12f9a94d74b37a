package growth

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// describeGrowth says a quantity's growth in words.
func (q Quantity) describeGrowth(against string) string {
	doubling := fmt.Sprintf("twice the %s, %s times as much (%s to %s)", against, unit.Number(q.Doubling.Value),
		unit.Number(q.Doubling.Interval[0]), unit.Number(q.Doubling.Interval[1]))
	if len(q.Projections) == 0 {
		return fmt.Sprintf("no curve comes near to how %s grows with %s: the runs lie %.0f %% off the best; something gave way among these sizes, or they vary by chance", q.Title, against, 100*q.Model.Spread)
	}
	last := q.Projections[len(q.Projections)-1]
	ahead := fmt.Sprintf("projected, not measured: %s at %s %s (%s to %s)", unit.Text(last.Value.Value, q.Unit), unit.Number(last.Size), against,
		unit.Text(last.Interval[0], q.Unit), unit.Text(last.Interval[1], q.Unit))
	switch {
	case q.Shape == Unclear && q.Model.Shape == stats.Constant:
		return fmt.Sprintf("%s shows no growth with %s beyond the noise of these runs, but the noise may hide some; %s", q.Title, against, ahead)
	case q.Shape == Constant:
		return fmt.Sprintf("%s does not grow with %s; %s", q.Title, against, ahead)
	case q.Shape == Unclear:
		return fmt.Sprintf("how %s grows with %s cannot be told from these runs (%s); %s; %s", q.Title, against, q.listWeights(), doubling, ahead)
	}
	return fmt.Sprintf("%s grows %s with %s: %s; %s", q.Title, q.Shape, against, doubling, ahead)
}

// listWeights lists the evidence.
func (q Quantity) listWeights() string {
	var out []string
	for _, shape := range []string{Constant, Linear, Superlinear} {
		out = append(out, fmt.Sprintf("%s %.0f %%", shape, 100*q.Evidence[shape]))
	}
	return strings.Join(out, ", ")
}

// JSON writes the fits with everything that is known.
func (f *Fits) JSON(w io.Writer) error {
	if err := text.JSON(w, f); err != nil {
		return fmt.Errorf("write fits: %w", err)
	}
	return nil
}

// Write writes the fits for a terminal, or for a comment where markdown is set.
func (f *Fits) Write(w io.Writer, markdown bool) error {
	b := &strings.Builder{}
	least, most := slices.Min(f.Sizes), slices.Max(f.Sizes)
	sizes := fmt.Sprintf("%s of %s to %s %s", unit.Count(len(f.Runs), "runs"), unit.Number(least), unit.Number(most), f.Against)
	if markdown {
		fmt.Fprintf(b, "### windtunnel capacity: %s\n\n%s\n\n", text.Escape(f.Scenario), text.Escape(sizes))
	} else {
		fmt.Fprintf(b, "windtunnel capacity  %s\n%s\n\n", text.Clean(f.Scenario), text.Clean(sizes))
	}
	for _, s := range f.Warnings {
		if markdown {
			fmt.Fprintf(b, "- :warning: %s\n", text.Escape(s))
		} else {
			fmt.Fprintf(b, "! %s\n", text.Clean(s))
		}
	}
	if len(f.Warnings) > 0 {
		b.WriteString("\n")
	}
	rows := f.tableRows()
	if t := (text.Table{Head: rows[0], Rows: rows[1:], Left: 2}); markdown {
		t.Markdown(b)
	} else {
		t.Text(b)
	}
	note := "Projections go beyond what was flown: they are no measurements. Their intervals hold the spread of the runs and the choice of the curve, not what gives way on the way there."
	fmt.Fprintf(b, "\n%s\n", note)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write fits: %w", err)
	}
	return nil
}

// tableRows list the quantities, head first.
func (f *Fits) tableRows() [][]string {
	head := []string{"quantity", "growth", "evidence", "smallest size", "largest size", "per doubling"}
	for _, size := range f.Projected {
		head = append(head, "projected to "+unit.Number(size))
	}
	out := [][]string{head}
	for _, q := range f.Quantities {
		row := []string{q.Title, q.Shape, q.proofText(),
			unit.Text(q.medianAt(q.Points[0].X), q.Unit), unit.Text(q.medianAt(q.Points[len(q.Points)-1].X), q.Unit),
			fmt.Sprintf("%s (%s to %s)", unit.Number(q.Doubling.Value), unit.Number(q.Doubling.Interval[0]), unit.Number(q.Doubling.Interval[1]))}
		for i := range f.Projected {
			if len(q.Projections) == 0 {
				row = append(row, "–")
				continue
			}
			p := q.Projections[i]
			row = append(row, fmt.Sprintf("%s (%s to %s)", unit.Text(p.Value.Value, q.Unit), unit.Text(p.Interval[0], q.Unit), unit.Text(p.Interval[1], q.Unit)))
		}
		out = append(out, row)
	}
	return out
}

// proofText is the evidence for the shape that is named, or why there is none.
func (q Quantity) proofText() string {
	switch {
	case q.Model.Spread > Loose:
		return fmt.Sprintf("none within %.0f %%", 100*Loose)
	case q.Evidence[q.Shape] >= Clear:
		return fmt.Sprintf("%.0f %%", 100*q.Evidence[q.Shape])
	case q.Shape == Constant:
		return "flat"
	}
	return "–"
}

// medianAt is the median of the runs of a size.
func (q Quantity) medianAt(size float64) float64 {
	var values []float64
	for _, p := range q.Points {
		if p.X == size {
			values = append(values, p.Y)
		}
	}
	return stats.Median(values).Value
}
