// Package agree is the check that two sides of a plane have the same: that edges have
// what the API server has, that members have what their hub has. A plane compares; the
// check counts the differences, names them in logs and answers for them by HTTP, in one
// form for all planes.
//
// It knows no kind of object, and not what has to be the same.
package agree

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Path is where a process answers for its check, beside its metrics.
const Path = "/differences"

// Difference is one object that two sides do not have alike.
type Difference struct {
	How    string   `json:"how"`             // such as missing, stale or extra: a word of the plane
	Kind   string   `json:"kind,omitempty"`  // such as pod
	Object string   `json:"object"`          // NAMESPACE/NAME or NAME; its UID where no name is known
	Where  []string `json:"where,omitempty"` // the members or the edge that have it otherwise
}

// String returns the difference as one line.
func (d Difference) String() string {
	return strings.Join(strings.Fields(strings.Join(d.Where, ",")+" "+d.Kind+" "+d.Object+" "+d.How), " ")
}

// Check compares two sides whenever it is asked.
type Check struct {
	clock   clock.Clock
	compare func() []Difference

	mu     sync.Mutex
	at     clock.Time
	latest []Difference
}

// New returns a check of what compare finds. compare may be called from many goroutines.
func New(c clock.Clock, compare func() []Difference) *Check {
	return &Check{clock: c, compare: compare}
}

// Compare compares now, and returns the differences sorted.
func (c *Check) Compare() []Difference {
	all := c.compare()
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.How, b.How), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Object, b.Object), slices.Compare(a.Where, b.Where))
	})
	return all
}

// Count returns the number of differences of now or of at most maxAge ago: a comparison of
// a large plane takes long, and metrics are asked for each second.
func (c *Check) Count(maxAge time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); c.at == 0 || now.Sub(c.at) > maxAge {
		c.latest, c.at = c.Compare(), now
	}
	return len(c.latest)
}

// maxShown bounds how many differences an answer names, maxLogged how many the log.
const (
	maxShown  = 1000
	maxLogged = 20
)

// Answer is what a check answers by HTTP.
type Answer struct {
	Count int          `json:"count"`
	First []Difference `json:"first"` // at most 1,000
}

// ServeHTTP compares, and answers with an Answer as JSON.
func (c *Check) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	all := c.Compare()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Answer{len(all), all[:min(len(all), maxShown)]}) // a client that has left misses nothing
}

// Log compares, and writes a warning for each of the first 20 differences.
func (c *Check) Log(log *slog.Logger) {
	all := c.Compare()
	for _, d := range all[:min(len(all), maxLogged)] {
		log.Warn("both sides do not have the same", "how", d.How, "kind", d.Kind, "object", d.Object, "where", d.Where)
	}
	if len(all) > maxLogged {
		log.Warn("more differences", "objects", len(all)-maxLogged)
	}
}
