// Package wire sends requests to one API server over few HTTP/2 connections,
// with little CPU per request: callers hand over finished bodies and get a
// callback, so that no goroutine, no header map and no buffer is made for a
// request; requests that are sent together leave in one write.
//
// It is not a general HTTP client: it speaks HTTP/2 over TLS to one server,
// follows no redirects, keeps no cookies and has no rate limiter. It repeats a
// request only when the server says that it did not look at it (GOAWAY,
// REFUSED_STREAM).
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

var (
	// ErrTimeout says that a request's time ran out before its answer was complete.
	ErrTimeout = errors.New("no answer in time")
	// ErrNotSent says that a request never left: there was no connection for it.
	ErrNotSent = errors.New("not sent")
	// ErrLost says that the connection was lost after a request had left.
	ErrLost = errors.New("connection lost")
	// ErrSilent says, with ErrLost, that a connection brought nothing for too long.
	ErrSilent = errors.New("nothing heard")
	// ErrReset says, with ErrLost, that the server gave up a request and not its connection.
	ErrReset = errors.New("stream reset")
	// ErrNoStatus says that an answer ended without a final status.
	ErrNoStatus = errors.New("an answer without a status")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("client closed")
	// ErrTooLarge says that an answer was larger than MaxBody.
	ErrTooLarge = errors.New("answer too large")

	// errTurnedAway says that a server would not look at a request.
	errTurnedAway = errors.New("turned away unread too often")
)

// Limits and defaults.
const (
	DefaultTimeout = 30 * time.Second
	// MaxBody is how many bytes of an answer are accepted by Send and Do.
	MaxBody = 32 << 20
	// maxErrorBody is what Discard keeps of the body of a failed request.
	maxErrorBody = 4 << 10
	// sweepEvery is how late a request without an answer may be given up, and sweepRest how
	// often a client looks at itself while nothing happens: there may be thousands of them.
	// An answer counts by the time at which it came.
	sweepEvery = 50 * time.Millisecond
	sweepRest  = time.Second
	// silence is how long a connection with requests on it may bring nothing
	// before it is taken for dead.
	silence     = 60 * time.Second
	redialAfter = 200 * time.Millisecond
	lastRedial  = 5 * time.Second
	// streamBegins is how long the answer of a Stream may take to begin.
	streamBegins = time.Minute
	// maxTurned is how often a request may be turned away unread.
	maxTurned = 5
)

// Request is one request. The client reads it until the callback is called; it
// must not be changed before.
type Request struct {
	Method      string
	Path        string // with query, beginning with /
	ContentType string // of Body; empty without one
	Accept      string // empty: application/json
	Body        []byte
	Impersonate string        // user to act as; empty: as oneself
	Groups      []string      // of that user
	UserAgent   string        // empty: the client's
	Timeout     time.Duration // 0: DefaultTimeout
	Discard     bool          // the body of a successful answer is counted, not kept

	// Data, when set, gets the body of a successful answer as it comes, in
	// pieces of any size that are valid during the call; nothing of it is kept.
	// It must be quick, and is never called together with or after done.
	Data func([]byte)
	// Read, when set beside Data, has the body of a successful answer read as a slow program
	// reads it: Read is asked how many of the bytes that wait are read now, and when to ask
	// again. Data gets them then, and the server may send as many more: no more than the
	// window of a stream waits. The end of the answer comes when all before it has been read.
	// Read must not use the client.
	Read func(now clock.Time, waiting int) (n int, next clock.Time)
	// Hold, above 0, is of a watch: when its answer has begun, it is held open
	// for so long and then closed, which is no error. Timeout bounds the time
	// until it begins.
	Hold time.Duration
	// Opened is told that such an answer has begun. Its rules are Data's.
	Opened func(*Response)
}

// Response is an answer, or the reason why there is none.
type Response struct {
	Code          int           // 0 when there was no answer
	Body          []byte        // valid only during the callback of Send
	RetryAfter    time.Duration // at most a minute, whatever the server says
	SentBytes     int
	ReceivedBytes int        // of the body, kept or not
	Sent          clock.Time // when it was written to a connection; 0 when it never was
	Done          clock.Time // when the answer was complete or given up
	Err           error      // ErrTimeout, ErrNotSent, ErrLost, ErrClosed, ErrTooLarge, ErrNoStatus, wrapped
}

// Refusal is an answer that is not what was asked for, as an error.
func (r *Response) Refusal() *StatusError {
	return &StatusError{Code: r.Code, Body: slices.Clone(r.Body[:min(len(r.Body), maxErrorBody)]), RetryAfter: r.RetryAfter}
}

