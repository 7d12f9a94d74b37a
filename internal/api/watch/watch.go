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
	"github.com/windtunnel/windtunnel/internal/unit"
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

// Versioned is what a Handler may be besides: it is told the version of each list, before
// its ListEnd.
type Versioned interface{ ListVersion(version uint64) }

// Options say what to follow.
type Options struct {
	Path     string // such as /api/v1/pods
	Selector string // more of the query: labelSelector=...&fieldSelector=..., escaped
	Clock    clock.Clock
	JSON     bool // objects as JSON in place of protobuf, which custom resources do not have
	// Patience is the longest pause between two attempts, default 5 s. What
	// comes and goes during a pause is not seen where the server cannot resume.
	Patience time.Duration
	// Refusals is how often in a row the server may refuse what may pass, default
	// 6: a token that has just expired, a role or a definition that is a moment
	// old. Who follows again whatever the end was does with 1.
	Refusals int
}

// Bounds, and the timing of retries.
const (
	pageSize   = 1000
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second // the default of Options.Patience
	plainJSON  = "application/json"
	listTime   = 45 * time.Second // of a page
	// listWithin is how long the first list may fail, and busyWithin how long a server may
	// say that it comes to it later: one whose watch cache is behind does so at each list.
	listWithin = 30 * time.Second
	busyWithin = 10 * time.Minute
	// maxPages is more than etcd holds, at 1000 objects a page.
	maxPages   = 10_000
	maxRefused = 6 // the default of Options.Refusals
	maxFrame   = 16 << 20
)

var (
	// errGone says that the resource version is too old to watch from.
	errGone = errors.New("resource version is gone")
	// errEndless says that a list goes on and on.
	errEndless = errors.New("the list does not end")
)

// Follow lists and watches until ctx ends, whose error it then returns. Any
// other error means that the server does not serve this: 405 or 406, or 401, 403
// or 404 again and again, a list without end, or none for half a minute, ten minutes
// where it asks for patience by 429, 503 or 504.
func Follow(ctx context.Context, c *wire.Client, o Options, h Handler) error {
	if o.Patience <= 0 {
		o.Patience = lastRetry
	}
	if o.Refusals <= 0 {
		o.Refusals = maxRefused
	}
	f := &follower{client: c, options: o, handler: h, reopening: wire.Reopening{Backoff: wire.Backoff{First: firstRetry, Last: o.Patience}}, limit: pageSize}
	f.began = o.Clock.Now()
	why := ""
	for again := false; ; again = true {
		err := f.listPages(ctx, again, why)
		if err == nil {
			err = f.watchUntilGone(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case f.hopeless:
			return fmt.Errorf("follow %s: %w", o.Path, err)
		case !f.listed && o.Clock.Now().Sub(f.began) > firstWithin(err):
			return fmt.Errorf("follow %s: no list within %v: %w", o.Path, firstWithin(err), err)
		}
		why = err.Error()
		f.waitBeforeRetry(ctx, err)
	}
}

type follower struct {
	client    *wire.Client
	options   Options
	handler   Handler
	version   string
	reopening wire.Reopening
	refused   int        // times in a row
	hopeless  bool       // the last error is final
	listed    bool       // at least once
	limit     int        // objects of a page
	began     clock.Time // when Follow did
	opened    clock.Time // the watch; 0 while there is none
	events    bool       // that it has brought
	frame     []byte     // an unfinished frame
}

// checkFatal finds errors that are final.
func (f *follower) checkFatal(err error) error {
	var status *wire.StatusError
	switch {
	case errors.Is(err, errEndless):
		f.hopeless = true
	case errors.Is(err, wire.ErrTooLarge):
		f.hopeless = f.limit == 1
		f.limit = max(f.limit/8, 1)
	case errors.As(err, &status):
		switch status.Code {
		case http.StatusMethodNotAllowed, http.StatusNotAcceptable:
			f.hopeless = true
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
			f.refused++
			f.hopeless = f.refused >= f.options.Refusals
		}
	}
	return err
}

// firstWithin is how long a first list may fail that failed last by err.
func firstWithin(err error) time.Duration {
	var status *wire.StatusError
	if errors.As(err, &status) {
		switch status.Code {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return busyWithin
		}
	}
	return listWithin
}

// noteSuccess says that the server does what it is asked for.
func (f *follower) noteSuccess() { f.events, f.refused = true, 0 }

// waitBeforeRetry waits before another attempt.
func (f *follower) waitBeforeRetry(ctx context.Context, err error) {
	now, lasted := f.options.Clock.Now(), time.Duration(0)
	if f.opened > 0 {
		lasted = now.Sub(f.opened)
	}
	pause := f.reopening.Pause(now, lasted, f.events)
	var status *wire.StatusError
	if errors.As(err, &status) {
		pause = max(pause, status.RetryAfter)
	}
	f.opened, f.events = 0, false
	_ = clock.Sleep(ctx, pause) // the caller looks at ctx
}

func (f *follower) requestURL(query string) string {
	if f.options.Selector != "" {
		query += "&" + f.options.Selector
	}
	return f.options.Path + "?" + query
}

// listPages reads all pages. The handler's ListEnd comes only after the last: when a
// page fails, the whole list is begun again.
func (f *follower) listPages(ctx context.Context, again bool, why string) error {
	next := ""
	if h, ok := f.handler.(Asking); ok {
		h.ListAsked(f.options.Clock.Now())
	}
	for pages := 0; ; pages++ {
		before := next
		r, err := f.requestPage(ctx, next)
		if err != nil {
			return f.checkFatal(fmt.Errorf("list: %w", err))
		}
		if pages == 0 {
			f.handler.ListBegin(again, why)
		}
		if next, err = f.handlePage(r.Body, r.Done); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		f.refused = 0
		switch {
		case next == "":
			if h, ok := f.handler.(Versioned); ok {
				h.ListVersion(f.versionNumber())
			}
			f.handler.ListEnd()
			f.listed = true
			return nil
		case next == before:
			return f.checkFatal(fmt.Errorf("list: %w: page %d leads to itself", errEndless, pages+1))
		case pages == maxPages:
			return f.checkFatal(fmt.Errorf("list: %w: %s", errEndless, unit.Count(pages, "pages")))
		}
	}
}

// requestPage asks for a page.
func (f *follower) requestPage(ctx context.Context, token string) (*wire.Response, error) {
	query := fmt.Sprintf("limit=%d", f.limit)
	if token != "" {
		query += "&continue=" + url.QueryEscape(token)
	}
	r, err := f.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: f.requestURL(query), Accept: f.acceptHeader(), Timeout: listTime})
	if err == nil && !r.Success() {
		err = r.Refusal()
	}
	return r, err
}

