package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// The times of watches, as an API server has them.
const (
	bookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second // the end of a watch
	watchAtLeast   = 30 * time.Minute
)

// pieceTime is how long a client may take for a piece of a watch, of flushAt bytes or
// one event, at most, and at least half of it. A watch whose client takes longer ends.
const pieceTime = time.Minute

const (
	flushAt = 32 << 10 // bytes that a watch gathers before it sends them
	large   = 16 << 10 // bytes of an event from which it is not copied into them
)

// watcher is a watch under way. It stands at a version: everything up to it has
// been sent.
type watcher struct {
	*request
	selection
	table     *store.Table
	at        uint64
	bookmarks bool
	initial   bool // a bookmark says when all that there was at first has been sent
	out       bytes.Buffer
	until     clock.Time // a piece may be sent
	broken    error      // the client is gone
}

// watchObjects sends events until the client leaves or its time is up.
func (q *request) watchObjects() error {
	s, o, err := q.parseListRequest()
	if err != nil {
		return err
	}
	from, err := parseVersion(o.ResourceVersion)
	if err != nil { // an API server says it of a watch like that
		return errors.New(strings.TrimPrefix(err.Error(), "invalid resource version: "))
	}
	w := &watcher{request: q, selection: s, table: q.cluster.registry.Table(q.Kind), at: from, bookmarks: o.AllowWatchBookmarks}
	w.initial = o.SendInitialEvents != nil && *o.SendInitialEvents
	state := from == 0 && o.SendInitialEvents == nil || w.initial
	if w.initial {
		if err := q.waitForVersion(from); err != nil {
			return err
		}
	}
	q.w.Header().Set("Content-Type", w.contentType())
	q.w.Header().Set("Cache-Control", "no-cache, private")
	q.w.WriteHeader(http.StatusOK)
	if state {
		if err := w.sendState(); err != nil {
			return nil // the client is gone
		}
	}
	if from == 0 && o.SendInitialEvents != nil && !w.initial {
		w.at = q.cluster.registry.Store().Version()
	}
	length := watchAtLeast + time.Duration(rand.Int64N(int64(watchAtLeast)))
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		length = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	q.cluster.watches.Add(1)
	defer q.cluster.watches.Add(-1)
	w.followEvents(length)
	return nil
}

func (w *watcher) contentType() string {
	if w.form.proto {
		return typeProto + ";stream=watch"
	}
	return typeJSON
}

// sendState sends what there is.
func (w *watcher) sendState() error {
	found, err := w.table.List(store.Query{Prefix: w.prefix})
	if err != nil {
		return err
	}
	for _, o := range found.Objects {
		if w.selectsObject(o) {
			w.bufferObject(metav1Added, w.encodeObject(o))
		}
		if err := w.sendIfLarge(); err != nil {
			return err
		}
	}
	w.at = found.Version
	if w.initial && w.bookmarks {
		w.bufferBookmark(true)
	}
	return w.flush()
}

// The types of events.
const (
	metav1Added    = "ADDED"
	metav1Modified = "MODIFIED"
	metav1Deleted  = "DELETED"
)

// followEvents sends events as they come. Each event passes its select, whose price is that
// of its cases.
func (w *watcher) followEvents(length time.Duration) {
	c := w.cluster.clock
	end := c.Now().Add(length)
	next := time.NewTimer(min(length, w.untilBookmark(length)))
	defer next.Stop()
	halt := w.cluster.faults.Halted()
	for {
		news, err := w.table.Since(w.at)
		if errors.Is(err, store.ErrCompacted) {
			w.sendExpired()
			return
		}
		for _, e := range news.Events {
			w.bufferEvent(e)
			if w.sendIfLarge() != nil {
				return
			}
		}
		w.at = max(w.at, news.Version)
		if news.Changed == nil && w.Context().Err() == nil && !w.cluster.faults.IsDown() {
			continue
		}
		if err := w.flush(); err != nil {
			return
		}
		select {
		case <-news.Changed:
		case <-next.C:
			left := c.Until(end)
			if left <= 0 {
				return
			}
			if w.bookmarks {
				w.bufferBookmark(false)
			}
			next.Reset(min(bookmarkEvery, left))
		case <-w.Context().Done(): // when the server is closed, too
			return
		case <-halt:
			panic(http.ErrAbortHandler) // as a connection ends whose server is killed
		}
	}
}

