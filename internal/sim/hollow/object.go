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
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// The group and version of what shows objects in part.
const metaVersion = "meta.k8s.io/v1"

// object answers with an object in the form that is asked for.
func (q *request) object(code int, r result) error {
	switch f := q.form; {
	case f.as == "Table":
		return q.tableOf(page{Listed: r.listed()})
	case strings.HasPrefix(f.as, "PartialObjectMetadata"):
		raw, err := partial(r.kind, r.raw(), f.proto)
		if err != nil {
			return err
		}
		q.encoded(code, raw)
		return nil
	case f.proto:
		q.bytes(code, typeProto, r.kind.AppendProto(nil, r.raw()))
		return nil
	}
	raw, err := r.json()
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

// raw returns the object as it is, or would be, kept.
func (r result) raw() []byte {
	if r.stored != nil {
		return r.stored.Raw
	}
	raw, _ := r.kind.Encode(r.typed) // it was decoded from the same form
	return raw
}

// json returns the object in JSON.
func (r result) json() ([]byte, error) {
	if r.typed == nil || !r.kind.Packs() {
		return r.kind.JSON(r.raw())
	}
	return json.Marshal(r.typed)
}

// listed returns the object as a list of one.
func (r result) listed() store.Listed {
	o := r.stored
	if o == nil {
		m := r.meta()
		o = &store.Object{Key: kind.Key(m.Namespace, m.Name), Raw: r.raw()}
	}
	return store.Listed{Objects: []*store.Object{o}, Version: o.Version}
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
			o := metav1.PartialObjectMetadata{ObjectMeta: q.kind.Metadata(raw)}
			return o.Marshal()
		})
		if err != nil {
			return err
		}
		q.bytes(http.StatusOK, typeProto, object.AppendEnvelope(nil, metaVersion, list, raw))
		return nil
	}
	return q.inJSON(p, metaVersion, list, func(raw []byte) ([]byte, error) { return partial(q.kind, raw, false) })
}