func (f *follower) acceptHeader() string {
	if f.options.JSON {
		return plainJSON
	}
	return object.ContentType
}

// handlePage hands over the items of one page and returns the token of the next.
func (f *follower) handlePage(body []byte, at clock.Time) (next string, err error) {
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

// watchUntilGone opens watches one after another until the server forgets the version.
func (f *follower) watchUntilGone(ctx context.Context) error {
	for {
		f.frame, f.opened = f.frame[:0], f.options.Clock.Now()
		query := "watch=1&allowWatchBookmarks=true&resourceVersion=" + url.QueryEscape(f.version)
		err := f.client.Stream(ctx, &wire.Request{Method: http.MethodGet, Path: f.requestURL(query), Accept: f.acceptHeader() + ";stream=watch"}, f.cutFrames)
		var status *wire.StatusError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errGone):
			return err
		case errors.As(err, &status) && status.Code == http.StatusGone:
			return errGone
		}
		if err = f.checkFatal(err); f.hopeless {
			return err
		}
		f.waitBeforeRetry(ctx, err)
	}
}

// cutFrames cuts what arrived into frames: four bytes of length, then the event.
func (f *follower) cutFrames(p []byte) error {
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
		if err := f.handleEvent(frame, at); err != nil {
			return err
		}
	}
	f.frame = append(f.frame[:0], p[whole:]...)
	return nil
}

func (f *follower) handleEvent(frame []byte, at clock.Time) error {
	kind, raw, err := object.DecodeEvent(frame)
	if err != nil {
		return err
	}
	if kind != object.Error {
		f.noteSuccess()
	}
	switch kind {
	case object.Added:
		f.emitEvent(Added, raw, at)
	case object.Modified:
		f.emitEvent(Modified, raw, at)
	case object.Deleted:
		f.emitEvent(Deleted, raw, at)
	case object.Bookmark:
		f.version = string(object.ResourceVersion(raw))
		f.emitBookmark(at)
	case object.Error:
		s, err := object.DecodeStatus(raw)
		return errors.Join(statusError(s), err)
	}
	return nil
}

func (f *follower) emitEvent(kind Kind, body []byte, at clock.Time) {
	f.version = string(object.ResourceVersion(body))
	f.handler.Event(Event{Kind: kind, Object: body, At: at, Version: f.versionNumber()})
}

func (f *follower) emitBookmark(at clock.Time) {
	if h, ok := f.handler.(Bookmarked); ok {
		h.Bookmark(at, f.versionNumber())
	}
}

// versionNumber is the version as a number.
func (f *follower) versionNumber() uint64 {
	n, err := strconv.ParseUint(f.version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// statusError is the error that an ERROR event is.
func statusError(s object.Status) error {
	if s.Code == http.StatusGone {
		return fmt.Errorf("%w: %s", errGone, s.Message)
	}
	return &wire.StatusError{Code: s.Code, Body: []byte(s.Message)}
}