// Options configure a client.
type Options struct {
	Connections int    // that requests are spread over, default 1
	Most        int    // when those are full, so many in all; default Connections
	UserAgent   string // default "windtunnel"
	Clock       clock.Clock
}

// Client sends requests to one API server. Close it after use.
type Client struct {
	endpoint endpoint.Endpoint
	options  Options
	address  string // host:port
	host     string // the :authority
	prefix   string // path before /api of servers behind a proxy
	tls      *tls.Config
	others   []tls.Certificate
	readSize int // of each connection

	mu      sync.Mutex
	conns   []*conn            // one place per connection; nil while there is none
	all     map[*conn]struct{} // those in a place, those that drain, those of watches
	dialing []bool
	futile  []int // by place: connections in a row that brought no answer
	queue   fifo
	closed  bool
	wait    guard.Group
	cancel  context.CancelFunc
	ctx     context.Context
	auth    string
	actsAs  []hpack.HeaderField // the kubeconfig's own impersonation
	slow    map[*stream]*conn   // those with Read to whom something came
	renew   chan struct{}       // the server refused the credentials

	sweepAt clock.Time    // when the next sweep is due
	stirred bool          // since the last one something began
	sooner  chan struct{} // the next one is to come now
}

// New returns a client. It dials when the first request is sent.
func New(ep endpoint.Endpoint, o Options) (*Client, error) {
	if o.Connections <= 0 {
		o.Connections = 1
	}
	o.Most = max(o.Most, o.Connections)
	if o.UserAgent == "" {
		o.UserAgent = "windtunnel"
	}
	config, err := ep.TLS()
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(ep.Server())
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("address of the API server: %q is not a URL such as https://host:6443", ep.Server())
	}
	if base.Scheme != "https" {
		return nil, fmt.Errorf("address of the API server: %q is not https", ep.Server())
	}
	address := base.Host
	if base.Port() == "" {
		address = net.JoinHostPort(base.Hostname(), "443")
	}
	if config.ServerName == "" {
		config.ServerName = base.Hostname()
	}
	others, err := ep.Others()
	if err != nil {
		return nil, err
	}
	config.DynamicRecordSizingDisabled = true // large writes, large records
	c := &Client{
		endpoint: ep, options: o, address: address, host: base.Host, tls: config, others: others,
		prefix: trimSlash(base.Path), readSize: readSize,
		conns: make([]*conn, o.Most), dialing: make([]bool, o.Most), futile: make([]int, o.Most),
	}
	if c.auth, err = ep.Authorization(); err != nil {
		return nil, err
	}
	header, err := ep.Impersonation()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			c.actsAs = append(c.actsAs, hpack.HeaderField{Name: strings.ToLower(name), Value: value})
		}
	}
	c.start()
	return c, nil
}

// Another returns a client like this one, with connections of its own. It shares what
// does not change, such as certificates, and reads little at once: clients by the thousand
// are made from one.
func (c *Client) Another() *Client {
	out := c.another()
	out.start()
	return out
}

// AnotherAs is Another for whom a client certificate names.
func (c *Client) AnotherAs(certificate tls.Certificate) *Client {
	out := c.another()
	out.tls = c.tls.Clone()
	out.tls.Certificates = []tls.Certificate{certificate}
	out.tls.GetClientCertificate = nil
	out.others, out.auth, out.actsAs = nil, "", nil
	out.start()
	return out
}

func (c *Client) another() *Client {
	n := len(c.conns)
	c.mu.Lock()
	auth := c.auth
	c.mu.Unlock()
	return &Client{
		endpoint: c.endpoint, options: c.options, address: c.address, host: c.host, tls: c.tls, others: c.others, prefix: c.prefix, readSize: smallRead,
		conns: make([]*conn, n), dialing: make([]bool, n), futile: make([]int, n), auth: auth, actsAs: c.actsAs,
	}
}

// start makes what a client does not share, and starts its loops.
func (c *Client) start() {
	c.all, c.renew, c.sooner = map[*conn]struct{}{}, make(chan struct{}, 1), make(chan struct{}, 1)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wait.Add(1)
	guard.Go(c.sweepLoop)
	if c.endpoint.Renewable() {
		c.wait.Add(1)
		guard.Go(c.renewLoop)
	}
}

func trimSlash(s string) string {
	for len(s) > 0 && s[len(s)-1] == '/' {
		s = s[:len(s)-1]
	}
	return s
}

// Send sends a request and returns at once. done is called exactly once, from a
// goroutine of the client: it must be quick, must not block, and must copy what
// it keeps of the body. It may call Send and Post.
func (c *Client) Send(req *Request, done func(*Response)) {
	if k := c.post(req, done); k != nil {
		k.wake()
	}
}

