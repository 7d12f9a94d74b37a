package serve

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

// writeTable answers with a page as a table.
func (a *answer) writeTable(p page) error {
	t := metav1.Table{TypeMeta: tableMeta(), ListMeta: p.listMeta(), ColumnDefinitions: printer.Columns(a.kind)}
	t.Rows = []metav1.TableRow{}
	head, err := json.Marshal(t)
	if err != nil {
		return err
	}
	out := a.beginBody(http.StatusOK, typeJSON, p.totalBytes())
	defer out.Close()
	_, err = out.Write(bytes.TrimSuffix(head, []byte("]}"))) // rows come last
	for i, o := range p.Objects {
		row, failed := a.tableRow(o)
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
func (a *answer) tableRow(o *store.Object) (metav1.TableRow, error) {
	typed, err := a.kind.Decode(o.Raw)
	if err != nil {
		return metav1.TableRow{}, err
	}
	row := metav1.TableRow{Cells: printer.Cells(a.kind, typed, a.cluster.backend.Now())}
	switch metav1.IncludeObjectPolicy(a.query.Get("includeObject")) {
	case metav1.IncludeNone:
		return row, nil
	case metav1.IncludeObject:
		row.Object = runtime.RawExtension{Object: typed}
		return row, nil
	}
	raw, err := encodePartial(a.kind, o.Raw, false)
	row.Object = runtime.RawExtension{Raw: raw}
	return row, err
}

// encodeRow returns a table of one object, as a watch sends it. The columns are named in
// the first one only.
func (w *watcher) encodeRow(o *store.Object) ([]byte, error) {
	row, err := w.tableRow(o)
	if err != nil {
		return nil, err
	}
	t := metav1.Table{TypeMeta: tableMeta(), ListMeta: metav1.ListMeta{ResourceVersion: registry.FormatVersion(o.Version)}, Rows: []metav1.TableRow{row}}
	t.ColumnDefinitions = printer.Columns(w.kind())
	return json.Marshal(t)
}
