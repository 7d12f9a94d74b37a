package hollow

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/printer"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// tableOf answers with a page as a table.
func (q *request) tableOf(p page) error {
	t := metav1.Table{TypeMeta: tableMeta(), ListMeta: p.listMeta(), ColumnDefinitions: printer.Columns(q.Kind)}
	t.Rows = []metav1.TableRow{}
	head, err := json.Marshal(t)
	if err != nil {
		return err
	}
	out := q.begin(http.StatusOK, typeJSON, p.size())
	defer out.Close()
	_, err = out.Write(bytes.TrimSuffix(head, []byte("]}"))) // rows come last
	for i, o := range p.Objects {
		row, failed := q.tableRow(o)
		if failed != nil || err != nil {
			return nil // half of the answer has gone, or who asked has
		}
		raw, failed := json.Marshal(row)
		if failed != nil {
			return nil
		}
		if i > 0 {
			_, _ = io.WriteString(out, ",")
		}
		_, err = out.Write(raw)
	}
	_, _ = io.WriteString(out, "]}\n")
	return nil
}

func tableMeta() metav1.TypeMeta { return metav1.TypeMeta{Kind: "Table", APIVersion: metaVersion} }

// tableRow returns an object's row, with as much of the object as is asked for.
func (q *request) tableRow(o *store.Object) (metav1.TableRow, error) {
	typed, err := q.Kind.Decode(o.Raw)
	if err != nil {
		return metav1.TableRow{}, err
	}
	row := metav1.TableRow{Cells: printer.Cells(q.Kind, typed, q.cluster.server.now())}
	switch metav1.IncludeObjectPolicy(q.query.Get("includeObject")) {
	case metav1.IncludeNone:
		return row, nil
	case metav1.IncludeObject:
		row.Object = runtime.RawExtension{Object: typed}
		return row, nil
	}
	raw, err := partial(q.Kind, o.Raw, false)
	row.Object = runtime.RawExtension{Raw: raw}
	return row, err
}

// row returns a table of one object, as a watch sends it. The columns are named in
// the first one only.
func (w *watcher) row(o *store.Object) ([]byte, error) {
	row, err := w.tableRow(o)
	if err != nil {
		return nil, err
	}
	t := metav1.Table{TypeMeta: tableMeta(), ListMeta: metav1.ListMeta{ResourceVersion: registry.FormatVersion(o.Version)}, Rows: []metav1.TableRow{row}}
	t.ColumnDefinitions = printer.Columns(w.kind())
	return json.Marshal(t)
}
