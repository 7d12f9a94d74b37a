package serve

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// selection is which objects of a resource are meant.
type selection struct {
	kind   *kind.Kind
	prefix string // of keys
	labels labels.Selector
	fields fields.Selector
}

// parseSelectors reads the selectors of a request.
func (q *request) parseSelectors() (s selection, err error) {
	s.kind = q.Kind
	if q.Namespace != "" {
		s.prefix = q.Namespace + "/"
	}
	if s.labels, err = labels.Parse(q.query.Get("labelSelector")); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	if s.fields, err = fields.ParseSelector(q.query.Get("fieldSelector")); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	if q.Name != "" { // a watch of one object
		s.fields = fields.AndSelectors(s.fields, fields.OneTermEqualSelector("metadata.name", q.Name))
	}
	return s, nil
}

// checkFields refuses a selection by fields that the kind does not select by.
func (s selection) checkFields() error {
	for _, r := range s.fields.Requirements() {
		if !s.kind.Selects(r.Field) {
			return apierrors.NewBadRequest(s.kind.Unselected(r.Field).Error())
		}
	}
	return nil
}

// parseListRequest reads the selectors and the options of a request.
func (q *request) parseListRequest() (s selection, o metav1.ListOptions, err error) {
	if s, err = q.parseSelectors(); err != nil {
		return s, o, err
	}
	if o, err = q.parseListOptions(); err != nil {
		return s, o, err
	}
	return s, o, s.checkFields()
}

// selectsAll says whether the selectors leave nothing out.
func (s selection) selectsAll() bool { return s.labels.Empty() && s.fields.Empty() }

// attributes are what selectors look at.
type attributes struct {
	labels labels.Set
	fields fields.Set
}

func (s selection) attributesOf(o *store.Object) (a attributes) {
	if !s.labels.Empty() {
		a.labels = s.kind.Labels(o.Raw)
	}
	if !s.fields.Empty() {
		a.fields = s.kind.Fields(o.Key, o.Raw)
	}
	return a
}

func (s selection) matchesAttributes(a attributes) bool {
	return s.labels.Matches(a.labels) && s.fields.Matches(a.fields)
}

// selectsObject says whether an object is meant.
func (s selection) selectsObject(o *store.Object) bool {
	return strings.HasPrefix(o.Key, s.prefix) && (s.selectsAll() || s.matchesAttributes(s.attributesOf(o)))
}

// page is a page of a list.
type page struct {
	store.Listed
	next      string // continue
	remaining *int64
}

// parseListOptions reads the options of a list or watch.
func (q *request) parseListOptions() (o metav1.ListOptions, err error) {
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&q.query, &o, nil); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	internal := metainternal.ListOptions{
		Watch: q.isWatch(), AllowWatchBookmarks: o.AllowWatchBookmarks, ResourceVersion: o.ResourceVersion,
		ResourceVersionMatch: o.ResourceVersionMatch, Limit: o.Limit, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
	}
	if errs := validation.ValidateListOptions(&internal, true); len(errs) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return o, nil
}

// listObjects answers with the objects that are asked for.
func (q *request) listObjects() error {
	p, err := q.findObjects()
	if err != nil {
		return err
	}
	return q.writeList(p)
}

// token is what continue says: where the next page begins, of which version.
type token struct {
	Version uint64 `json:"rv"`
	After   string `json:"start"`
}

// findObjects looks for the objects that a list asks for.
func (q *request) findObjects() (page, error) {
	s, o, err := q.parseListRequest()
	if err != nil {
		return page{}, err
	}
	query := store.Query{Prefix: s.prefix}
	at, err := parseVersion(o.ResourceVersion)
	if err != nil {
		return page{}, err
	}
	switch {
	case o.Continue != "":
		if query.At, query.After, err = readToken(o.Continue); err != nil {
			return page{}, err
		}
	case o.ResourceVersionMatch == metav1.ResourceVersionMatchExact, at > 0 && o.Limit > 0 && o.ResourceVersionMatch == "":
		query.At = at
	}
	if err := q.waitForVersion(max(at, query.At)); err != nil {
		return page{}, err
	}
	if s.selectsAll() {
		query.Limit = int(o.Limit)
	}
	found, err := q.cluster.registry.Table(q.Kind).List(query)
	if err != nil {
		return page{}, compactedError(err, o.Continue != "")
	}
	return s.selectPage(q.Context(), found, int(o.Limit))
}

// selectPage takes of what was found what is selected, until there is enough.
func (s selection) selectPage(ctx context.Context, found store.Listed, limit int) (page, error) {
	p := page{Listed: found}
	if s.selectsAll() {
		if found.More > 0 {
			p.remaining = new(int64(found.More))
			p.next = writeToken(found)
		}
		return p, nil
	}
	p.Objects = nil
	for i, o := range found.Objects {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return page{}, backend.TimeoutError()
		}
		if !s.selectsObject(o) {
			continue
		}
		p.Objects = append(p.Objects, o)
		if len(p.Objects) == limit && i < len(found.Objects)-1 {
			p.next = writeToken(p.Listed)
			break
		}
	}
	return p, nil
}

