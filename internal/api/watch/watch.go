// Package watch follows a resource: it lists it in pages, watches it, and
// re-lists when the server has forgotten where it was (410 Gone), without
// losing or doubling an object. Objects are handed over as bytes, protobuf or
// JSON, so that each reader decodes only what it needs.
//
// It keeps no cache: its readers know what they need to remember.
package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// Kind says what an event is about.
type Kind uint8

// The kinds of events.
const (
	Listed   Kind = iota + 1 // the object was in a list: it exists, since when is not known
	Added                    // the object was created
	Modified                 // the object was changed
	Deleted                  // the object is gone; the bytes are its last state
)

// Event is one object as it was listed or as it changed.
type Event struct {
	Kind    Kind
	Object  []byte     // protobuf or JSON of the object, valid only during the call
	At      clock.Time // receipt
	Version uint64     // resourceVersion of the change as a number; 0 of listed objects, and where it is none
}

// Handler gets the events, all from one goroutine.
type Handler interface {
	// Event gets one object.
	Event(Event)
	// ListBegin comes before the objects of each list; again is true when the
	// list follows a gap in the watch, and why says what tore it.
	ListBegin(again bool, why string)
	// ListEnd comes after them: an object that was known and not listed is gone.
	ListEnd()
}

// Bookmarked is what a Handler may be besides: it is told when the server says
// that nothing has happened up to a version that was not shown; version is 0
// where it is no number.
type Bookmarked interface {
	Bookmark(at clock.Time, version uint64)
}

// Asking is what a Handler may be besides: it is told when a list is asked for,
// before its ListBegin if there is one. All pages of a list show what was there
// at some moment between that and the first page.
type Asking interface{ ListAsked(at clock.Time) }

// Options say what to follow.
type Options struct {
	Path     string // such as /api/v1/pods
	Selector string // more of the query: labelSelector=...&fieldSelector=..., escaped
	Clock    clock.Clock
	JSON     bool // objects as JSON in place of protobuf, which custom resources do not have
	// Patience is the longest pause between two attempts, default 5 s. What
	// comes and goes during a pause is not seen where the server cannot resume.
	Patience time.Duration
}

// Timing of retries. A watch that ends by itself is opened again at once.
const (
	pageSize   = 1000
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second // the default of Options.Patience
	plainJSON  = "application/json"
	listTime   = 2 * time.Minute
	maxFrame   = 64 << 20
)

// errGone says that the resource version is too old to watch from.
var errGone = errors.New("resource version is gone")

// Follow lists and watches until ctx ends, whose error it then returns. Any
// other error means that the server will never serve this: 401, 403, 404, 405,
// 406.
func Follow(ctx context.Context, c *wire.Client, o Options, h Handler) error {
	if o.Patience <= 0 {
		o.Patience = lastRetry
	}
	f := &follower{client: c, options: o, handler: h, backoff: wire.Backoff{First: firstRetry, Last: o.Patience}}
	why := ""
	for again := false; ; again = true {
		err := f.list(ctx, again, why)
		if err == nil {
			err = f.watch(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return fmt.Errorf("follow %s: %w", o.Path, err)
		}
		why = err.Error()
		if !errors.Is(err, errGone) {
			f.pause(ctx)
		}
	}
}

func final(err error) bool {
	var status *wire.StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	}
	return false
}

type follower struct {
	client  *wire.Client
	options Options
	handler Handler
	version string
	backoff wire.Backoff
	failed  int    // attempts in a row
	frame   []byte // an unfinished frame
}

// pause waits before a retry, longer each time until something succeeds.
func (f *follower) pause(ctx context.Context) {
	_ = clock.Sleep(ctx, f.backoff.Pause(f.failed)) // the caller looks at ctx
	f.failed++
}

func (f *follower) url(query string) string {
	if f.options.Selector != "" {
		query += "&" + f.options.Selector
	}
	return f.options.Path + "?" + query
}

