package hollow

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

// watch sends events until the client leaves or its time is up.
func (q *request) watch() error {
	s, o, err := q.selected()
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
		if err := q.reach(from); err != nil {
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
	w.follow(length)
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
		if w.holds(o) {
			w.append(metav1Added, w.encode(o))
		}
		if err := w.relieve(); err != nil {
			return err
		}
	}
	w.at = found.Version
	if w.initial && w.bookmarks {
		w.bookmark(true)
	}
	return w.flush()
}

// The types of events.
const (
	metav1Added    = "ADDED"
	metav1Modified = "MODIFIED"
	metav1Deleted  = "DELETED"
)

// follow sends events as they come. Each event passes its select, whose price is that
// of its cases.
func (w *watcher) follow(length time.Duration) {
	c := w.cluster.server.clock
	end := c.Now().Add(length)
	next := time.NewTimer(min(length, w.untilBookmark(length)))
	defer next.Stop()
	halt := *w.cluster.halt.Load()
	for {
		news, err := w.table.Since(w.at)
		if errors.Is(err, store.ErrCompacted) {
			w.expired()
			return
		}
		for _, e := range news.Events {
			w.event(e)
			if w.relieve() != nil {
				return
			}
		}
		w.at = max(w.at, news.Version)
		if news.Changed == nil && w.Context().Err() == nil && !w.cluster.down.Load() {
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
				w.bookmark(false)
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

// relieve hands what has been gathered to the client when it is much.
func (w *watcher) relieve() error {
	if w.out.Len() > flushAt {
		w.hand()
	}
	return w.broken
}

// hand gives what has been gathered to the connection, within pieceTime.
func (w *watcher) hand() {
	if w.broken != nil {
		return
	}
	if c := w.cluster.server.clock; w.until.Sub(c.Now()) < pieceTime/2 {
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
	w.hand()
	if w.broken != nil {
		return w.broken
	}
	return http.NewResponseController(w.w).Flush()
}

// put adds an encoded object to what is to be sent. One that is large is not copied:
// of all watches that wait for their clients only one has it.
func (w *watcher) put(encoded []byte) {
	if len(encoded) < large {
		w.out.Write(encoded)
		return
	}
	if w.hand(); w.broken == nil {
		_, w.broken = w.w.Write(encoded)
	}
}

// event sends what an event is to this watch: what leaves the selection is deleted
// to it, what enters it is added.
func (w *watcher) event(e *store.Event) {
	if !strings.HasPrefix(e.Object.Key, w.prefix) {
		return
	}
	is, was := !e.Deleted, e.Before != nil
	if !w.all() {
		is = is && w.matches(w.seen(e, false))
		was = was && w.matches(w.seen(e, true))
	}
	switch {
	case is && was:
		w.append(metav1Modified, w.once(e, false))
	case is:
		w.append(metav1Added, w.once(e, false))
	case was && e.Deleted:
		w.append(metav1Deleted, w.once(e, false))
	case was:
		w.append(metav1Deleted, w.once(e, true))
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

// seen returns what selectors look at, read once for all watches.
func (w *watcher) seen(e *store.Event, before bool) attributes {
	return store.Once(e, seenKey{before}, func() attributes {
		o := e.Object
		if before {
			o = e.Before
		}
		return attributes{w.selection.kind.Labels(o.Raw), w.selection.kind.Fields(o.Key, o.Raw)}
	})
}

// once returns an event's object in this watch's form, which is made once for all
// watches. One that left the selection is as it was before, with the version of
// the event.
func (w *watcher) once(e *store.Event, before bool) []byte {
	if w.form.proto && w.form.as == "" && !before {
		return e.Object.Raw
	}
	return store.Once(e, encodedKey{w.form, w.kind().Version, before}, func() []byte {
		if !before {
			return w.encode(e.Object)
		}
		return w.encode(&store.Object{Key: e.Object.Key, Version: e.Version, Raw: reversion(w.kind(), e.Before.Raw, e.Version)})
	})
}

func (w *watcher) kind() *kind.Kind { return w.selection.kind }

// reversion returns an object with another version.
func reversion(k *kind.Kind, raw []byte, version uint64) []byte {
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

// encode returns an object in the watch's form, without the envelope of a plain one
// in protobuf.
func (w *watcher) encode(o *store.Object) []byte {
	var out []byte
	var err error
	switch {
	case w.form.as == "Table":
		out, err = w.row(o)
	case strings.HasPrefix(w.form.as, "PartialObjectMetadata"):
		out, err = partial(w.kind(), o.Raw, w.form.proto)
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

// append adds an event to what is to be sent.
func (w *watcher) append(kind string, encoded []byte) {
	if !w.form.proto {
		w.out.WriteString(`{"type":"` + kind + `","object":`)
		w.put(encoded)
		w.out.WriteString("}\n")
		return
	}
	if w.form.as != "" {
		w.frame(kind, nil, encoded)
		return
	}
	k := w.kind()
	var scratch [128]byte
	w.frame(kind, object.AppendEnvelopeHead(scratch[:0], k.APIVersion(), k.Kind, len(encoded)), encoded)
}

// frame adds a frame in protobuf: its length, and a WatchEvent with the type and
// an object in its envelope, whose head may come apart.
func (w *watcher) frame(kind string, head, object_ []byte) {
	var scratch [64]byte
	b := object.AppendString(scratch[:4], 1, kind)
	n := len(head) + len(object_)
	inner := object.AppendHead(nil, 1, n)
	b = object.AppendHead(b, 2, len(inner)+n)
	b = append(b, inner...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4+n))
	w.out.Write(b)
	w.out.Write(head)
	w.put(object_)
}

// bookmark says up to where everything has been sent.
func (w *watcher) bookmark(initial bool) {
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
	w.append("BOOKMARK", w.encode(&store.Object{Version: w.at, Raw: raw}))
}

// expired tells the client that it must list again.
func (w *watcher) expired() {
	var err apierrors.APIStatus
	errors.As(apierrors.NewResourceExpired("too old resource version: "+registry.FormatVersion(w.at)+" ("+registry.FormatVersion(w.cluster.registry.Store().Version())+")"), &err)
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if w.form.proto {
		raw, _ := s.Marshal() // into memory
		w.frame("ERROR", nil, object.AppendEnvelope(nil, "v1", "Status", raw))
	} else {
		raw, _ := json.Marshal(s) // plain fields
		w.append("ERROR", raw)
	}
	_ = w.flush() // the watch is over in any case
}
