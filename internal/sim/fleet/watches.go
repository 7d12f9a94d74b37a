package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
)

// sourceID tells the sources of events apart.
type sourceID int

const (
	sourceNodes sourceID = iota
	sourcePods
	sourceCount
)

// source is a resource that the fleet lists and watches.
type source struct {
	id    sourceID
	name  string
	path  string
	query url.Values
}

// sourcesOf returns what a fleet watches, and players of its nodes and pods.
func sourcesOf(fleet string, managed *ManagedNodes) [sourceCount]source {
	nodes := source{sourceNodes, "nodes", nodesPath, url.Values{"labelSelector": {object.FleetLabel + "=" + fleet}}}
	pods := source{sourcePods, "pods", "/api/v1/pods", url.Values{"fieldSelector": {"spec.nodeName!="}}}
	if managed != nil {
		nodes.query, pods.query = managed.nodesQuery(), managed.podsQuery()
	}
	return [sourceCount]source{nodes, pods}
}

// watches keeps the driver's events coming: it lists and watches nodes and pods,
// and lists them again where a watch cannot be resumed.
type watches struct {
	clock   clock.Clock
	client  client
	records *record.Writer // may be nil
	log     *slog.Logger
	events  *eventQueue
	wait    guard.Group

	mu      sync.Mutex          // guards what follows
	breaks  [sourceCount]func() // each ends the watch of a source, so that it is listed again
	asked   [sourceCount]bool   // to list it again, since the last list began
	relists int
}

const (
	pageSize      = 1000
	watchAccept   = object.ContentType + ";stream=watch"
	lastReconnect = 10 * time.Second
	listTimeout   = 60 * time.Second
	maxPages      = 10_000 // more than etcd holds
	// firstLists is how often the first list is tried: the credentials may have
	// expired a moment ago, or the server may be about to start again.
	firstLists = 6
)

// errEndless says that a list goes on and on.
var errEndless = errors.New("the list does not end")

// errExpired says that the server does not know the version any more that a
// watch wanted to go on from.
var errExpired = errors.New("version expired")

