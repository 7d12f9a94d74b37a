package protocol

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Options configure a leader.
type Options struct {
	Workers   int
	Clock     clock.Clock // of the run
	Folder    string      // that keeps the workers' streams; it must exist
	Plan      []byte      // what each worker is given when it joins
	Binary    string      // what Binary says of the program that workers must be; empty: any
	Listen    string      // address; default a free port of this machine's loopback
	Hosts     []string    // names and addresses that workers reach the leader by, for its certificate; default the loopback
	LostAfter time.Duration
	// Clocks, when set, is told how each worker's clock stood when a part of the load
	// began, and every so often while it goes on. Lost is told once of each worker that
	// is lost. Both are called from several goroutines.
	Clocks func(worker int, at clock.Time, c Clock)
	Lost   func(worker int, why error)
	// Progress, when set, is told where a worker stands, each time after the one before.
	Progress func(worker int, body json.RawMessage)
}

// Access is all that one worker needs to find its leader. It holds a secret.
type Access struct {
	URL   string `json:"url"`
	CA    []byte `json:"ca"`    // PEM
	Token string `json:"token"` // lets a process join as that worker alone
}

// Leader leads workers. Close it after use.
type Leader struct {
	options Options
	access  Access   // without a token
	tokens  []string // by worker
	server  *http.Server
	served  chan struct{}

	mu          sync.Mutex
	workers     []*workerState
	messages    []message
	begun       bool          // a part was started: nobody may join any more
	parts       map[int]bool  // the numbers of those whose outcomes are still to be taken
	changed     chan struct{} // closed, and made again, when a worker has said something, or is lost
	messageSent chan struct{} // likewise, when there is a message
	ended       bool
}

// workerState is one worker as the leader sees it; the leader's mu guards it.
type workerState struct {
	index     int
	joined    bool
	secret    string // of the process that joined
	token     string
	settled   bool // it has the token, and shows it: nobody may join in its place any more
	heard     clock.Time
	lost      error // nil: it is there
	left      bool  // it has ended by itself
	spool     *spool
	clockSent clock.Time // when its clock was told last
	reports   map[reportKey]report
	trip      time.Duration
}

type reportKey struct {
	of   int
	what string
}

// Lead starts a leader.
func Lead(o Options) (*Leader, error) {
	if o.LostAfter <= 0 {
		o.LostAfter = DefaultLostAfter
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"127.0.0.1", "localhost"}
	}
	l := &Leader{options: o, changed: make(chan struct{}), messageSent: make(chan struct{}), served: make(chan struct{}), parts: map[int]bool{}}
	for i := range o.Workers {
		k, err := createSpool(filepath.Join(o.Folder, filepath.Base(record.WorkerFile(i))))
		if err != nil {
			return nil, errors.Join(err, l.closeSpools())
		}
		l.workers = append(l.workers, &workerState{index: i, spool: k, reports: map[reportKey]report{}})
	}
	if err := l.startServer(); err != nil {
		return nil, errors.Join(err, l.closeSpools())
	}
	return l, nil
}

