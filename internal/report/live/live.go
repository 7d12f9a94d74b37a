package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/plane/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/report"
)

// What following a run may cost: a page is made again when something can be new
// in it, and so seldom that it takes at most a hundredth of a core.
const (
	refresh   = time.Second
	costShare = 100
	keepAlive = 15 * time.Second
)

// feed makes the pages of one run for all who look at it.
type feed struct {
	s         *Server
	dir       string
	followers int // guarded by the server's mu

	mu     sync.Mutex
	source Source // of a run under way
	made   *made
	next   time.Time // no sooner is a page made again, or tried to
}

// made is a page as it is sent, or why there is none.
type made struct {
	raw  []byte
	err  error
	live bool
}

// join returns the feed of a run. Each call is followed by one of part.
func (s *Server) join(dir string) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[dir]
	if f == nil {
		f = &feed{s: s, dir: dir}
		s.feeds[dir] = f
	}
	f.followers++
	return f
}

// part lets go of the run when nobody looks at it any more.
func (s *Server) part(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.followers--; f.followers > 0 {
		return
	}
	delete(s.feeds, f.dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
}

// latest returns the run's page: the one that there is, or a new one when that
// is due. What could not be made is not tried again any sooner either.
func (f *feed) latest() *made {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.s.options.Clock.Wall(f.s.options.Clock.Now())
	if f.made != nil && now.Before(f.next) {
		return f.made
	}
	begun := process.OwnCPU()
	page, live, err := f.build()
	f.made = &made{live: live, err: err}
	if err == nil {
		f.made.raw, f.made.err = json.Marshal(page)
	}
	f.next = now.Add(max(refresh, costShare*(process.OwnCPU()-begun)))
	return f.made
}

// build makes the page; callers hold mu.
func (f *feed) build() (page report.Page, live bool, err error) {
	if who, ok := Owner(f.dir); !ok || !who.Alive() {
		f.release()
		page, err = f.s.options.Build(f.dir)
		return page, false, err
	}
	if f.source == nil {
		source, err := f.s.options.Watch(f.dir)
		if err != nil {
			return page, true, err
		}
		f.source = source
	}
	if page, err = f.source.Page(); err != nil {
		f.release() // it may be of no use any more: the next page opens the run anew
	}
	return page, true, err
}

// release closes what is open of a run under way; callers hold mu.
func (f *feed) release() {
	if f.source != nil {
		_ = f.source.Close() // it was only read
		f.source = nil
	}
}

// events follows a run until it ends, or until nobody listens.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	dir, ok := s.run(w, r)
	if !ok {
		return
	}
	f := s.join(dir)
	defer s.part(f)
	out := &stream{w: w, flush: http.NewResponseController(w), clock: s.options.Clock}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		m := f.latest()
		if m.err != nil && (out.page == nil || !m.live) {
			if out.page == nil {
				s.fault(w, http.StatusUnprocessableEntity, m.err)
			}
			return // who follows on asks again, and is told why
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case m.err != nil: // its last block may be half written
		case !m.live:
			_ = errors.Join(out.show(m), out.event("end", []byte("{}")))
			return
		case out.show(m) != nil:
			return
		}
		if out.status(dir) != nil || out.alive() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
}

// stream is the events for one follower.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	clock clock.Clock
	page  []byte // sent last
	stand []byte // the status that was sent last
	spoke clock.Time
}

func (s *stream) event(name string, data []byte) error {
	s.spoke = s.clock.Now()
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data); err != nil {
		return err
	}
	return s.flush.Flush()
}

// show sends a page unless it is the one that was sent last.
func (s *stream) show(m *made) error {
	if s.page != nil && bytes.Equal(s.page, m.raw) {
		return nil
	}
	s.page = m.raw
	return s.event("page", m.raw)
}

// status sends where the run stands, which costs next to nothing: between two
// pages it is what shows that the run goes on.
func (s *stream) status(dir string) error {
	raw, err := os.ReadFile(record.Dir(dir).File(record.StatusFile))
	var compact bytes.Buffer
	if err != nil || json.Compact(&compact, raw) != nil || bytes.Equal(compact.Bytes(), s.stand) {
		return nil
	}
	s.stand = compact.Bytes()
	return s.event("status", s.stand)
}

// alive keeps an idle connection open.
func (s *stream) alive() error {
	if s.clock.Now().Sub(s.spoke) < keepAlive {
		return nil
	}
	s.spoke = s.clock.Now()
	if _, err := fmt.Fprint(s.w, ": still there\n\n"); err != nil {
		return err
	}
	return s.flush.Flush()
}

// stop ends a run as Ctrl-C does.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	if !ownOrigin(r) {
		s.fault(w, http.StatusForbidden, errors.New("only windtunnel's own page may stop a run"))
		return
	}
	dir, ok := s.run(w, r)
	if !ok {
		return
	}
	who, ok := Owner(dir)
	if !ok {
		s.fault(w, http.StatusConflict, errors.New("the run is not under way"))
		return
	}
	switch err := who.Interrupt(); {
	case errors.Is(err, process.ErrGone):
		s.fault(w, http.StatusConflict, errors.New("the run is not under way"))
	case err != nil:
		s.fault(w, http.StatusConflict, err)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}