// listSource hands all objects of a source to the driver, page by page, and returns
// the version to watch from.
func (w *watches) listSource(ctx context.Context, s source) (string, error) {
	w.mu.Lock()
	w.asked[s.id] = false
	w.mu.Unlock()
	w.events.handBatch(ctx, batch{kind: listBegins, source: s.id})
	next := ""
	for pages := 0; ; pages++ {
		before := next
		query := url.Values{"limit": {fmt.Sprint(pageSize)}}
		maps.Copy(query, s.query)
		if next != "" {
			query.Set("continue", next)
		}
		r, err := w.client.Do(ctx, &wire.Request{
			Method: http.MethodGet, Path: s.path + "?" + query.Encode(), Accept: object.ContentType, Timeout: listTimeout,
		})
		if err != nil {
			return "", fmt.Errorf("fleet: list %s: %w", s.name, err)
		}
		if !r.Success() {
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
		if !w.events.handBatch(ctx, batch{kind: listPage, source: s.id, data: raw}) {
			return "", ctx.Err()
		}
		if next = page.Continue; next == "" {
			w.events.handBatch(ctx, batch{kind: listEnds, source: s.id})
			return page.Version, nil
		}
		if next == before || pages == maxPages {
			return "", fmt.Errorf("fleet: list %s: %w: page %d is not the last", s.name, errEndless, pages+1)
		}
	}
}

// startSource lists a source and goes on watching it until ctx ends.
func (w *watches) startSource(ctx context.Context, s source) error {
	from, err := w.listSource(ctx, s)
	for failed := 0; err != nil && !errors.Is(err, errEndless) && failed < firstLists-1; failed++ {
		if sleep := w.pauseAfter(ctx, failed, err); sleep != nil {
			return errors.Join(err, sleep)
		}
		from, err = w.listSource(ctx, s)
	}
	if err == nil {
		w.wait.Go(func() { w.followSource(ctx, s, from) })
	}
	return err
}

// pauseAfter waits after so many failures in a row, and for as long as the server asks.
func (w *watches) pauseAfter(ctx context.Context, failed int, err error) error {
	return w.sleepAfter(ctx, watchBackoff().Pause(failed), err)
}

// sleepAfter waits so long, up to 20 % more or less, or for as long as the server asks.
func (w *watches) sleepAfter(ctx context.Context, pause time.Duration, err error) error {
	pause = wire.Jitter(pause, rand.Float64())
	var status *wire.StatusError
	if errors.As(err, &status) {
		pause = max(pause, status.RetryAfter)
	}
	return clock.Sleep(ctx, pause)
}

func watchBackoff() wire.Backoff {
	return wire.Backoff{First: wire.CallBackoff().First, Last: lastReconnect}
}

// followSource watches a source from a version until ctx ends. A broken watch goes
// on where it was; one that cannot is listed again, and what is missing in the
// list is taken for deleted, so nothing is lost either way.
func (w *watches) followSource(ctx context.Context, s source, from string) {
	reopening := wire.Reopening{Backoff: watchBackoff()}
	down := false // the watch before failed as well: one line for each outage
	for ctx.Err() == nil {
		began, version := w.clock.Now(), from
		whole, interrupt := context.WithCancel(ctx)
		w.setBreak(s.id, interrupt)
		err := w.watchSource(whole, s, &from)
		asked := whole.Err() != nil // somebody wants it listed again
		interrupt()
		if ctx.Err() != nil {
			return
		}
		if asked {
			if next, err := w.listSource(ctx, s); err == nil {
				from = next
				continue
			}
			err = errExpired
		}
		now := w.clock.Now()
		lasted, brought := now.Sub(began), from != version
		if again := down && !brought && lasted < lastReconnect; err != nil && !again {
			w.log.Warn("watch interrupted", "resource", s.name, "error", err)
		}
		down = err != nil
		if w.sleepAfter(ctx, reopening.Pause(now, lasted, brought), err) != nil {
			return
		}
		if isExpired(err) {
			if from, err = w.relistSource(ctx, s); err != nil {
				w.log.Warn("not listed again", "resource", s.name, "error", err)
			}
		}
	}
}

// setBreak notes what ends the watch that is about to begin, and ends it where that was
// asked for while there was none.
func (w *watches) setBreak(source sourceID, interrupt func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaks[source] = interrupt
	if w.asked[source] {
		interrupt()
	}
}

// relistPods lets pods be listed again: some came before their nodes did. A list that is
// under way may have had them already, so that another follows it.
func (w *watches) relistPods() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[sourcePods] = true
	if interrupt := w.breaks[sourcePods]; interrupt != nil {
		interrupt()
	}
}

func isExpired(err error) bool {
	var status *wire.StatusError
	return errors.Is(err, errExpired) || errors.As(err, &status) && status.Code == http.StatusGone
}

func (w *watches) relistSource(ctx context.Context, s source) (string, error) {
	if w.records != nil {
		w.records.Event(record.Event{At: w.clock.Now(), Type: record.EventWatchGap, Name: s.name, Text: "fleet: listed again"})
	}
	w.mu.Lock()
	w.relists++
	w.mu.Unlock()
	from, err := w.listSource(ctx, s)
	if err != nil {
		return "0", err // a watch from 0 would miss deletions, but expires below and is listed again
	}
	return from, nil
}

// watchSource streams events to the driver and moves from along.
func (w *watches) watchSource(ctx context.Context, s source, from *string) error {
	if *from == "0" {
		return errExpired
	}
	query := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {*from}}
	maps.Copy(query, s.query)
	var pending []byte
	return w.client.Stream(ctx, &wire.Request{Method: http.MethodGet, Path: s.path + "?" + query.Encode(), Accept: watchAccept},
		func(chunk []byte) error {
			pending = append(pending, chunk...)
			whole, last, err := object.SplitFrames(pending)
			if err != nil || whole == 0 {
				return err
			}
			failure := moveOn(last, from)
			// The frames are the driver's from now on; what is left begins the next.
			b := batch{kind: events, source: s.id, data: pending[:whole:whole]}
			pending = append(make([]byte, 0, max(len(chunk), 4<<10)), pending[whole:]...)
			if !w.events.handBatch(ctx, b) {
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

// serverVersion returns the server's version, such as v1.37.1: the nodes say that
// their kubelet has it.
func serverVersion(ctx context.Context, c client) (string, error) {
	r, err := c.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/version"})
	if err != nil {
		return "", fmt.Errorf("fleet: ask the server's version: %w", err)
	}
	if !r.Success() {
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

// addStats adds the watches' part to a fleet's state.
func (w *watches) addStats(s *Stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Relists = w.relists
}