// Post is Send for a caller who has more to send: the request leaves with the
// next Flush, or earlier. What a callback posts leaves without it.
func (c *Client) Post(req *Request, done func(*Response)) { c.post(req, done) }

// Flush writes what was posted, in this goroutine: it blocks while the network
// takes no more.
func (c *Client) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.conns {
		if k != nil {
			k.flushLocked()
		}
	}
}

// post puts a request into a connection's buffer, or in the queue; nil then.
func (c *Client) post(req *Request, done func(*Response)) *conn {
	timeout := req.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	s := newStream(req, done)
	now := c.options.Clock.Now()
	s.deadline = now.Add(timeout)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.finish(s, ErrClosed)
		return nil
	}
	defer c.mu.Unlock()
	c.wakeSweeperLocked(now)
	k := c.pickConnLocked()
	if k == nil {
		c.queue.push(s)
		c.dialMoreLocked()
		return nil
	}
	k.openStreamLocked(s)
	return k
}

// Do sends a request and waits for its answer, or for the end of ctx. The
// answer's body belongs to the caller. The error is the answer's Err.
func (c *Client) Do(ctx context.Context, req *Request) (*Response, error) {
	answer := make(chan Response, 1)
	c.Send(req, func(r *Response) {
		out := *r
		out.Body = append([]byte(nil), r.Body...)
		answer <- out
	})
	select {
	case r := <-answer:
		return &r, r.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.Path, ctx.Err())
	}
}

// InFlight returns how many requests are with the server or queued for it.
func (c *Client) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.queue.len()
	for k := range c.all {
		n += len(k.streams)
	}
	for s := range c.slow {
		if s.over {
			n++
		}
	}
	return n
}

// Close ends all requests with ErrClosed, closes the connections and waits for
// the client's goroutines. It is idempotent.
func (c *Client) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.cancel()
		for k := range c.all {
			k.breakLocked(ErrClosed)
		}
	}
	queued := c.queue.takeAll()
	c.mu.Unlock()
	for _, s := range queued {
		c.finish(s, ErrClosed)
	}
	c.wait.Wait()
	c.mu.Lock()
	slow := c.slow
	c.slow = nil
	c.mu.Unlock()
	for s := range slow {
		c.finish(s, ErrClosed)
	}
	return nil
}

// finish calls the callback of a request that got no answer; mu is not held.
func (c *Client) finish(s *stream, err error) {
	s.response.Err = err
	s.response.Done = c.options.Clock.Now()
	s.done(&s.response)
	s.free()
}

// wakeSweeperLocked ends the rest of sweeps: something began that may want one soon. Callers hold mu.
func (c *Client) wakeSweeperLocked(now clock.Time) {
	if c.stirred = true; c.sweepAt.Sub(now) <= sweepEvery {
		return
	}
	c.sweepAt = now
	select {
	case c.sooner <- struct{}{}:
	default:
	}
}

func (c *Client) sweepLoop() {
	defer c.wait.Done()
	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		case <-c.sooner:
		}
		timer.Reset(c.sweep())
	}
}

// sweep ends what is past its deadline, and connections that fell silent. It returns
// when the next one is due.
func (c *Client) sweep() time.Duration {
	now := c.options.Clock.Now()
	c.mu.Lock()
	late := c.queue.takeLate(now)
	next := now.Add(sweepRest)
	for k := range c.all {
		if len(k.streams) > 0 && now.Sub(k.heard) > silence {
			k.breakLocked(fmt.Errorf("%w: %w for %v", ErrLost, ErrSilent, silence))
			continue
		}
		if len(k.streams) > 0 {
			k.probeLocked(now) // a watch may be silent for as long as nothing happens
		}
		gone, first := k.takeLateLocked(now)
		late, next = append(late, gone...), min(next, first)
	}
	read, first := c.readSlowlyLocked(now)
	next = min(next, first)
	c.drainQueueLocked()
	if c.stirred || c.queue.len() > 0 {
		next = now
	}
	c.sweepAt, c.stirred = max(next, now.Add(sweepEvery)), false
	wait := c.sweepAt.Sub(now)
	c.mu.Unlock()
	for _, s := range read {
		c.finish(s, s.end)
	}
	for _, s := range late {
		switch {
		case s.opened:
			c.finish(s, nil)
		case s.response.Sent == 0:
			c.finish(s, fmt.Errorf("%w: %w", ErrNotSent, ErrTimeout))
		default:
			c.finish(s, ErrTimeout)
		}
	}
	c.Flush()
	return wait
}
