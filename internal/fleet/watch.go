package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// The sources of events.
const (
	sourceNodes = iota
	sourcePods
)

// source is a resource that the fleet lists and watches.
type source struct {
	id    int
	name  string
	path  string
	query url.Values
}

// sources returns what the engine itself watches.
func (f *Fleet) sources() []source {
	all := f.allSources()
	if !f.typedPods {
		return all[:sourcePods]
	}
	return all
}

func (f *Fleet) allSources() []source {
	nodes := source{sourceNodes, "nodes", nodesPath, url.Values{"labelSelector": {object.FleetLabel + "=" + f.model.fleet}}}
	pods := source{sourcePods, "pods", "/api/v1/pods", url.Values{"fieldSelector": {"spec.nodeName!="}}}
	if f.manage != nil {
		nodes.query, pods.query = f.manage.nodesQuery(), f.manage.podsQuery()
	}
	return []source{nodes, pods}
}

// batch is what a watch hands to the engine at once.
type batch struct {
	kind     batchKind
	source   int
	data     []byte // whole frames, or a page's message
	received clock.Time
}

type batchKind uint8

const (
	noBatch batchKind = iota
	listBegins
	listPage
	listEnds // what the list did not hold is gone
	events
)

const (
	pageSize       = 1000
	watchAccept    = object.ContentType + ";stream=watch"
	firstReconnect = 100 * time.Millisecond
	lastReconnect  = 10 * time.Second
	listTimeout    = 60 * time.Second
)

// errExpired says that the server does not know the version any more that a
// watch wanted to go on from.
var errExpired = errors.New("version expired")

// hand gives a batch to the engine; false when ctx ended.
func (f *Fleet) hand(ctx context.Context, b batch) bool {
	b.received = f.clock.Now()
	select {
	case f.batches <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// list hands all objects of a source to the engine, page by page, and returns
// the version to watch from.
func (f *Fleet) list(ctx context.Context, s source) (string, error) {
	f.hand(ctx, batch{kind: listBegins, source: s.id})
	next := ""
	for {
		query := url.Values{"limit": {fmt.Sprint(pageSize)}}
		for k, v := range s.query {
			query[k] = v
		}
		if next != "" {
			query.Set("continue", next)
		}
		r, err := f.client.Do(ctx, &wire.Request{
			Method: http.MethodGet, Path: s.path + "?" + query.Encode(), Accept: object.ContentType, Timeout: listTimeout,
		})
		if err != nil {
			return "", fmt.Errorf("fleet: list %s: %w", s.name, err)
		}
		if r.Code >= http.StatusBadRequest {
			return "", fmt.Errorf("fleet: list %s: %w", s.name, r.Refusal())
		}
		raw, _, err := object.Unwrap(r.Body)
		if err != nil {
			return "", fmt.Errorf("fleet: list %s: %w", s.name, err)
		}
		page, err := object.DecodePage(raw)
		if err != nil {
			return "", fmt.Errorf("fleet: list %s: %w", s.name, err)
		}
		if !f.hand(ctx, batch{kind: listPage, source: s.id, data: raw}) {
			return "", ctx.Err()
		}
		if next = page.Continue; next == "" {
			f.hand(ctx, batch{kind: listEnds, source: s.id})
			return page.Version, nil
		}
	}
}

// follow watches a source from a version until ctx ends. A broken watch goes
// on where it was; one that cannot is listed anew, and what is missing in the
// list is taken for deleted, so nothing is lost either way.
func (f *Fleet) follow(ctx context.Context, s source, from string) {
	pause := firstReconnect
	for ctx.Err() == nil {
		began := f.clock.Now()
		torn, tear := context.WithCancel(ctx)
		f.tearable(s.id, tear)
		err := f.watch(torn, s, &from)
		again := torn.Err() != nil // somebody wants it listed anew
		tear()
		if ctx.Err() != nil {
			return
		}
		if again {
			if next, failed := f.list(ctx, s); failed == nil {
				from = next
				continue
			}
			err = errExpired
		}
		if expired(err) {
			if from, err = f.relist(ctx, s); err == nil {
				continue
			}
		}
		if f.clock.Now().Sub(began) > lastReconnect {
			pause = firstReconnect // it had worked
		}
		if err != nil {
			f.mu.Lock()
			f.stats.watchErrors++
			f.mu.Unlock()
			f.log.Warn("watch interrupted", "resource", s.name, "error", err)
		}
		if clock.Sleep(ctx, pause+rand.N(pause/4)) != nil {
			return
		}
		pause = min(2*pause, lastReconnect)
	}
}

func expired(err error) bool {
	var status *wire.StatusError
	return errors.Is(err, errExpired) || errors.As(err, &status) && status.Code == http.StatusGone
}

func (f *Fleet) relist(ctx context.Context, s source) (string, error) {
	if f.records != nil {
		f.records.Event(record.Event{At: f.clock.Now(), Type: record.EventWatchGap, Name: s.name, Text: "fleet: listed again"})
	}
	f.mu.Lock()
	f.stats.relists++
	f.mu.Unlock()
	from, err := f.list(ctx, s)
	if err != nil {
		return "0", err // a watch from 0 would miss deletions, but expires below and is listed again
	}
	return from, nil
}

// watch streams events to the engine and moves from along.
func (f *Fleet) watch(ctx context.Context, s source, from *string) error {
	if *from == "0" {
		return errExpired
	}
	query := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {*from}}
	for k, v := range s.query {
		query[k] = v
	}
	var pending []byte
	return f.client.Stream(ctx, &wire.Request{Method: http.MethodGet, Path: s.path + "?" + query.Encode(), Accept: watchAccept},
		func(chunk []byte) error {
			pending = append(pending, chunk...)
			whole, last, err := object.SplitFrames(pending)
			if err != nil || whole == 0 {
				return err
			}
			failure := moveOn(last, from)
			// The frames are the engine's from now on; what is left begins the next.
			b := batch{kind: events, source: s.id, data: pending[:whole:whole]}
			pending = append(make([]byte, 0, max(len(chunk), 4<<10)), pending[whole:]...)
			if !f.hand(ctx, b) {
				return ctx.Err()
			}
			return failure
		})
}

// moveOn reads the version of a batch's last event, or the error that it is.
func moveOn(last []byte, from *string) error {
	kind, raw, err := object.DecodeEvent(last)
	if err != nil {
		return err
	}
	if kind == object.Error {
		s, err := object.DecodeStatus(raw)
		if err == nil && s.Gone() {
			return errExpired
		}
		return errors.Join(fmt.Errorf("watch: %d %s", s.Code, s.Message), err)
	}
	var m object.Meta
	if err := object.DecodeMeta(raw, &m); err != nil {
		return err
	}
	*from = fmt.Sprint(m.Version)
	return nil
}

// version returns the server's version, such as v1.37.1: the nodes say that
// their kubelet has it.
func (f *Fleet) version(ctx context.Context) (string, error) {
	r, err := f.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/version"})
	if err != nil {
		return "", fmt.Errorf("fleet: ask the server's version: %w", err)
	}
	if r.Code >= http.StatusBadRequest {
		return "", fmt.Errorf("fleet: ask the server's version: %w", r.Refusal())
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return "", fmt.Errorf("fleet: ask the server's version: %w", err)
	}
	return v.GitVersion, nil
}
