package rows

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Column is a column of a table.
type Column struct {
	Name     string
	Unit     string // of a number
	Optional bool   // it may be empty
	field    int
}

// Columns returns the columns of the rows of type T, one of this package's.
func Columns[T any]() []Column {
	t := reflect.TypeFor[T]()
	out := make([]Column, t.NumField())
	for i := range out {
		tag := t.Field(i).Tag
		name, options, _ := strings.Cut(tag.Get("parquet"), ",")
		out[i] = Column{Name: name, Unit: tag.Get("unit"), Optional: strings.Contains(options, "optional"), field: i}
	}
	return out
}

// CSV writes rows as comma-separated values (RFC 4180, lines end in a line
// feed) under a line of the columns' names. What is empty has no characters; a
// list is its numbers with spaces between them; a text that begins as a formula has
// an apostrophe before it.
type CSV[T any] struct {
	out     *csv.Writer
	columns []Column
	line    []string
}

// NewCSV begins a table. A failure to write is told by Write or Close.
func NewCSV[T any](out io.Writer) *CSV[T] {
	w := &CSV[T]{out: csv.NewWriter(out), columns: Columns[T]()}
	for _, c := range w.columns {
		w.line = append(w.line, c.Name)
	}
	_ = w.out.Write(w.line)
	return w
}

// Write writes rows.
func (w *CSV[T]) Write(rows []T) (int, error) {
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		for k, c := range w.columns {
			w.line[k] = c.formatValue(row.Field(c.field))
		}
		if err := w.out.Write(w.line); err != nil {
			return i, fmt.Errorf("write CSV: %w", err)
		}
	}
	return len(rows), nil
}

// Close writes what is left. It does not close the writer below it.
func (w *CSV[T]) Close() error {
	w.out.Flush()
	if err := w.out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// formatValue writes one value.
func (c Column) formatValue(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return Column{}.formatValue(v.Elem())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = Column{}.formatValue(v.Index(i))
		}
		return strings.Join(parts, " ")
	case reflect.String:
		return defuseFormula(v.String())
	case reflect.Float64:
		if c.Optional && v.IsZero() {
			return ""
		}
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	if c.Optional && v.IsZero() {
		return ""
	}
	return strconv.FormatInt(v.Int(), 10)
}

// defuseFormula puts an apostrophe before a text that a spreadsheet would run as a
// formula: names come from whoever wrote the scenario.
func defuseFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

// WriteCSV writes the tables of the run directory at run into NAME.csv files of
// a folder.
func WriteCSV(run, folder string) ([]File, error) {
	return Export(run, folder, ".csv", func(f *Files) Sinks {
		return Sinks{
			Calls: NewCSV[Call](f.Create("calls")), Lifecycles: NewCSV[Phase](f.Create("lifecycles")),
			Samples: NewCSV[Sample](f.Create("samples")), Histograms: NewCSV[Histogram](f.Create("histograms")),
			Scrapes: NewCSV[Scrape](f.Create("scrapes")), Events: NewCSV[Event](f.Create("events")),
		}
	})
}
