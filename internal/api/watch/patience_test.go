package watch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
)

const emptyList = `{"metadata":{"resourceVersion":"7"},"items":[]}`

// peer counts what is asked of a server: lists are answered by list, watches by
// follow; nil gives an empty list, and a watch that lasts.
type peer struct {
	lists, watches atomic.Int64
	list, follow   func(n int64, w http.ResponseWriter, r *http.Request)
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Get("watch") == "":
		n := p.lists.Add(1)
		if p.list != nil {
			p.list(n, w, r)
			return
		}
		_, _ = io.WriteString(w, emptyList)
	case p.follow != nil:
		p.follow(p.watches.Add(1), w, r)
	default:
		p.watches.Add(1)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// run follows until the first list has ended, or Follow gives up, but for so long at most.
func (p *peer) run(t *testing.T, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return watch.Follow(ctx, start(t, p.ServeHTTP), watch.Options{Path: "/apis/x/v1/things", JSON: true, Clock: clock.Start()}, listed(cancel))
}

// listed ends a watch when the first list has.
type listed context.CancelFunc

func (listed) ListBegin(bool, string) {}
func (l listed) ListEnd() {
	if l != nil {
		l()
	}
}
func (listed) Event(watch.Event) {}

// keepOn follows until ctx ends, whatever is listed.
func (p *peer) keepOn(ctx context.Context, t *testing.T) {
	t.Helper()
	_ = watch.Follow(ctx, start(t, p.ServeHTTP), watch.Options{Path: "/apis/x/v1/things", JSON: true, Clock: clock.Start()}, listed(nil))
}

// TestWatchesThatEndAtOnce: each is opened after a longer pause, and so is each list of
// a version that is gone at once. With an event before its end it is opened at once, a
// few times.
func TestWatchesThatEndAtOnce(t *testing.T) {
	for name, answer := range map[string]func(int64, http.ResponseWriter, *http.Request){
		"nothing": func(int64, http.ResponseWriter, *http.Request) {},
		"an event": func(n int64, w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"%d"}}}`+"\n", 7+n)
		},
		"gone": func(_ int64, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
		"gone, as an event": func(_ int64, w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &peer{follow: answer}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			p.keepOn(ctx, t)
			most := int64(10) // after 0, 100, 300, 700, 1500 ms
			if name == "an event" {
				most = 16 // eleven, and then one a second
			}
			if n := p.watches.Load(); n > most {
				t.Errorf("%d watches and %d lists in 2 s", n, p.lists.Load())
			}
		})
	}
}

// TestRefusalsThatPass: what refuses for a moment is asked again.
func TestRefusalsThatPass(t *testing.T) {
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			p := &peer{list: func(n int64, w http.ResponseWriter, _ *http.Request) {
				if n <= 3 {
					w.WriteHeader(code)
					return
				}
				_, _ = io.WriteString(w, emptyList)
			}}
			if err := p.run(t, time.Minute); err != context.Canceled || p.lists.Load() != 4 { //nolint:errorlint // ctx's own
				t.Errorf("%v after %d lists", err, p.lists.Load())
			}
		})
	}
	t.Run("the watch's", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p := &peer{follow: func(n int64, w http.ResponseWriter, r *http.Request) {
			if n <= 3 {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.(http.Flusher).Flush()
			cancel()
			<-r.Context().Done()
		}}
		p.keepOn(ctx, t)
		if p.lists.Load() != 1 || p.watches.Load() != 4 {
			t.Errorf("%d lists and %d watches", p.lists.Load(), p.watches.Load())
		}
	})
}

// TestRetryAfterOfAList is heeded.
func TestRetryAfterOfAList(t *testing.T) {
	refused, asked := make(chan time.Time, 1), make(chan time.Time, 1)
	p := &peer{list: func(n int64, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			refused <- time.Now()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		asked <- time.Now()
		_, _ = io.WriteString(w, emptyList)
	}}
	_ = p.run(t, time.Minute)
	if d := (<-asked).Sub(<-refused); d < time.Second {
		t.Errorf("asked again after %v", d)
	}
}

// TestListsWithoutEnd end.
func TestListsWithoutEnd(t *testing.T) {
	p := &peer{list: func(_ int64, w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7","continue":"again"},"items":[]}`)
	}}
	err := p.run(t, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "the list does not end: page 2 leads to itself") {
		t.Errorf("err = %v", err)
	}
}

// TestPagesThatAreTooLarge are asked for again, smaller.
func TestPagesThatAreTooLarge(t *testing.T) {
	asked := make(chan string, 9)
	p := &peer{list: func(n int64, w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("limit")
		if n == 1 {
			piece := strings.Repeat(" ", 1<<20)
			for range 70 {
				_, _ = io.WriteString(w, piece)
			}
		}
		_, _ = io.WriteString(w, emptyList)
	}}
	err := p.run(t, time.Minute)
	if first, second := <-asked, <-asked; err != context.Canceled || first != "1000" || second != "125" || len(asked) > 0 { //nolint:errorlint // ctx's own
		t.Errorf("%v, pages of %s and %s", err, first, second)
	}
}
