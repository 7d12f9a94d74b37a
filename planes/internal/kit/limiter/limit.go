// Package limiter holds a client's rate limit that can be changed while it is in
// use, as KubeVirt's can: the two arms of an experiment need no restart.
//
// It is no queue and no fairness: callers are served as client-go's token
// bucket serves them.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/flowcontrol"
)

// Rate is a token bucket: QPS calls per second, Burst at once.
type Rate struct {
	QPS   float32
	Burst int
}

var errRate = errors.New("want QPS/BURST such as 5/10, both above 0")

// String returns QPS/BURST, such as 5/10.
func (r Rate) String() string {
	return strconv.FormatFloat(float64(r.QPS), 'g', -1, 32) + "/" + strconv.Itoa(r.Burst)
}

// Set reads QPS/BURST; it makes a Rate a flag.
func (r *Rate) Set(text string) error {
	qps, burst, ok := strings.Cut(text, "/")
	q, err := strconv.ParseFloat(qps, 32)
	b, err2 := strconv.Atoi(burst)
	got := Rate{QPS: float32(q), Burst: b}
	if !ok || err != nil || err2 != nil || got.Validate() != nil {
		return fmt.Errorf("rate limit %q: %w", text, errRate)
	}
	*r = got
	return nil
}

// Type says what the flag takes.
func (r *Rate) Type() string { return "QPS/BURST" }

// MarshalText and UnmarshalText write and read QPS/BURST.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads QPS/BURST.
func (r *Rate) UnmarshalText(b []byte) error { return r.Set(string(b)) }

// Validate says whether calls can pass at all.
func (r Rate) Validate() error {
	if !(r.QPS > 0) || r.Burst < 1 {
		return fmt.Errorf("rate limit %v: %w", r, errRate)
	}
	return nil
}

// Reloadable is a rate limiter whose rate can change. A call that waits when
// it changes waits by the old rate; each later one goes by the new.
type Reloadable struct {
	mu      sync.Mutex // of Change
	rate    atomic.Pointer[Rate]
	named   bool // each name has a bucket of its own
	current atomic.Pointer[buckets]
}

// buckets are the token buckets of a rate, by name; the empty name is that of calls without one.
type buckets struct {
	rate   Rate
	byName sync.Map // of flowcontrol.RateLimiter
}

var _ flowcontrol.RateLimiter = (*Reloadable)(nil)

// New returns a limiter with one bucket, which is full.
func New(r Rate) *Reloadable {
	l := &Reloadable{}
	l.Change(r)
	return l
}

// NewNamed returns a limiter with a bucket of the rate for each name, as each kind has
// one with a client of controller-runtime.
func NewNamed(r Rate) *Reloadable {
	l := &Reloadable{named: true}
	l.Change(r)
	return l
}

type nameKey struct{}

// Named returns a context whose calls take their tokens from the bucket of a name.
func Named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// Of returns the limiter of calls that have a name, whatever their context says.
func (l *Reloadable) Of(name string) flowcontrol.RateLimiter { return view{l, name} }

// view is a limiter whose calls have a name.
type view struct {
	*Reloadable
	name string
}

// Wait takes a token from the bucket of the name.
func (v view) Wait(ctx context.Context) error { return v.bucket(v.name).Wait(ctx) }

// Accept takes a token from the bucket of the name, however long that takes.
func (v view) Accept() { v.bucket(v.name).Accept() }

// TryAccept takes a token from the bucket of the name if there is one.
func (v view) TryAccept() bool { return v.bucket(v.name).TryAccept() }

// Change puts another rate in force and says whether it is another. The new
// bucket is full.
func (l *Reloadable) Change(r Rate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.rate.Load(); old != nil && *old == r {
		return false
	}
	l.current.Store(&buckets{rate: r})
	l.rate.Store(&r)
	return true
}

// Rate returns the rate in force.
func (l *Reloadable) Rate() Rate { return *l.rate.Load() }

// bucket returns the bucket of a name.
func (l *Reloadable) bucket(name string) flowcontrol.RateLimiter {
	if !l.named {
		name = ""
	}
	all := l.current.Load()
	b, ok := all.byName.Load(name)
	if !ok {
		b, _ = all.byName.LoadOrStore(name, flowcontrol.NewTokenBucketRateLimiter(all.rate.QPS, all.rate.Burst))
	}
	return b.(flowcontrol.RateLimiter)
}

// Wait takes a token, or returns the context's error.
func (l *Reloadable) Wait(ctx context.Context) error {
	name, _ := ctx.Value(nameKey{}).(string)
	return l.bucket(name).Wait(ctx)
}

// Accept takes a token, however long that takes.
func (l *Reloadable) Accept() { l.bucket("").Accept() }

// TryAccept takes a token if there is one.
func (l *Reloadable) TryAccept() bool { return l.bucket("").TryAccept() }

// Stop does nothing: there is nothing to stop.
func (l *Reloadable) Stop() {}

// QPS returns the calls per second in force.
func (l *Reloadable) QPS() float32 { return l.Rate().QPS }

// ServeHTTP tells the rate in force, or with PUT and a body of QPS/BURST puts
// another in force.
func (l *Reloadable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64))
		var rate Rate
		if err == nil {
			err = rate.Set(strings.TrimSpace(string(body)))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.Change(rate)
	}
	fmt.Fprintln(w, l.Rate())
}
