// Package printer shows objects as rows of tables, as kubectl get asks an API
// server to.
package printer

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// column is a column of a kind's table.
type column struct {
	name   string
	format string
	wide   bool // shown by -o wide only
	number bool
	cell   func(o runtime.Object, now time.Time) any
}

// Columns returns the columns of a resource.
func Columns(k *kind.Kind) (out []metav1.TableColumnDefinition) {
	for _, c := range columnsOf(k) {
		d := metav1.TableColumnDefinition{Name: c.name, Type: "string", Format: c.format}
		if c.number {
			d.Type = "integer"
		}
		if c.wide {
			d.Priority = 1
		}
		out = append(out, d)
	}
	if k.Custom == nil {
		return out
	}
	for _, c := range k.Custom.Columns {
		out = append(out, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority})
	}
	return out
}

// Cells returns the cells of an object's row.
func Cells(k *kind.Kind, o runtime.Object, now time.Time) (out []any) {
	for _, c := range columnsOf(k) {
		out = append(out, c.cell(o, now))
	}
	if u, ok := o.(*unstructured.Unstructured); ok && k.Custom != nil {
		for _, c := range k.Custom.Columns {
			out = append(out, customCell(u, c.JSONPath, c.Type, now))
		}
	}
	return out
}

func columnsOf(k *kind.Kind) []column {
	if k.Custom != nil && len(k.Custom.Columns) > 0 {
		return namedColumns()
	}
	if k.Custom != nil {
		return namedColumns(ageColumn())
	}
	if own := builtinColumns(k.Table()); own != nil {
		return own
	}
	return namedColumns(column{name: "Created At", cell: func(o runtime.Object, _ time.Time) any {
		return o.(metav1.Object).GetCreationTimestamp().UTC().Format(time.RFC3339)
	}})
}

func ageColumn() column {
	return column{name: "Age", cell: func(o runtime.Object, now time.Time) any {
		return formatAge(o.(metav1.Object).GetCreationTimestamp(), now)
	}}
}

// formatAge writes how long ago a time was, as people read it.
func formatAge(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// customCell returns the cell of a column that a CustomResourceDefinition names.
func customCell(u *unstructured.Unstructured, path, kind string, now time.Time) any {
	j := jsonpath.New("column").AllowMissingKeys(true)
	if err := j.Parse("{" + path + "}"); err != nil {
		return nil
	}
	found, err := j.FindResults(u.Object)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	var texts []string
	for _, v := range found[0] {
		texts = append(texts, fmt.Sprint(v.Interface()))
	}
	switch v := found[0][0].Interface().(type) {
	case string:
		if kind == "date" {
			var t metav1.Time
			if err := t.UnmarshalQueryParameter(v); err != nil {
				return "<invalid>"
			}
			return formatAge(t, now)
		}
	case int64, float64, bool:
		if len(texts) == 1 && kind != "string" {
			return v
		}
	}
	return strings.Join(texts, ",")
}