func writeToken(l store.Listed) string {
	raw, _ := json.Marshal(token{l.Version, l.Objects[len(l.Objects)-1].Key}) // two plain fields
	return base64.RawURLEncoding.EncodeToString(raw)
}

func readToken(text string) (version uint64, after string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var t token
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil || t.Version == 0 {
		return 0, "", apierrors.NewBadRequest("continue key is not valid: it is not one that this server gave")
	}
	return t.Version, t.After, nil
}

// parseVersion reads a resourceVersion of a query; 0 without one.
func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: resourceVersion: Invalid value: %q: %v", text, err))
	}
	return v, nil
}

// futureWait is how long a request waits for a version that has not been reached.
const futureWait = 3 * time.Second

// waitForVersion waits until a version has been reached.
func (q *request) waitForVersion(version uint64) error {
	if version <= q.cluster.registry.Store().Version() {
		return nil
	}
	deadline := time.NewTimer(futureWait)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for version > q.cluster.registry.Store().Version() {
		select {
		case <-tick.C:
		case <-deadline.C:
			err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, q.cluster.registry.Store().Version()), 1)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
			return err
		case <-q.Context().Done():
			return backend.TimeoutError()
		case <-q.cluster.backend.Done():
			return http.ErrServerClosed
		}
	}
	return nil
}

// compactedError is the error for a version that cannot be looked at.
func compactedError(err error, continued bool) error {
	switch {
	case errors.Is(err, store.ErrCompacted) && continued:
		return apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.")
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return err
}

// writeList answers with a page of objects.
func (a *answer) writeList(p page) error {
	switch f := a.form; {
	case f.as == "Table":
		return a.writeTable(p)
	case strings.HasPrefix(f.as, "PartialObjectMetadata"):
		return a.writeMetadataList(p)
	case f.proto:
		return a.writeProtoList(p)
	}
	return a.writeJSONList(p, a.kind.APIVersion(), a.kind.List, a.kind.Item)
}

// listMeta returns the metadata of a page.
func (p page) listMeta() metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: registry.FormatVersion(p.Version), Continue: p.next, RemainingItemCount: p.remaining}
}

// totalBytes returns about how long a page is.
func (p page) totalBytes() (n int) {
	for _, o := range p.Objects {
		n += len(o.Raw)
	}
	return n
}

// writeJSONList answers with a list in JSON, one object after another.
func (a *answer) writeJSONList(p page, apiVersion, name string, item func([]byte) ([]byte, error)) error {
	meta, err := json.Marshal(p.listMeta())
	if err != nil {
		return err
	}
	if p.next == "" && a.kind.Custom != nil && name == a.kind.List { // as an API server has it there
		meta = append([]byte(`{"continue":"",`), meta[1:]...)
	}
	out := a.beginBody(http.StatusOK, typeJSON, p.totalBytes())
	defer out.Close()
	_, err = fmt.Fprintf(out, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":`, name, apiVersion, meta)
	if len(p.Objects) == 0 && apiVersion == metaVersion { // as an API server has it there
		_, _ = io.WriteString(out, "null}\n")
		return nil
	}
	_, _ = io.WriteString(out, "[")
	for i, o := range p.Objects {
		raw, encode := item(o.Raw)
		if encode != nil || err != nil {
			return nil // half of the answer has gone, or who asked has
		}
		if i > 0 {
			_, _ = io.WriteString(out, ",")
		}
		_, err = out.Write(raw)
	}
	_, _ = io.WriteString(out, "]}\n")
	return nil
}

// writeProtoList answers with a list in protobuf: the objects as they are kept.
func (a *answer) writeProtoList(p page) error {
	m := p.listMeta()
	meta, err := m.Marshal()
	if err != nil {
		return err
	}
	var scratch [64]byte
	first := object.AppendBytes(nil, 1, meta)
	size := len(first)
	for _, o := range p.Objects {
		size += len(object.AppendHead(scratch[:0], 2, len(o.Raw))) + len(o.Raw)
	}
	body := a.beginBody(http.StatusOK, typeProto, size)
	defer body.Close()
	out := bufio.NewWriterSize(body, min(size+len(scratch), flushAt)) // the whole may be all that a cluster has
	_, _ = out.Write(object.AppendEnvelopeHead(nil, a.kind.APIVersion(), a.kind.List, size))
	_, err = out.Write(first)
	for _, o := range p.Objects {
		if err != nil {
			return nil // who asked has gone
		}
		_, _ = out.Write(object.AppendHead(scratch[:0], 2, len(o.Raw)))
		_, err = out.Write(o.Raw)
	}
	_ = out.Flush() // likewise
	return nil
}

// packList returns the message of a list: its metadata and its items.
func packList(p page, item func([]byte) ([]byte, error)) ([]byte, error) {
	m := p.listMeta()
	meta, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 0, p.totalBytes()+8*len(p.Objects)+64)
	raw = object.AppendBytes(raw, 1, meta)
	for _, o := range p.Objects {
		one, err := item(o.Raw)
		if err != nil {
			return nil, err
		}
		raw = object.AppendBytes(raw, 2, one)
	}
	return raw, nil
}
