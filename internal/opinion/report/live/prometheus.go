package live

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// answer is the query API over one run.
type answer struct {
	mu      sync.Mutex
	handler http.Handler
	size    int64     // of the records that it knows
	next    time.Time // no sooner are they read again
	used    time.Time // guarded by the server's mu
}

// maxAnswers is how many runs' series are held at a time.
const maxAnswers = 4

// servePrometheus answers for the run that the path names, or for the newest.
func (s *Server) servePrometheus(w http.ResponseWriter, r *http.Request) {
	dir, ok := s.shelf.newestRun()
	if id := r.PathValue("id"); id != "" {
		if dir, ok = s.shelf.findRun(id); ok {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = strings.TrimPrefix(r.URL.Path, "/prometheus/"+id), ""
		}
	}
	if !ok {
		s.writeFault(w, http.StatusNotFound, errors.New("there is no such run (any more)"))
		return
	}
	s.serveQuery(w, r, dir)
}

func (s *Server) serveQuery(w http.ResponseWriter, r *http.Request, dir string) {
	s.mu.Lock()
	a := s.queries[dir]
	if a == nil {
		s.makeRoomLocked()
		a = &answer{}
		s.queries[dir] = a
	}
	a.used = s.now()
	s.mu.Unlock()
	handler, err := a.currentHandler(s, dir)
	if err != nil {
		s.writeFault(w, http.StatusUnprocessableEntity, err)
		return
	}
	handler.ServeHTTP(w, r)
}

// makeRoomLocked drops the series that nobody has asked for longest: a dashboard may
// go round over more runs than are held.
func (s *Server) makeRoomLocked() {
	for len(s.queries) >= maxAnswers {
		oldest := ""
		for dir, a := range s.queries {
			if oldest == "" || a.used.Before(s.queries[oldest].used) {
				oldest = dir
			}
		}
		delete(s.queries, oldest)
	}
}

// currentHandler returns the handler, over records that were read anew when there are
// more of them and the last reading is long enough ago.
func (a *answer) currentHandler(s *Server, dir string) (http.Handler, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	info, ok := record.Dir(dir).Stat(record.StreamFile)
	if !ok {
		return nil, errors.New("the run has no records")
	}
	now := s.now()
	if a.handler != nil && (a.size == info.Size() || now.Before(a.next)) {
		return a.handler, nil
	}
	begun := process.OwnCPU()
	handler, err := s.options.Query(dir)
	if err != nil {
		return nil, err
	}
	a.handler, a.size = handler, info.Size()
	a.next = now.Add(max(refresh, costShare*(process.OwnCPU()-begun)))
	return handler, nil
}