// list reads all pages. The handler's ListEnd comes only after the last: when a
// page fails, the whole list is begun again.
func (f *follower) list(ctx context.Context, again bool, why string) error {
	begun := false
	next := ""
	if h, ok := f.handler.(Asking); ok {
		h.ListAsked(f.options.Clock.Now())
	}
	for {
		query := fmt.Sprintf("limit=%d", pageSize)
		if next != "" {
			query += "&continue=" + url.QueryEscape(next)
		}
		r, err := f.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: f.url(query), Accept: f.accept(), Timeout: listTime})
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if !r.Success() {
			return fmt.Errorf("list: %w", r.Refusal())
		}
		if !begun {
			f.handler.ListBegin(again, why)
			begun = true
		}
		if next, err = f.page(r.Body, r.Done); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if next == "" {
			f.handler.ListEnd()
			f.failed = 0
			return nil
		}
	}
}

func (f *follower) accept() string {
	if f.options.JSON {
		return plainJSON
	}
	return object.ContentType
}

// page hands over the items of one page and returns the token of the next.
func (f *follower) page(body []byte, at clock.Time) (next string, err error) {
	if f.options.JSON {
		return f.jsonPage(body, at)
	}
	raw, _, err := object.Unwrap(body)
	if err != nil {
		return "", err
	}
	list, err := object.DecodePage(raw)
	if err != nil {
		return "", err
	}
	f.version = list.Version
	list.Items(func(raw []byte) { f.handler.Event(Event{Kind: Listed, Object: raw, At: at}) })
	return list.Continue, nil
}

// watch opens watches one after another until the server forgets the version.
func (f *follower) watch(ctx context.Context) error {
	for {
		f.frame = f.frame[:0]
		query := "watch=1&allowWatchBookmarks=true&resourceVersion=" + url.QueryEscape(f.version)
		err := f.client.Stream(ctx, &wire.Request{Method: http.MethodGet, Path: f.url(query), Accept: f.accept() + ";stream=watch"}, f.data)
		var status *wire.StatusError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errGone):
			return err
		case errors.As(err, &status) && status.Code == http.StatusGone:
			return errGone
		case errors.As(err, &status) && final(err):
			return err
		case err != nil:
			f.pause(ctx)
		}
	}
}

// data cuts what arrived into frames: four bytes of length, then the event.
func (f *follower) data(p []byte) error {
	if f.options.JSON {
		return f.jsonData(p)
	}
	at := f.options.Clock.Now()
	if len(f.frame) > 0 {
		f.frame = append(f.frame, p...)
		p = f.frame
	}
	whole, _, err := object.SplitFrames(p)
	if err != nil {
		return err
	}
	for frames := p[:whole]; len(frames) > 0; {
		var frame []byte
		frame, frames = object.NextFrame(frames)
		if err := f.event(frame, at); err != nil {
			return err
		}
	}
	f.frame = append(f.frame[:0], p[whole:]...)
	return nil
}

func (f *follower) event(frame []byte, at clock.Time) error {
	kind, raw, err := object.DecodeEvent(frame)
	if err != nil {
		return err
	}
	f.failed = 0
	switch kind {
	case object.Added:
		f.emit(Added, raw, at)
	case object.Modified:
		f.emit(Modified, raw, at)
	case object.Deleted:
		f.emit(Deleted, raw, at)
	case object.Bookmark:
		f.version = string(object.ResourceVersion(raw))
		f.bookmark(at)
	case object.Error:
		s, err := object.DecodeStatus(raw)
		return errors.Join(refusal(s), err)
	}
	return nil
}

func (f *follower) emit(kind Kind, body []byte, at clock.Time) {
	f.version = string(object.ResourceVersion(body))
	f.handler.Event(Event{Kind: kind, Object: body, At: at, Version: f.number()})
}

func (f *follower) bookmark(at clock.Time) {
	if h, ok := f.handler.(Bookmarked); ok {
		h.Bookmark(at, f.number())
	}
}

// number is the version as a number.
func (f *follower) number() uint64 {
	n, err := strconv.ParseUint(f.version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// refusal is the error that an ERROR event is.
func refusal(s object.Status) error {
	if s.Code == http.StatusGone {
		return fmt.Errorf("%w: %s", errGone, s.Message)
	}
	return &wire.StatusError{Code: s.Code, Body: []byte(s.Message)}
}
