package serve

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/openapi"
)

// The media type of OpenAPI's version 2 in protobuf.
const (
	typeOpenAPI = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf" // as clients ask for it
	sentOpenAPI = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" // a media type has no @
)

// document is a document of OpenAPI, compressed.
type document struct {
	zipped []byte
	hash   string
}

// documentKey names a document: of a set of resources, that clusters share which
// have the same.
type documentKey struct {
	kinds          *kind.Set
	group, version string
	form           string
}

// answerOpenAPI answers with OpenAPI documents.
func (c *Cluster) answerOpenAPI(q *request, path string) bool {
	rest, ok := strings.CutPrefix(path, "/openapi/")
	if !ok || q.Method != http.MethodGet {
		return false
	}
	kinds := c.registry.Kinds()
	var d document
	var err error
	contentType := typeJSON
	parts := strings.Split(rest, "/")
	switch {
	case rest == "v2" && strings.Contains(q.Header.Get("Accept"), typeOpenAPI):
		contentType = sentOpenAPI
		d, err = c.shared.findDocument(documentKey{kinds: kinds, form: "v2pb"})
	case rest == "v2":
		d, err = c.shared.findDocument(documentKey{kinds: kinds, form: "v2"})
	case rest == "v3":
		raw, err := openapi.Index(kinds, func(group, version string) string {
			return hashOf(kinds, group, version)
		})
		if err != nil {
			q.writeError(err)
			return true
		}
		q.writeBytes(http.StatusOK, typeJSON, raw)
		return true
	case len(parts) == 3 && parts[1] == "api" && kinds.HasGroup("", parts[2]):
		d, err = c.shared.findDocument(documentKey{sharedKinds(kinds, "", parts[2]), "", parts[2], "v3"})
	case len(parts) == 4 && parts[1] == "apis" && kinds.HasGroup(parts[2], parts[3]):
		d, err = c.shared.findDocument(documentKey{sharedKinds(kinds, parts[2], parts[3]), parts[2], parts[3], "v3"})
	default:
		return false
	}
	if err != nil {
		q.writeError(err)
		return true
	}
	q.writeDocument(contentType, d)
	return true
}

// sharedKinds returns the built-in resources in place of a cluster's where the group
// and version has no custom ones, so that one document serves all clusters.
func sharedKinds(kinds *kind.Set, group, version string) *kind.Set {
	for _, k := range kinds.All() {
		if k.Group == group && k.Version == version && k.Custom != nil {
			return kinds
		}
	}
	return kind.Builtin()
}

// hashOf returns a text that changes with a group's document.
func hashOf(kinds *kind.Set, group, version string) string {
	if shared := sharedKinds(kinds, group, version); shared != kinds {
		return "builtin"
	}
	h := sha256.New()
	for _, k := range kinds.All() {
		if k.Group == group && k.Version == version {
			fmt.Fprintf(h, "%s %p\n", k.Plural, k.Custom)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// findDocument returns a document. One of built-in resources is made once.
func (s *Shared) findDocument(key documentKey) (document, error) {
	if known, ok := s.documents.Load(key); ok {
		return known.(document), nil
	}
	raw, err := key.makeDocument()
	if err != nil {
		return document{}, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(raw) // into memory
	_ = z.Close()
	sum := sha256.Sum256(raw)
	d := document{b.Bytes(), hex.EncodeToString(sum[:])}
	if key.kinds != kind.Builtin() { // one of each cluster's would be too many
		return d, nil
	}
	known, _ := s.documents.LoadOrStore(key, d)
	return known.(document), nil
}

func (k documentKey) makeDocument() ([]byte, error) {
	if k.form == "v3" {
		return openapi.V3(k.kinds, k.group, k.version)
	}
	raw, err := openapi.V2(k.kinds)
	if err != nil || k.form == "v2" {
		return raw, err
	}
	d, err := openapi_v2.ParseDocument(raw)
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI: %w", err)
	}
	return proto.Marshal(d)
}

// writeDocument answers with a document, as it is kept where the client takes that.
func (a *answer) writeDocument(contentType string, d document) {
	h := a.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Etag", `"`+strings.ToUpper(d.hash)+`"`)
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(a.r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		a.w.WriteHeader(http.StatusOK)
		_, _ = a.w.Write(d.zipped)
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(d.zipped))
	if err != nil {
		a.writeError(err)
		return
	}
	a.w.WriteHeader(http.StatusOK)
	var raw bytes.Buffer
	_, _ = raw.ReadFrom(z) // it was made here
	_, _ = a.w.Write(raw.Bytes())
}
