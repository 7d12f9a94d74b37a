package hollow

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// The group and version of what shows objects in part.
const metaVersion = "meta.k8s.io/v1"

// object answers with an object in the form that is asked for.
func (q *request) object(code int, r registry.Result) error {
	switch f := q.form; {
	case f.as == "Table":
		return q.tableOf(page{Listed: r.List()})
	case strings.HasPrefix(f.as, "PartialObjectMetadata"):
		raw, err := partial(r.Kind, r.Raw(), f.proto)
		if err != nil {
			return err
		}
		q.encoded(code, raw)
		return nil
	case f.proto:
		q.bytes(code, typeProto, r.Kind.AppendProto(nil, r.Raw()))
		return nil
	}
	raw, err := r.JSON()
	if err != nil {
		return err
	}
	if q.form.yaml {
		if raw, err = yaml.JSONToYAML(raw); err != nil {
			return err
		}
		q.bytes(code, typeYAML, raw)
		return nil
	}
	q.bytes(code, typeJSON, append(slices.Clip(raw), '\n')) // it may be what is kept, which others read at the same time
	return nil
}

// encoded answers with a body in the form that is asked for, JSON or protobuf.
func (q *request) encoded(code int, raw []byte) {
	if q.form.proto {
		q.bytes(code, typeProto, raw)
		return
	}
	q.bytes(code, typeJSON, append(raw, '\n'))
}

// partial returns an object's metadata as an object of its own.
func partial(k *kind.Kind, raw []byte, proto bool) ([]byte, error) {
	o := metav1.PartialObjectMetadata{ObjectMeta: k.Metadata(raw)}
	if proto {
		inner, err := o.Marshal()
		return object.AppendEnvelope(nil, metaVersion, "PartialObjectMetadata", inner), err
	}
	o.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metaVersion}
	return json.Marshal(&o)
}

// metadataOf answers with the metadata of a page's objects.
func (q *request) metadataOf(p page) error {
	const list = "PartialObjectMetadataList"
	if q.form.proto {
		raw, err := packList(p, func(raw []byte) ([]byte, error) {
			o := metav1.PartialObjectMetadata{ObjectMeta: q.Kind.Metadata(raw)}
			return o.Marshal()
		})
		if err != nil {
			return err
		}
		q.bytes(http.StatusOK, typeProto, object.AppendEnvelope(nil, metaVersion, list, raw))
		return nil
	}
	return q.inJSON(p, metaVersion, list, func(raw []byte) ([]byte, error) { return partial(q.Kind, raw, false) })
}
