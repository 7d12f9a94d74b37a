// Package live serves the live page: the runs on disk, one that is under
// way, two beside each other, and Prometheus' query API over each of them. What
// it answers is written down in web/src/live.ts.
//
// It flies nothing and judges nothing: who makes it says how a run directory
// becomes a page. It reads the run directory of a run under way, which another
// process writes, and steers nothing but its end. It listens nowhere: the verb
// serve puts its handler behind an address.
package live

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
)

// Source makes the pages of a run under way, each of what there is until then.
type Source interface {
	Page() (report.Page, error)
	Close() error
}

// Options configure a Server. All but Token and Log are needed.
type Options struct {
	Roots   []string                                 // run directories, and folders that have some in them
	Build   func(dir string) (report.Page, error)    // makes the page of a run that has ended
	Watch   func(dir string) (Source, error)         // opens a run under way
	Compare func(a, b []string) (report.Page, error) // makes the page of a comparison of run directories
	Query   func(dir string) (http.Handler, error)   // Prometheus' query API over what a run has so far
	Token   string                                   // who calls must know it; empty: loopback callers only, who need none
	Clock   clock.Clock
	Log     *slog.Logger
}

// Server answers for the live page. Close it after use.
type Server struct {
	options Options
	shelf   *shelf
	mux     *http.ServeMux

	mu        sync.Mutex
	feeds     map[string]*feed   // by run directory
	followers int                // of all feeds
	queries   map[string]*answer // by run directory
	comparing chan struct{}      // a place for each comparison under way
	closing   chan struct{}
	once      sync.Once
}

// New returns a server; it begins no work before somebody asks.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		options: o, shelf: newShelf(o.Roots, o.Clock), mux: http.NewServeMux(),
		feeds: map[string]*feed{}, queries: map[string]*answer{}, comparing: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	s.mux.HandleFunc("GET /{$}", s.serveShell)
	s.mux.HandleFunc("GET /api/runs", s.serveList)
	s.mux.HandleFunc("GET /api/runs/{id}/page", s.servePage)
	s.mux.HandleFunc("GET /api/runs/{id}/events", s.serveEvents)
	s.mux.HandleFunc("POST /api/runs/{id}/stop", s.serveStop)
	s.mux.HandleFunc("GET /api/compare", s.serveComparison)
	s.mux.HandleFunc("/prometheus/{id}/", s.servePrometheus)
	s.mux.HandleFunc("/api/v1/", s.servePrometheus) // of the newest run
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Frame-Options", "DENY")
	// A deadline is what not all connections have.
	_ = http.NewResponseController(w).SetWriteDeadline(s.now().Add(answerTime))
	if s.admitRequest(w, r) {
		s.mux.ServeHTTP(w, r)
	}
}

// Close ends what followers wait for. It is idempotent.
func (s *Server) Close() { s.once.Do(func() { close(s.closing) }) }

func (s *Server) serveShell(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := report.Shell(w); err != nil {
		s.options.Log.Error("the page could not be written", slog.Any("error", err))
	}
}

func (s *Server) serveList(w http.ResponseWriter, _ *http.Request) {
	runs, err := s.shelf.listRuns()
	if err != nil {
		s.writeFault(w, http.StatusInternalServerError, err)
		return
	}
	s.writeJSON(w, map[string]any{"runs": runs})
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
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
	m := f.latestPage()
	if m.err != nil {
		s.writeFault(w, http.StatusUnprocessableEntity, m.err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(m.raw)
}

// runOf returns the directory of the run that a request names. Only what the
// shelf found is served: no path is made of what somebody sent.
func (s *Server) runOf(w http.ResponseWriter, r *http.Request) (dir string, ok bool) {
	if dir, ok = s.shelf.findRun(r.PathValue("id")); !ok {
		s.writeFault(w, http.StatusNotFound, errors.New("there is no such run (any more)"))
	}
	return dir, ok
}

func (s *Server) serveComparison(w http.ResponseWriter, r *http.Request) {
	sides := [2][]string{}
	for i, name := range []string{"a", "b"} {
		for _, id := range r.URL.Query()[name] {
			dir, ok := s.shelf.findRun(id)
			if !ok {
				s.writeFault(w, http.StatusNotFound, errors.New("one of the runs is not there (any more)"))
				return
			}
			sides[i] = append(sides[i], dir)
		}
	}
	if len(sides[0]) == 0 || len(sides[1]) == 0 || len(sides[0])+len(sides[1]) > maxCompared {
		s.writeFault(w, http.StatusBadRequest, errors.New("a comparison needs a run for a and one for b, and takes 40 at most"))
		return
	}
	select {
	case s.comparing <- struct{}{}:
		defer func() { <-s.comparing }()
	case <-r.Context().Done():
		return
	}
	page, err := s.options.Compare(sides[0], sides[1])
	if err != nil {
		s.writeFault(w, http.StatusUnprocessableEntity, err)
		return
	}
	s.writeJSON(w, page)
}

// maxCompared is how many runs are compared in one request.
const maxCompared = 40

var errTooMany = errors.New("too many pages are open already")

func (s *Server) writeJSON(w http.ResponseWriter, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		s.writeFault(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw)
}

// writeFault answers with a reason in a sentence.
func (s *Server) writeFault(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	raw, _ := json.Marshal(map[string]string{"error": err.Error()}) // of texts: cannot fail
	_, _ = w.Write(raw)
}
