package serve

import (
	"fmt"
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// readObject reads the object in a request's body.
func (q *request) readObject(k *kind.Kind) (runtime.Object, error) {
	media, err := q.bodyType(k.Packs())
	if err != nil {
		return nil, err
	}
	raw, err := q.readBody()
	if err != nil {
		return nil, err
	}
	switch media {
	case typeProto:
		o, values, err := codec.DecodeMessage(k, raw)
		q.values = values
		return o, err
	case typeYAML:
		if raw, err = codec.ConvertYAML(raw); err != nil {
			return nil, codec.BadRequest(err)
		}
	}
	q.values = codec.CountValues(raw)
	if err := codec.BoundObject(k, raw); err != nil {
		return nil, err
	}
	return q.decodeObject(k, raw)
}

// bodyType returns the media type of the request's body.
func (q *request) bodyType(packs bool) (string, error) {
	accepted := []string{typeJSON, typeYAML}
	if packs {
		accepted = append(accepted, typeProto)
	}
	given := q.Header.Get("Content-Type")
	if given == "" {
		return typeJSON, nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err == nil {
		for _, a := range accepted {
			if media == a {
				return a, nil
			}
		}
	}
	return "", unsupportedMediaType(accepted...)
}

// decodeObject reads an object in JSON, and heeds what is asked for fields that its kind
// does not have.
func (q *request) decodeObject(k *kind.Kind, raw []byte) (runtime.Object, error) {
	o, unknown, err := codec.Decode(k, raw)
	if err != nil || len(unknown) > 0 || codec.HasCapitals(o) { // else there is nothing that it could find: it would read all again
		if err := codec.CheckHead(raw); err != nil {
			return nil, codec.Unrecognized(k, raw, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return o, q.reportUnknown(k, unknown)
}

// reportUnknown refuses fields that a kind does not have, or warns of them.
func (q *request) reportUnknown(k *kind.Kind, unknown []string) error {
	if len(unknown) == 0 {
		return nil
	}
	switch q.query.Get("fieldValidation") {
	case metav1.FieldValidationIgnore:
	case metav1.FieldValidationStrict:
		return codec.CannotHandle(k, fmt.Errorf("strict decoding error: %s", strings.Join(unknown, ", ")))
	default:
		for _, u := range unknown {
			q.w.Header().Add("Warning", "299 - "+quoteText(u))
		}
	}
	return nil
}

// quoteText writes a text as a quoted string of a header.
func quoteText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
