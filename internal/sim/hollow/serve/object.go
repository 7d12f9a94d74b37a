package serve

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

// writeObject answers with an object in the form that is asked for.
func (a *answer) writeObject(code int, r registry.Result) error {
	switch f := a.form; {
	case f.as == "Table":
		return a.writeTable(page{Listed: r.List()})
	case strings.HasPrefix(f.as, "PartialObjectMetadata"):
		raw, err := encodePartial(r.Kind, r.Raw(), f.proto)
		if err != nil {
			return err
		}
		a.writeEncoded(code, raw)
		return nil
	case f.proto:
		a.writeBytes(code, typeProto, r.Kind.AppendProto(nil, r.Raw()))
		return nil
	}
	raw, err := r.JSON()
	if err != nil {
		return err
	}
	if a.form.yaml {
		if raw, err = yaml.JSONToYAML(raw); err != nil {
			return err
		}
		a.writeBytes(code, typeYAML, raw)
		return nil
	}
	a.writeBytes(code, typeJSON, append(slices.Clip(raw), '\n')) // it may be what is kept, which others read at the same time
	return nil
}

// writeEncoded answers with a body in the form that is asked for, JSON or protobuf.
func (a *answer) writeEncoded(code int, raw []byte) {
	if a.form.proto {
		a.writeBytes(code, typeProto, raw)
		return
	}
	a.writeBytes(code, typeJSON, append(raw, '\n'))
}

// encodePartial returns an object's metadata as an object of its own.
func encodePartial(k *kind.Kind, raw []byte, proto bool) ([]byte, error) {
	o := metav1.PartialObjectMetadata{ObjectMeta: k.Metadata(raw)}
	if proto {
		inner, err := o.Marshal()
		return object.AppendEnvelope(nil, metaVersion, "PartialObjectMetadata", inner), err
	}
	o.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metaVersion}
	return json.Marshal(&o)
}

// writeMetadataList answers with the metadata of a page's objects.
func (a *answer) writeMetadataList(p page) error {
	const list = "PartialObjectMetadataList"
	if a.form.proto {
		raw, err := packList(p, func(raw []byte) ([]byte, error) {
			o := metav1.PartialObjectMetadata{ObjectMeta: a.kind.Metadata(raw)}
			return o.Marshal()
		})
		if err != nil {
			return err
		}
		a.writeBytes(http.StatusOK, typeProto, object.AppendEnvelope(nil, metaVersion, list, raw))
		return nil
	}
	return a.writeJSONList(p, metaVersion, list, func(raw []byte) ([]byte, error) { return encodePartial(a.kind, raw, false) })
}