// startServer begins to listen, with a certificate of an authority that is made for it.
func (l *Leader) startServer() error {
	now := l.options.Clock.Wall(l.options.Clock.Now())
	ca, err := pki.NewAuthority("windtunnel-workers", now)
	if err != nil {
		return err
	}
	subject := pki.Subject{Name: "windtunnel-leader"}
	for _, host := range l.options.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			subject.IPs = append(subject.IPs, ip)
		} else {
			subject.DNS = append(subject.DNS, host)
		}
	}
	pair, err := ca.Issue(subject, now)
	if err != nil {
		return err
	}
	config, err := serverTLS(pair)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", l.options.Listen)
	if err != nil {
		return fmt.Errorf("listen for workers: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	l.access = Access{URL: "https://" + net.JoinHostPort(l.options.Hosts[0], port), CA: ca.PEM()}
	for range l.workers {
		l.tokens = append(l.tokens, rand.Text())
	}
	l.server = &http.Server{
		Handler: guard.Handler(l.newHandler()), TLSConfig: config, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // of connections that broke: the worker asks again
	}
	guard.Go(func() {
		defer close(l.served)
		_ = l.server.ServeTLS(listener, "", "") // until Close
	})
	return nil
}

// Access returns what one worker needs to find the leader: it cannot join as another.
func (l *Leader) Access(worker int) Access {
	a := l.access
	a.Token = l.tokens[worker]
	return a
}

// File returns the path of a worker's stream.
func (l *Leader) File(worker int) string { return l.workers[worker].spool.path }

// changeLocked wakes the leader where it waits for its workers.
func (l *Leader) changeLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// waitUntil waits until a condition holds; it is asked with mu held, now and after every
// change, and often enough to see who has fallen silent. While the leader itself stands
// still, such as on a machine that sleeps, it hears nobody: that is nobody's silence.
func (l *Leader) waitUntil(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(l.options.LostAfter / 10)
	defer tick.Stop()
	looked := l.options.Clock.Now()
	for {
		l.mu.Lock()
		now := l.options.Clock.Now()
		if stood := now.Sub(looked); stood > l.options.LostAfter/2 {
			l.excuseLocked(stood, now)
		}
		looked = now
		l.findLostLocked()
		yes, changed := holds(), l.changed
		l.mu.Unlock()
		if yes {
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// findLostLocked takes those for lost who have said nothing for too long.
func (l *Leader) findLostLocked() {
	now := l.options.Clock.Now()
	for _, m := range l.workers {
		if m.joined && m.lost == nil && !m.left && now.Sub(m.heard) > l.options.LostAfter {
			l.loseLocked(m, fmt.Errorf("%w: it has said nothing for %v", ErrLost, l.options.LostAfter))
		}
	}
}

// excuseLocked takes a time in which nobody could be heard for none.
func (l *Leader) excuseLocked(stood time.Duration, now clock.Time) {
	for _, m := range l.workers {
		m.heard = min(m.heard.Add(stood), now)
	}
}

func (l *Leader) loseLocked(m *workerState, why error) {
	if m.lost != nil || m.left {
		return
	}
	m.lost = why
	l.changeLocked()
	if l.options.Lost != nil {
		guard.Go(func() { l.options.Lost(m.index, why) })
	}
}

// Lose takes a worker for lost, of which somebody knows that it has died.
func (l *Leader) Lose(worker int, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loseLocked(l.workers[worker], fmt.Errorf("%w: %w", ErrLost, why))
}

// Joined waits until every worker has joined; the error names one that is lost before.
func (l *Leader) Joined(ctx context.Context) error {
	var missing []int
	var failed error
	err := l.waitUntil(ctx, func() bool {
		missing, failed = nil, nil
		for _, m := range l.workers {
			switch {
			case m.lost != nil:
				failed = fmt.Errorf("worker %d: %w", m.index, m.lost)
			case !m.joined:
				missing = append(missing, m.index)
			}
		}
		return failed != nil || len(missing) == 0
	})
	if err != nil && len(missing) > 0 {
		err = fmt.Errorf("%d of %d workers have not come, the first is worker %d: %w", len(missing), l.options.Workers, missing[0], err)
	}
	return errors.Join(err, failed)
}

// Outcome is what became of a part of the load at one worker.
type Outcome struct {
	Ready, Ended json.RawMessage // what the worker said; nil where it was lost before
	Clock        Clock           // when it was ready
	Err          error           // wraps ErrLost where it was lost; else why it could not do its part
}

// Do has the workers of a group that are there do a part of the load: they prepare it,
// check has a look at what each says that it has prepared, they begin at the same time,
// and end. The outcomes are by worker, from the group's first on. An error says that the
// part was not begun, or was stopped because ctx ended: then calls under way have ended,
// too.
func (l *Leader) Do(ctx context.Context, who Group, body any, check func(worker int, prepared json.RawMessage) error) ([]Outcome, clock.Time, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, 0, fmt.Errorf("tell the workers: %w", err)
	}
	l.mu.Lock()
	l.begun = true
	of := l.sendLocked(message{What: prepare, To: who, Body: raw})
	l.parts[of] = true
	l.mu.Unlock()
	if err := l.waitUntil(ctx, func() bool { return l.allReportedLocked(who, of, ready) }); err != nil {
		return l.stopPart(who, of, err)
	}
	if err := l.checkReady(of, check); err != nil {
		return l.stopPart(who, of, err)
	}
	l.mu.Lock()
	at := l.options.Clock.Now().Add(lead + leadTrips*l.longestTripLocked())
	l.sendLocked(message{What: begin, Of: of, At: at})
	l.mu.Unlock()
	err = l.waitUntil(ctx, func() bool { return l.allReportedLocked(who, of, ended) })
	if err != nil {
		out, _, err := l.stopPart(who, of, err)
		return out, at, err
	}
	return l.takeOutcomes(who, of), at, nil
}

// stopPart stops a part and waits until every worker of it that is there has ended it.
func (l *Leader) stopPart(who Group, of int, why error) ([]Outcome, clock.Time, error) {
	l.mu.Lock()
	l.sendLocked(message{What: stop, Of: of})
	l.mu.Unlock()
	err := l.waitUntil(context.Background(), func() bool { return l.allReportedLocked(who, of, ended) }) // a worker that says nothing is lost
	return l.takeOutcomes(who, of), 0, errors.Join(why, err)
}

// checkReady looks at what the workers have prepared.
func (l *Leader) checkReady(of int, check func(worker int, prepared json.RawMessage) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.workers {
		r, ok := m.reports[reportKey{of, ready}]
		switch {
		case !ok:
			continue
		case r.Error != "":
			return fmt.Errorf("worker %d: %s", m.index, r.Error)
		}
		if err := check(m.index, r.Body); err != nil {
			return fmt.Errorf("worker %d: %w: %w", m.index, ErrUnequal, err)
		}
		l.reportClockLocked(m, r.Clock)
	}
	return nil
}

// reportClockLocked says how a worker's clock stands.
func (l *Leader) reportClockLocked(m *workerState, c Clock) {
	m.clockSent = l.options.Clock.Now()
	if l.options.Clocks != nil {
		at := m.clockSent
		guard.Go(func() { l.options.Clocks(m.index, at, c) })
	}
}

// sendLocked adds a message and returns its number.
func (l *Leader) sendLocked(m message) int {
	m.Seq = len(l.messages) + 1
	l.messages = append(l.messages, m)
	close(l.messageSent)
	l.messageSent = make(chan struct{})
	return m.Seq
}

// allReportedLocked tells whether all of a group who are there have made a report.
func (l *Leader) allReportedLocked(who Group, of int, what string) bool {
	for _, m := range l.workers {
		if _, ok := m.reports[reportKey{of, what}]; !ok && m.lost == nil && who.contains(m.index) {
			return false
		}
	}
	return true
}

func (l *Leader) longestTripLocked() (out time.Duration) {
	for _, m := range l.workers {
		if m.lost == nil {
			out = max(out, m.trip)
		}
	}
	return out
}

// takeOutcomes are what the workers of a group said of a part, and forgets it.
func (l *Leader) takeOutcomes(who Group, of int) []Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.parts, of)
	var out []Outcome
	for _, m := range l.workers {
		if !who.contains(m.index) {
			continue
		}
		r, e := m.reports[reportKey{of, ready}], m.reports[reportKey{of, ended}]
		one := Outcome{Ready: r.Body, Ended: e.Body, Clock: r.Clock}
		if _, ok := m.reports[reportKey{of, ended}]; !ok {
			one.Err = m.lost
		} else if e.Error != "" {
			one.Err = errors.New(e.Error)
		}
		out = append(out, one)
		delete(m.reports, reportKey{of, ready})
		delete(m.reports, reportKey{of, ended})
	}
	return out
}

// Left returns how many workers are there still.
func (l *Leader) Left() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.workers {
		if m.lost == nil {
			n++
		}
	}
	return n
}

