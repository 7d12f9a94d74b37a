package history

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Columns of a table of runs that are no measures. Apache Otava reads and writes such
// tables: a row a run, a column with its time, columns of numbers, and attributes.
const (
	timeColumn   = "time"
	runColumn    = "run"
	branchColumn = "branch"
)

// Bounds of a table of runs.
const (
	maxColumns = 2000
	maxRows    = 100_000
)

// WriteCSV writes what is kept of the runs as a table: time, run, versions, measures. A
// measure that a run does not have is an empty cell. Of the measures it takes those whose keys
// begin with one of only; all where there is none.
func (f *File) WriteCSV(w io.Writer, only []string) error {
	versions, measures := map[string]bool{}, map[string]bool{}
	for _, e := range f.Entries {
		for name := range e.Versions {
			versions[name] = true
		}
		for key := range e.Measures {
			if len(only) == 0 || slo.HasKey(key, only) {
				measures[key] = true
			}
		}
	}
	names, keys := slices.Sorted(maps.Keys(versions)), slices.Sorted(maps.Keys(measures))
	c := csv.NewWriter(w)
	_ = c.Write(slices.Concat([]string{timeColumn, runColumn}, names, keys)) // Error returns it
	for _, e := range f.Entries {
		if e.LeftOut != "" {
			continue
		}
		row := []string{e.Started.Format(time.RFC3339Nano), e.Name}
		for _, name := range names {
			row = append(row, e.Versions[name])
		}
		for _, key := range keys {
			cell := ""
			if m, ok := e.Measures[key]; ok {
				cell = strconv.FormatFloat(m.Value, 'g', -1, 64)
			}
			row = append(row, cell)
		}
		_ = c.Write(row)
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// AddCSV adds the runs of a table. A column of numbers is a measure, of which less is
// better unless its name begins with one of higher; any other column is like a version: it
// is named where a measure changes with it.
func (f *File) AddCSV(name string, r io.Reader, higher []string) error {
	t, err := readTable(name, r)
	if err != nil {
		return err
	}
	entries, err := t.entries(higher)
	if err != nil {
		return err
	}
	for _, prefix := range higher {
		if !slices.ContainsFunc(t.measures, func(key string) bool { return slo.HasKey(key, []string{prefix}) }) {
			return fmt.Errorf("%s: no column of numbers begins with %q", name, prefix)
		}
	}
	if f.Scenario == "" {
		base := filepath.Base(name)
		f.Format, f.Scenario = Format, strings.TrimSuffix(base, filepath.Ext(base))
	}
	f.addEntries(entries)
	return nil
}

// table is a table of runs as it was read: each row has as many cells as the head.
type table struct {
	name     string
	head     []string
	rows     [][]string
	measures []string // the columns that hold only numbers, and at least one
}

func readTable(name string, r io.Reader) (*table, error) {
	c := csv.NewReader(r)
	t := &table{name: name}
	for {
		row, err := c.Read()
		switch {
		case errors.Is(err, io.EOF):
			t.findMeasures()
			return t, t.check()
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case t.head == nil:
			t.head = row
		case len(t.rows) == maxRows:
			return nil, fmt.Errorf("%s: more than %s", name, unit.Count(maxRows, "rows"))
		default:
			t.rows = append(t.rows, row)
		}
	}
}

// check refuses what is no table of runs.
func (t *table) check() error {
	switch {
	case len(t.head) > maxColumns:
		return fmt.Errorf("%s: %s, at most %d are read", t.name, unit.Count(len(t.head), "columns"), maxColumns)
	case len(t.rows) == 0:
		return fmt.Errorf("%s: no runs: want a head with a column %q, and a row for each run", t.name, timeColumn)
	case !slices.Contains(t.head, timeColumn):
		return fmt.Errorf("%s: no column %q; it has %s", t.name, timeColumn, strings.Join(t.head, ", "))
	case len(t.measures) == 0:
		return fmt.Errorf("%s: no column has only numbers, so that there is no measure", t.name)
	}
	for i, column := range t.head {
		if slices.Contains(t.head[:i], column) {
			return fmt.Errorf("%s: two columns %q", t.name, column)
		}
		if column == branchColumn {
			for j, row := range t.rows {
				if row[i] != t.rows[0][i] {
					return fmt.Errorf("%s: row %d is of branch %q, and the first of %q: a history is of one branch", t.name, j+2, row[i], t.rows[0][i])
				}
			}
		}
	}
	return nil
}

func (t *table) findMeasures() {
	for i, column := range t.head {
		numbers := 0
		wrong := slices.ContainsFunc(t.rows, func(row []string) bool {
			if row[i] == "" {
				return false
			}
			numbers++
			_, ok := number(row[i])
			return !ok
		})
		if !wrong && numbers > 0 && !slices.Contains([]string{timeColumn, runColumn, branchColumn, "commit", "version"}, column) {
			t.measures = append(t.measures, column)
		}
	}
}

// number reads a cell; it is finite.
func number(cell string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

func (t *table) entries(higher []string) ([]Entry, error) {
	var out []Entry
	lines := map[time.Time]int{}
	for i, row := range t.rows {
		e := Entry{Versions: map[string]string{}, Verdict: slo.Unknown, Measures: slo.Measures{}}
		for j, column := range t.head {
			cell := row[j]
			switch {
			case column == timeColumn:
				at, ok := parseTime(cell)
				if !ok {
					return nil, fmt.Errorf("%s: row %d: time %q: want RFC 3339, a date, or seconds since 1970", t.name, i+2, cell)
				}
				if earlier := lines[at]; earlier > 0 {
					return nil, fmt.Errorf("%s: rows %d and %d have the same time %q", t.name, earlier, i+2, cell)
				}
				e.Started, lines[at] = at, i+2
			case column == runColumn:
				e.Name = cell
			case slices.Contains(t.measures, column):
				if v, ok := number(cell); ok {
					e.Measures[column] = measureOf(column, v, higher)
				}
			default:
				e.Versions[column] = cell
			}
		}
		if e.Name == "" {
			e.Name = e.Started.Format(time.RFC3339)
		}
		out = append(out, e)
	}
	return out, nil
}

// measureOf is a number of a table: one that windtunnel itself measures has its unit and
// direction.
func measureOf(key string, v float64, higher []string) slo.Measure {
	m := slo.Measure{Value: v, Unit: unitOf(key)}
	if _, _, known := compare.Title(key, m); known {
		return m
	}
	m.Own, m.Better = true, string(compare.Lower)
	if slo.HasKey(key, higher) {
		m.Better = string(compare.Higher)
	}
	return m
}

// unitOf is the unit that a key names.
func unitOf(key string) string {
	for _, u := range []string{"bytes", "seconds"} {
		if strings.HasSuffix(key, "_"+u) || strings.Contains(key, "_"+u+"_") {
			return u
		}
	}
	return ""
}

// parseTime reads a time in one of the usual forms; one without a zone is of UTC.
func parseTime(cell string) (time.Time, bool) {
	cell = strings.TrimSpace(cell)
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 -0700", "2006-01-02 15:04:05.999999999", time.DateOnly} {
		if at, err := time.Parse(form, cell); err == nil {
			return at.UTC(), at.Unix() >= 0
		}
	}
	seconds, ok := number(cell)
	if !ok || seconds < 0 || seconds > math.MaxInt32*100 {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)).UTC(), true
}