// untilBookmark returns when the first bookmark is due: watches of one moment do
// not all get theirs at once, and each gets one before its end.
func (w *watcher) untilBookmark(length time.Duration) time.Duration {
	d := bookmarkEvery + time.Duration(rand.Int64N(int64(bookmarkEvery/4)))
	if length > bookmarkBefore {
		d = min(d, length-bookmarkBefore)
	}
	return d
}

// sendIfLarge hands what has been gathered to the client when it is much.
func (w *watcher) sendIfLarge() error {
	if w.out.Len() > flushAt {
		w.sendBuffer()
	}
	return w.broken
}

// sendBuffer gives what has been gathered to the connection, within pieceTime.
func (w *watcher) sendBuffer() {
	if w.broken != nil {
		return
	}
	if c := w.cluster.clock; w.until.Sub(c.Now()) < pieceTime/2 {
		w.until = c.Now().Add(pieceTime)
		_ = http.NewResponseController(w.w).SetWriteDeadline(c.Wall(w.until)) // all but tests' have one
	}
	if w.out.Len() > 0 {
		_, w.broken = w.w.Write(w.out.Bytes())
		if w.out.Reset(); w.out.Cap() > 2*flushAt {
			w.out = bytes.Buffer{}
		}
	}
}

// flush hands what has been gathered to the client.
func (w *watcher) flush() error {
	w.sendBuffer()
	if w.broken != nil {
		return w.broken
	}
	return http.NewResponseController(w.w).Flush()
}

// bufferEncoded adds an encoded object to what is to be sent. One that is large is not copied:
// of all watches that wait for their clients only one has it.
func (w *watcher) bufferEncoded(encoded []byte) {
	if len(encoded) < large {
		w.out.Write(encoded)
		return
	}
	if w.sendBuffer(); w.broken == nil {
		_, w.broken = w.w.Write(encoded)
	}
}

// bufferEvent sends what an event is to this watch: what leaves the selection is deleted
// to it, what enters it is added.
func (w *watcher) bufferEvent(e *store.Event) {
	if !strings.HasPrefix(e.Object.Key, w.prefix) {
		return
	}
	is, was := !e.Deleted, e.Before != nil
	if !w.selectsAll() {
		is = is && w.matchesAttributes(w.eventAttributes(e, false))
		was = was && w.matchesAttributes(w.eventAttributes(e, true))
	}
	switch {
	case is && was:
		w.bufferObject(metav1Modified, w.encodeOnce(e, false))
	case is:
		w.bufferObject(metav1Added, w.encodeOnce(e, false))
	case was && e.Deleted:
		w.bufferObject(metav1Deleted, w.encodeOnce(e, false))
	case was:
		w.bufferObject(metav1Deleted, w.encodeOnce(e, true))
	}
}

// seenKey names the attributes of an event's object, encodedKey its encodings.
type (
	seenKey    struct{ before bool }
	encodedKey struct {
		form    form
		version string
		before  bool
	}
)

// eventAttributes returns what selectors look at, read once for all watches.
func (w *watcher) eventAttributes(e *store.Event, before bool) attributes {
	return store.Once(e, seenKey{before}, func() attributes {
		o := e.Object
		if before {
			o = e.Before
		}
		return attributes{w.selection.kind.Labels(o.Raw), w.selection.kind.Fields(o.Key, o.Raw)}
	})
}

