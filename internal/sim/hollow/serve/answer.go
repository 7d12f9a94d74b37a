package serve

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// The media types of bodies.
const (
	typeJSON  = "application/json"
	typeYAML  = "application/yaml"
	typeProto = object.ContentType
)

// gzipFrom is the length of an answer from which it is compressed.
const gzipFrom = 128 << 10

// answer is how a request is answered.
type answer struct {
	w     http.ResponseWriter
	r     *http.Request
	query url.Values // of the request
	kind  *kind.Kind // of the objects; nil until the path has been parsed
	form  form
	known bool // form has been told from the request

	cluster *Cluster   // that answers
	began   clock.Time // to look at the request, if the cluster is slow
}

// acceptedForm returns the form that the request asks for. Errors are answered in it
// too, in JSON where none will do.
func (a *answer) acceptedForm() form {
	if !a.known {
		a.form, _ = parseAccept(a.r.Header.Get("Accept"), true)
		a.known = true
	}
	return a.form
}

// writeError answers with what went wrong.
func (a *answer) writeError(err error) {
	var known apierrors.APIStatus
	s := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if errors.As(err, &known) {
		s = known.Status()
	}
	if d := s.Details; d != nil && d.RetryAfterSeconds > 0 {
		a.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	a.writeStatus(&s)
}

// writeStatus answers with a Status.
func (a *answer) writeStatus(s *metav1.Status) {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	code := int(s.Code)
	if s.Status == metav1.StatusSuccess {
		code = http.StatusOK
	}
	if a.acceptedForm().proto {
		raw, _ := s.Marshal() // into memory
		a.writeBytes(code, typeProto, object.AppendEnvelope(nil, "v1", "Status", raw))
		return
	}
	a.writeJSON(code, s)
}

// writeJSON answers with a value in JSON.
func (a *answer) writeJSON(code int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		http.Error(a.w, err.Error(), http.StatusInternalServerError)
		return
	}
	a.writeBytes(code, typeJSON, append(raw, '\n'))
}

// writeBytes answers with a body.
func (a *answer) writeBytes(code int, contentType string, body []byte) {
	out := a.beginBody(code, contentType, len(body))
	_, _ = out.Write(body) // who asked may have gone
	out.Close()
}

// beginBody answers with a body of about n bytes that the caller writes and closes.
func (a *answer) beginBody(code int, contentType string, n int) io.WriteCloser {
	a.waitWhileSlow()
	h := a.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	if n < gzipFrom || !strings.Contains(a.r.Header.Get("Accept-Encoding"), "gzip") {
		a.w.WriteHeader(code)
		return plain{a.w}
	}
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	a.w.WriteHeader(code)
	z, _ := gzip.NewWriterLevel(a.w, gzip.BestSpeed) // the level is known
	return z
}

// waitWhileSlow waits until an answer of a slow cluster has taken as long as it is to.
func (a *answer) waitWhileSlow() {
	c := a.cluster
	if !c.faults.IsSlow() {
		return
	}
	select {
	case <-time.After(min(c.faults.Delay(c.clock.Now().Sub(a.began)), backend.RequestTimeout)):
	case <-a.r.Context().Done():
	case <-c.backend.Done():
	}
}

// plain is a body that is not compressed.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// form is a form of an answer.
type form struct {
	proto, yaml bool
	as          string // Table, PartialObjectMetadata, PartialObjectMetadataList or, of discovery, another
}

// parseAccept returns the first form of an Accept header that can be given: packs says
// whether protobuf can.
func parseAccept(header string, packs bool) (form, bool) {
	if header == "" {
		return form{}, true
	}
	for one := range strings.SplitSeq(header, ",") {
		media, params, _ := strings.Cut(strings.TrimSpace(one), ";")
		f := form{as: parseTransform(params)}
		switch strings.TrimSpace(media) {
		case typeProto:
			if f.as == "Table" || !packs && f.as == "" {
				continue
			}
			f.proto = true
		case typeJSON, "*/*", "application/*":
		case typeYAML:
			f.yaml = true
		default:
			continue
		}
		return f, true
	}
	return form{}, false
}

// parseTransform returns what an Accept header's parameters want an object to be shown
// as.
func parseTransform(params string) string {
	for p := range strings.SplitSeq(params, ";") {
		if as, ok := strings.CutPrefix(strings.TrimSpace(p), "as="); ok {
			return as
		}
	}
	return ""
}

// notAcceptable is the error for an Accept header that nothing can be given for: of
// what is asked about, or at all.
func notAcceptable(header string) error {
	s := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join([]string{typeJSON, typeYAML, typeProto}, ", "),
	}
	if _, ok := parseAccept(header, true); !ok {
		s.Details = &metav1.StatusDetails{}
		s.Message = "406: Not Acceptable\n\nAvailable representations: " + strings.Join([]string{typeJSON, typeYAML, typeProto, typeJSON + ";stream=watch", typeProto + ";stream=watch"}, ", ")
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// unsupportedMediaType is the error for a body of a media type that is not read.
func unsupportedMediaType(accepted ...string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(accepted, ", "),
	}}
}