// Leave tells the workers that the run is over and waits until those that are there
// have brought the rest of their records, or ctx ends: then the error names those whose
// records are not complete.
func (l *Leader) Leave(ctx context.Context) error {
	l.mu.Lock()
	l.sendLocked(message{What: leave})
	l.mu.Unlock()
	var missing []int
	err := l.waitUntil(ctx, func() bool {
		missing = nil
		for _, m := range l.workers {
			if m.joined && m.lost == nil && !m.spool.isComplete() {
				missing = append(missing, m.index)
			}
		}
		return len(missing) == 0
	})
	if len(missing) > 0 && err != nil {
		return fmt.Errorf("the records of workers %v are not all there: %w", missing, err)
	}
	return err
}

// Close ends the server. It may be called twice.
func (l *Leader) Close() error {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return nil
	}
	l.ended = true
	close(l.messageSent)
	l.messageSent = make(chan struct{})
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := l.server.Shutdown(ctx) // the last worker's last word is still to be answered
	if err != nil {
		err = l.server.Close()
	}
	<-l.served
	return errors.Join(err, l.closeSpools())
}

func (l *Leader) closeSpools() error {
	var errs []error
	for _, m := range l.workers {
		errs = append(errs, m.spool.closeFile())
	}
	return errors.Join(errs...)
}
