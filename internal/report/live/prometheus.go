package live

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/plane/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// answer is the query API over one run.
type answer struct {
	mu      sync.Mutex
	handler http.Handler
	size    int64     // of the records that it knows
	next    time.Time // no sooner are they read again
}

// maxAnswers is how many runs' series are held at a time.
const maxAnswers = 4

// prometheus answers for the run that the path names, or for the newest.
func (s *Server) prometheus(w http.ResponseWriter, r *http.Request) {
	dir, ok := s.shelf.newest()
	if id := r.PathValue("id"); id != "" {
		if dir, ok = s.shelf.find(id); ok {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = strings.TrimPrefix(r.URL.Path, "/prometheus/"+id), ""
		}
	}
	if !ok {
		s.fault(w, http.StatusNotFound, errors.New("there is no such run (any more)"))
		return
	}
	s.query(w, r, dir)
}

func (s *Server) query(w http.ResponseWriter, r *http.Request, dir string) {
	s.mu.Lock()
	a := s.queries[dir]
	if a == nil {
		if len(s.queries) >= maxAnswers {
			clear(s.queries)
		}
		a = &answer{}
		s.queries[dir] = a
	}
	s.mu.Unlock()
	handler, err := a.current(s, dir)
	if err != nil {
		s.fault(w, http.StatusUnprocessableEntity, err)
		return
	}
	handler.ServeHTTP(w, r)
}

// current returns the handler, over records that were read anew when there are
// more of them and the last reading is long enough ago.
func (a *answer) current(s *Server, dir string) (http.Handler, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	info, err := os.Stat(record.Dir(dir).File(record.StreamFile))
	if err != nil {
		return nil, err
	}
	clock := s.options.Clock
	now := clock.Wall(clock.Now())
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
