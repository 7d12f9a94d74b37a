package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/record"
)

// What following a run may cost: a page is made again when something can be new
// in it, and so seldom that it takes at most a hundredth of a core.
const (
	refresh   = time.Second
	costShare = 100
	keepAlive = 15 * time.Second
)

// Limits of those who look.
const (
	maxFollowers = 100              // of runs, at a time
	maxIdle      = 8                // pages that are kept though nobody looks
	eventTime    = 30 * time.Second // that a follower may take for one event
	answerTime   = 5 * time.Minute  // that any other answer may take, the making included
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
	used   time.Time // guarded by the server's mu
}

// made is a page as it is sent, or why there is none.
type made struct {
	raw  []byte
	err  error
	live bool
	of   stamp
}

// stamp is what a page of a run that has ended depends on.
type stamp struct{ records, verdict fileStamp }

type fileStamp struct {
	size int64
	at   time.Time
}

func stampOf(dir string) (out stamp) {
	for name, into := range map[string]*fileStamp{record.StreamFile: &out.records, record.VerdictFile: &out.verdict} {
		if info, ok := record.Dir(dir).Stat(name); ok {
			*into = fileStamp{info.Size(), info.ModTime()}
		}
	}
	return out
}

// joinFeed returns the feed of a run; nil where too many follow already. Each other call
// is followed by one of part.
func (s *Server) joinFeed(dir string) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers >= maxFollowers {
		return nil
	}
	s.followers++
	f := s.feeds[dir]
	if f == nil {
		f = &feed{s: s, dir: dir}
		s.feeds[dir] = f
	}
	f.followers++
	return f
}

// partFromFeed lets go of the run when nobody looks at it any more.
func (s *Server) partFromFeed(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers--
	if f.followers--; f.followers > 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseLocked()
	if f.made == nil || f.made.live || f.made.err != nil {
		delete(s.feeds, f.dir)
		return
	}
	f.used = s.now()
	s.forgetLocked()
}

// forgetLocked drops the pages that nobody has looked at for longest.
func (s *Server) forgetLocked() {
	for {
		idle := 0
		var oldest *feed
		for _, f := range s.feeds {
			if f.followers > 0 {
				continue
			}
			if idle++; oldest == nil || f.used.Before(oldest.used) {
				oldest = f
			}
		}
		if idle <= maxIdle {
			return
		}
		delete(s.feeds, oldest.dir)
	}
}

func (s *Server) now() time.Time { return s.options.Clock.Wall(s.options.Clock.Now()) }

// latestPage returns the run's page: the one that there is, or a new one when that
// is due. What could not be made is not tried again any sooner either.
func (f *feed) latestPage() *made {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.s.now()
	if f.made != nil && now.Before(f.next) {
		return f.made
	}
	of := stampOf(f.dir)
	if m := f.made; m != nil && !m.live && m.err == nil && m.of == of {
		return m
	}
	begun := process.OwnCPU()
	page, live, err := f.buildLocked()
	f.made = &made{live: live, err: err, of: of}
	if err == nil {
		f.made.raw, f.made.err = json.Marshal(page)
	}
	f.next = now.Add(max(refresh, costShare*(process.OwnCPU()-begun)))
	return f.made
}

// buildLocked makes the page; callers hold mu.
func (f *feed) buildLocked() (page report.Page, live bool, err error) {
	if who, ok := Owner(f.dir); !ok || !who.Alive() {
		f.releaseLocked()
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
		f.releaseLocked() // it may be of no use any more: the next page opens the run anew
	}
	return page, true, err
}

// releaseLocked closes what is open of a run under way; callers hold mu.
func (f *feed) releaseLocked() {
	if f.source != nil {
		_ = f.source.Close() // it was only read
		f.source = nil
	}
}

// serveEvents follows a run until it ends, or until nobody listens.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	dir, ok := s.runOf(w, r)
	if !ok {
		return
	}
	f := s.joinFeed(dir)
	if f == nil {
		s.writeFault(w, http.StatusServiceUnavailable, errTooMany)
		return
	}
	defer s.partFromFeed(f)
	out := &stream{w: w, flush: http.NewResponseController(w), clock: s.options.Clock}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		m := f.latestPage()
		if m.err != nil && (out.page == nil || !m.live) {
			if out.page == nil {
				s.writeFault(w, http.StatusUnprocessableEntity, m.err)
			}
			return // who follows on asks again, and is told why
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case m.err != nil: // its last block may be half written
		case !m.live:
			_ = errors.Join(out.sendPage(m), out.sendEvent("end", []byte("{}")))
			return
		case out.sendPage(m) != nil:
			return
		}
		if out.sendStatus(dir) != nil || out.keepAlive() != nil {
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

func (s *stream) sendEvent(name string, data []byte) error {
	s.setDeadline()
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data); err != nil {
		return err
	}
	return s.flush.Flush()
}

// setDeadline gives the follower some time for what is sent next: one that does not read
// does not keep its page in memory for ever.
func (s *stream) setDeadline() {
	s.spoke = s.clock.Now()
	_ = s.flush.SetWriteDeadline(s.clock.Wall(s.spoke.Add(eventTime))) // not all connections have one
}

// sendPage sends a page unless it is the one that was sent last.
func (s *stream) sendPage(m *made) error {
	if s.page != nil && bytes.Equal(s.page, m.raw) {
		return nil
	}
	s.page = m.raw
	return s.sendEvent("page", m.raw)
}

// sendStatus sends where the run stands, which costs next to nothing: between two
// pages it is what shows that the run goes on.
func (s *stream) sendStatus(dir string) error {
	raw, err := record.Dir(dir).Read(record.StatusFile)
	var compact bytes.Buffer
	if err != nil || json.Compact(&compact, raw) != nil || bytes.Equal(compact.Bytes(), s.stand) {
		return nil
	}
	s.stand = compact.Bytes()
	return s.sendEvent("status", s.stand)
}

// keepAlive keeps an idle connection open.
func (s *stream) keepAlive() error {
	if s.clock.Now().Sub(s.spoke) < keepAlive {
		return nil
	}
	s.setDeadline()
	if _, err := fmt.Fprint(s.w, ": still there\n\n"); err != nil {
		return err
	}
	return s.flush.Flush()
}

// serveStop ends a run as Ctrl-C does.
func (s *Server) serveStop(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(stopHeader) == "" {
		s.writeFault(w, http.StatusForbidden, errors.New("only windtunnel's own page may stop a run"))
		return
	}
	dir, ok := s.runOf(w, r)
	if !ok {
		return
	}
	who, ok := Owner(dir)
	if !ok || !isWriting(who, dir) {
		s.writeFault(w, http.StatusConflict, errors.New("the run is not under way"))
		return
	}
	switch err := who.Interrupt(); {
	case errors.Is(err, process.ErrGone):
		s.writeFault(w, http.StatusConflict, errors.New("the run is not under way"))
	case err != nil:
		s.writeFault(w, http.StatusConflict, err)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// isWriting says whether a process has the records of a run open: a directory that
// somebody sent may name any process of the user.
func isWriting(who process.Identity, dir string) bool {
	records, ok := record.Dir(dir).Stat(record.StreamFile)
	if !ok {
		return false
	}
	open := fmt.Sprintf("/proc/%d/fd", who.PID)
	files, err := os.ReadDir(open)
	if err != nil {
		return false
	}
	for _, f := range files {
		if info, err := os.Stat(filepath.Join(open, f.Name())); err == nil && os.SameFile(records, info) {
			return true
		}
	}
	return false
}
