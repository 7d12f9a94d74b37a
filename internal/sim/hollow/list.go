package hollow

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

// selection reads the selectors of a request.
func (q *request) selection() (s selection, err error) {
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

// known refuses a selection by fields that the kind does not select by.
func (s selection) known() error {
	for _, r := range s.fields.Requirements() {
		if !s.kind.Selects(r.Field) {
			return apierrors.NewBadRequest(s.kind.Unselected(r.Field).Error())
		}
	}
	return nil
}

// selected reads the selectors and the options of a request.
func (q *request) selected() (s selection, o metav1.ListOptions, err error) {
	if s, err = q.selection(); err != nil {
		return s, o, err
	}
	if o, err = q.options(); err != nil {
		return s, o, err
	}
	return s, o, s.known()
}

// all says whether the selectors leave nothing out.
func (s selection) all() bool { return s.labels.Empty() && s.fields.Empty() }

// attributes are what selectors look at.
type attributes struct {
	labels labels.Set
	fields fields.Set
}

func (s selection) attributes(o *store.Object) (a attributes) {
	if !s.labels.Empty() {
		a.labels = s.kind.Labels(o.Raw)
	}
	if !s.fields.Empty() {
		a.fields = s.kind.Fields(o.Key, o.Raw)
	}
	return a
}

func (s selection) matches(a attributes) bool {
	return s.labels.Matches(a.labels) && s.fields.Matches(a.fields)
}

// holds says whether an object is meant.
func (s selection) holds(o *store.Object) bool {
	return strings.HasPrefix(o.Key, s.prefix) && (s.all() || s.matches(s.attributes(o)))
}

// page is a page of a list.
type page struct {
	store.Listed
	next      string // continue
	remaining *int64
}

// options reads the options of a list or watch.
func (q *request) options() (o metav1.ListOptions, err error) {
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&q.query, &o, nil); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	internal := metainternal.ListOptions{
		Watch: q.watching(), AllowWatchBookmarks: o.AllowWatchBookmarks, ResourceVersion: o.ResourceVersion,
		ResourceVersionMatch: o.ResourceVersionMatch, Limit: o.Limit, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
	}
	if errs := validation.ValidateListOptions(&internal, true); len(errs) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return o, nil
}

// list answers with the objects that are asked for.
func (q *request) list() error {
	p, err := q.find()
	if err != nil {
		return err
	}
	return q.objects(p)
}

// token is what continue says: where the next page begins, of which version.
type token struct {
	Version uint64 `json:"rv"`
	After   string `json:"start"`
}

// find looks for the objects that a list asks for.
func (q *request) find() (page, error) {
	s, o, err := q.selected()
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
	if err := q.reach(max(at, query.At)); err != nil {
		return page{}, err
	}
	if s.all() {
		query.Limit = int(o.Limit)
	}
	found, err := q.cluster.registry.Table(q.Kind).List(query)
	if err != nil {
		return page{}, q.past(err, o.Continue != "")
	}
	return s.page(q.Context(), found, int(o.Limit))
}

// page takes of what was found what is selected, until there is enough.
func (s selection) page(ctx context.Context, found store.Listed, limit int) (page, error) {
	p := page{Listed: found}
	if s.all() {
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
		if !s.holds(o) {
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

// reach waits until a version has been reached.
func (q *request) reach(version uint64) error {
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
		case <-q.cluster.server.done:
			return http.ErrServerClosed
		}
	}
	return nil
}

// past is the error for a version that cannot be looked at.
func (q *request) past(err error, continued bool) error {
	switch {
	case errors.Is(err, store.ErrCompacted) && continued:
		return apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.")
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return err
}

// objects answers with a page of objects.
func (q *request) objects(p page) error {
	switch f := q.form; {
	case f.as == "Table":
		return q.tableOf(p)
	case strings.HasPrefix(f.as, "PartialObjectMetadata"):
		return q.metadataOf(p)
	case f.proto:
		return q.packed(p)
	}
	return q.inJSON(p, q.Kind.APIVersion(), q.Kind.List, q.Kind.Item)
}

// listMeta returns the metadata of a page.
func (p page) listMeta() metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: registry.FormatVersion(p.Version), Continue: p.next, RemainingItemCount: p.remaining}
}

// size returns about how long a page is.
func (p page) size() (n int) {
	for _, o := range p.Objects {
		n += len(o.Raw)
	}
	return n
}

// inJSON answers with a list in JSON, one object after another.
func (q *request) inJSON(p page, apiVersion, name string, item func([]byte) ([]byte, error)) error {
	meta, err := json.Marshal(p.listMeta())
	if err != nil {
		return err
	}
	if p.next == "" && q.Kind.Custom != nil && name == q.Kind.List { // as an API server has it there
		meta = append([]byte(`{"continue":"",`), meta[1:]...)
	}
	out := q.begin(http.StatusOK, typeJSON, p.size())
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

// packed answers with a list in protobuf: the objects as they are kept.
func (q *request) packed(p page) error {
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
	body := q.begin(http.StatusOK, typeProto, size)
	defer body.Close()
	out := bufio.NewWriterSize(body, min(size+len(scratch), flushAt)) // the whole may be all that a cluster has
	_, _ = out.Write(object.AppendEnvelopeHead(nil, q.Kind.APIVersion(), q.Kind.List, size))
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
	raw := make([]byte, 0, p.size()+8*len(p.Objects)+64)
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