// encodeOnce returns an event's object in this watch's form, which is made once for all
// watches. One that left the selection is as it was before, with the version of
// the event.
func (w *watcher) encodeOnce(e *store.Event, before bool) []byte {
	if w.form.proto && w.form.as == "" && !before {
		return e.Object.Raw
	}
	return store.Once(e, encodedKey{w.form, w.kind().Version, before}, func() []byte {
		if !before {
			return w.encodeObject(e.Object)
		}
		return w.encodeObject(&store.Object{Key: e.Object.Key, Version: e.Version, Raw: withVersion(w.kind(), e.Before.Raw, e.Version)})
	})
}

func (w *watcher) kind() *kind.Kind { return w.selection.kind }

// withVersion returns an object with another version.
func withVersion(k *kind.Kind, raw []byte, version uint64) []byte {
	o, err := k.Decode(raw)
	if err != nil {
		return raw
	}
	out, err := registry.Encoder(k, o)(version)
	if err != nil {
		return raw
	}
	return out
}

// encodeObject returns an object in the watch's form, without the envelope of a plain one
// in protobuf.
func (w *watcher) encodeObject(o *store.Object) []byte {
	var out []byte
	var err error
	switch {
	case w.form.as == "Table":
		out, err = w.encodeRow(o)
	case strings.HasPrefix(w.form.as, "PartialObjectMetadata"):
		out, err = encodePartial(w.kind(), o.Raw, w.form.proto)
	case w.form.proto:
		return o.Raw
	default:
		out, err = w.kind().JSON(o.Raw)
	}
	if err != nil {
		out, _ = json.Marshal(metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}) // plain texts
	}
	return out
}

// bufferObject adds an event to what is to be sent.
func (w *watcher) bufferObject(kind string, encoded []byte) {
	if !w.form.proto {
		w.out.WriteString(`{"type":"` + kind + `","object":`)
		w.bufferEncoded(encoded)
		w.out.WriteString("}\n")
		return
	}
	if w.form.as != "" {
		w.bufferFrame(kind, nil, encoded)
		return
	}
	k := w.kind()
	var scratch [128]byte
	w.bufferFrame(kind, object.AppendEnvelopeHead(scratch[:0], k.APIVersion(), k.Kind, len(encoded)), encoded)
}

// bufferFrame adds a frame in protobuf: its length, and a WatchEvent with the type and
// an object in its envelope, whose head may come apart.
func (w *watcher) bufferFrame(kind string, head, object_ []byte) {
	var scratch [64]byte
	b := object.AppendString(scratch[:4], 1, kind)
	n := len(head) + len(object_)
	inner := object.AppendHead(nil, 1, n)
	b = object.AppendHead(b, 2, len(inner)+n)
	b = append(b, inner...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4+n))
	w.out.Write(b)
	w.out.Write(head)
	w.bufferEncoded(object_)
}

// bufferBookmark says up to where everything has been sent.
func (w *watcher) bufferBookmark(initial bool) {
	k := w.kind()
	o := k.New()
	m := kind.Meta(o)
	m.SetResourceVersion(registry.FormatVersion(w.at))
	if initial {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: strconv.FormatBool(true)})
	}
	raw, err := k.Encode(o)
	if err != nil {
		return
	}
	w.bufferObject("BOOKMARK", w.encodeObject(&store.Object{Version: w.at, Raw: raw}))
}

// sendExpired tells the client that it must list again.
func (w *watcher) sendExpired() {
	var err apierrors.APIStatus
	errors.As(apierrors.NewResourceExpired("too old resource version: "+registry.FormatVersion(w.at)+" ("+registry.FormatVersion(w.cluster.registry.Store().Version())+")"), &err)
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if w.form.proto {
		raw, _ := s.Marshal() // into memory
		w.bufferFrame("ERROR", nil, object.AppendEnvelope(nil, "v1", "Status", raw))
	} else {
		raw, _ := json.Marshal(s) // plain fields
		w.bufferObject("ERROR", raw)
	}
	_ = w.flush() // the watch is over in any case
}
