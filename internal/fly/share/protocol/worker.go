package protocol

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Identity says which worker a process is.
type Identity struct {
	Index  int
	Binary string // what Binary says of its program
}

// Task is a part of the load that a worker has prepared.
type Task interface {
	// Prepared is what the leader is told of it, before it is begun.
	Prepared() any
	// Send does it, from begin of the own clock on, and returns what the leader is
	// told of its end. When ctx ends it begins nothing more and ends soon.
	Send(ctx context.Context, begin clock.Time) (any, error)
}

// Duty is what a worker does of a run.
type Duty interface {
	// Prepare gets a part ready.
	Prepare(ctx context.Context, part json.RawMessage) (Task, error)
	// Progress is where the worker stands, as JSON, which its leader is told now and then.
	Progress() any
	// Leave ends what goes on between parts: the run is over. Records are brought to
	// the leader after it.
	Leave()
}

// Worker is a process that takes part.
type Worker struct {
	Of   int    // how many there are
	Plan []byte // what the leader gives each of them

	identity Identity
	access   Access
	token    string
	client   *http.Client
	clock    clock.Clock
	log      *slog.Logger
	goneFor  time.Duration

	progressMu sync.Mutex // where the worker stands is told in order

	mu       sync.Mutex
	estimate Estimate
	answered clock.Time // when the leader answered last
	running  map[int]*assignment
}

// assignment is a part that a worker was told to do.
type assignment struct {
	cancel context.CancelCauseFunc
	start  chan clock.Time // on the leader's clock
}

// errStopped ends a part that the leader has stopped.
var errStopped = errors.New("the leader has stopped it")

// WorkerOptions configure a worker.
type WorkerOptions struct {
	Clock           clock.Clock // its own
	Log             *slog.Logger
	LeaderGoneAfter time.Duration // default DefaultLeaderGoneAfter
}

// Join has a process take part as a worker. It asks until the leader answers, or has
// not for as long as a worker goes on without one.
func Join(ctx context.Context, a Access, id Identity, o WorkerOptions) (*Worker, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.CA) {
		return nil, fmt.Errorf("%w: its certificate authority cannot be read", ErrRefused)
	}
	if o.LeaderGoneAfter <= 0 {
		o.LeaderGoneAfter = DefaultLeaderGoneAfter
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13},
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
	}
	w := &Worker{
		identity: id, access: a, client: &http.Client{Transport: transport}, clock: o.Clock, log: o.Log,
		goneFor: o.LeaderGoneAfter, running: map[int]*assignment{},
	}
	w.answered = w.clock.Now()
	var in welcome
	one := hello{Binary: id.Binary, Secret: rand.Text()}
	err := w.retryUntilAnswered(ctx, func() error { return w.request(ctx, http.MethodPost, "/join", one, &in) })
	if err != nil {
		return nil, err
	}
	w.Of, w.token, w.Plan = in.Of, in.Token, in.Plan
	return w, nil
}

// Close closes the connections to the leader.
func (w *Worker) Close() { w.client.CloseIdleConnections() }

// request asks the leader once. An error wraps ErrRefused where it answered and will not
// say anything else.
func (w *Worker) request(ctx context.Context, method, path string, body, into any) error {
	var content []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		content = b
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return fmt.Errorf("tell the leader: %w", err)
		}
		content = raw
	}
	ctx, cancel := context.WithTimeout(ctx, w.goneFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.access.URL+path, nil)
	if err != nil {
		return fmt.Errorf("ask the leader: %w", err)
	}
	if len(content) > 0 {
		borrowed := &borrowedBytes{bytes: content}
		defer borrowed.takeBack()
		req.ContentLength, req.GetBody = int64(len(content)), borrowed.openReader
		req.Body, _ = borrowed.openReader() // it does not fail
	}
	req.Header.Set("Authorization", "Bearer "+w.access.Token)
	req.Header.Set(header, fmt.Sprintf("%d:%s", w.identity.Index, w.token))
	answer, err := w.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the leader: %w", err)
	}
	defer answer.Body.Close()
	w.mu.Lock()
	w.answered = w.clock.Now()
	w.mu.Unlock()
	switch {
	case answer.StatusCode >= 500:
		return fmt.Errorf("the leader answered %d", answer.StatusCode)
	case answer.StatusCode >= 400:
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // half of a reason is one
		return fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(string(why)))
	case into == nil || answer.StatusCode == http.StatusNoContent:
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxReport)).Decode(into); err != nil {
		return fmt.Errorf("read the leader's answer: %w", err)
	}
	return nil
}

// againAfter is how long a worker waits until it asks again.
const retryDelay = 100 * time.Millisecond

// retryUntilAnswered asks until the leader answers one way or another. ErrLeaderGone: it has not
// for too long.
func (w *Worker) retryUntilAnswered(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil || errors.Is(err, ErrRefused) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.leaderSilence() > w.goneFor {
			return fmt.Errorf("%w: for %v: %w", ErrLeaderGone, w.goneFor, err)
		}
		if clock.Sleep(ctx, retryDelay) != nil {
			return context.Cause(ctx)
		}
	}
}

// leaderSilence is how long the leader has not answered.
func (w *Worker) leaderSilence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.Now().Sub(w.answered)
}

// Serve does what the leader says until it says that the run is over, or is gone:
// then all load has ended, and the error wraps ErrLeaderGone. Records are brought to the
// leader meanwhile and afterwards; the file of the stream is at path.
func (w *Worker) Serve(ctx context.Context, records *record.Writer, path string, d Duty) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	uploading, stop := context.WithCancel(serving)
	defer stop()
	var reading, uploads guard.Group
	reading.Go(func() { w.readClock(serving) })
	reading.Go(func() { w.reportProgress(serving, d) })
	c := &uploader{worker: w, records: records, path: path}
	uploads.Go(func() {
		if err := c.uploadUntilDone(uploading); err != nil {
			cancel(err)
		}
	})
	err := w.followMessages(serving, d)
	d.Leave()
	stop()
	uploads.Wait()
	switch {
	case err == nil:
		err = w.uploadAll(serving, c)
	case errors.Is(err, ErrRefused) && ctx.Err() == nil:
		_ = c.uploadRest(ctx) // taken for lost: what it has measured is worth having, and nothing waits for it
	}
	cancel(err)
	reading.Wait()
	return errors.Join(err, c.closeFile())
}

// followMessages does what messages say until one says that the run is over. All that it has
// begun has ended then.
func (w *Worker) followMessages(ctx context.Context, d Duty) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wait guard.Group
	defer wait.Wait()
	defer cancel(errStopped)
	for after := 0; ; {
		var messages []message
		err := w.retryUntilAnswered(ctx, func() error {
			return w.request(ctx, http.MethodGet, fmt.Sprintf("/next?after=%d", after), nil, &messages)
		})
		if err != nil {
			cancel(err)
			return err
		}
		for _, m := range messages {
			after = m.Seq
			if m.What == leave {
				return nil
			}
			w.handleMessage(ctx, m, d, &wait)
		}
	}
}

// handleMessage does what a message says.
func (w *Worker) handleMessage(ctx context.Context, m message, d Duty, wait *guard.Group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m.What {
	case prepare:
		if !m.To.contains(w.identity.Index) {
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		a := &assignment{cancel: cancel, start: make(chan clock.Time, 1)}
		w.running[m.Seq] = a
		wait.Go(func() {
			defer cancel(nil)
			w.doPart(ctx, m, a, d)
		})
	case begin:
		if a := w.running[m.Of]; a != nil {
			a.start <- m.At
		}
	case stop:
		if a := w.running[m.Of]; a != nil {
			a.cancel(errStopped)
		}
	}
}

// doPart does one part: it prepares it, says so with how the clock stands, waits for the
// start, sends, and says how it ended.
func (w *Worker) doPart(ctx context.Context, m message, a *assignment, d Duty) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.running, m.Seq)
	}()
	task, err := d.Prepare(ctx, m.Body)
	said := report{Of: m.Seq, What: ready}
	if err != nil {
		said.Error = err.Error()
	} else {
		said.Body, err = json.Marshal(task.Prepared())
	}
	if w.probeSeveralTimes(ctx); ctx.Err() == nil {
		w.sendReport(ctx, said)
	}
	over := report{Of: m.Seq, What: ended}
	if err == nil {
		over.Body, err = w.sendWhenStarted(ctx, a, task)
	}
	if err != nil {
		over.Error = err.Error()
	}
	_ = w.sendProgress(context.WithoutCancel(ctx), d, nil) // that it has ended says more
	w.sendReport(context.WithoutCancel(ctx), over)
}

// sendWhenStarted waits for the start and sends.
func (w *Worker) sendWhenStarted(ctx context.Context, a *assignment, task Task) (json.RawMessage, error) {
	select {
	case at := <-a.start:
		said, err := task.Send(ctx, at.Add(-w.clockNow().Offset))
		raw, encoded := json.Marshal(said)
		return raw, errors.Join(err, encoded)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// sendReport tells the leader something, however often that takes.
func (w *Worker) sendReport(ctx context.Context, r report) {
	r.Clock = w.clockNow()
	w.mu.Lock()
	r.Trip = w.estimate.Trip()
	w.mu.Unlock()
	if err := w.retryUntilAnswered(ctx, func() error { return w.request(ctx, http.MethodPost, "/report", r, nil) }); err != nil {
		w.log.Debug("the leader was not told", slog.String("what", r.What), slog.Any("error", err))
	}
}

// tellProgressEvery is how often the leader is told where a worker stands.
const progressInterval = time.Second

// reportProgress tells the leader where the worker stands, when that has changed.
func (w *Worker) reportProgress(ctx context.Context, d Duty) {
	var last json.RawMessage
	for clock.Sleep(ctx, progressInterval) == nil {
		last = w.sendProgress(ctx, d, last)
	}
}

// sendProgress tells it once, and returns what it has told: last where that is the same
// or could not be told.
func (w *Worker) sendProgress(ctx context.Context, d Duty, last json.RawMessage) json.RawMessage {
	w.progressMu.Lock()
	defer w.progressMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, progressInterval) // it is worth no waiting
	defer cancel()
	now, err := json.Marshal(d.Progress())
	if err != nil || bytes.Equal(now, last) || w.request(ctx, http.MethodPost, "/report", report{What: underWay, Body: now}, nil) != nil {
		return last
	}
	return now
}

// uploadAll brings the rest of the records and says how many bytes there are.
func (w *Worker) uploadAll(ctx context.Context, c *uploader) error {
	size, err := c.flushedSize()
	if err != nil {
		return err
	}
	r := report{What: left, Size: size}
	if err := w.retryUntilAnswered(ctx, func() error { return w.request(ctx, http.MethodPost, "/report", r, nil) }); err != nil {
		return err
	}
	return c.uploadRest(ctx)
}

// clockNow is how the own clock stands to the leader's now.
func (w *Worker) clockNow() Clock {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.estimate.At(w.clock.Now())
}

// readClock reads the leader's clock every so often until ctx ends.
func (w *Worker) readClock(ctx context.Context) {
	for {
		w.probeOnce(ctx)
		if clock.Sleep(ctx, probeInterval) != nil {
			return
		}
	}
}

// probeSeveralTimes reads it several times at once.
func (w *Worker) probeSeveralTimes(ctx context.Context) {
	for range probes {
		w.probeOnce(ctx)
	}
}

// probeOnce reads the leader's clock once. A question without an answer says nothing.
func (w *Worker) probeOnce(ctx context.Context) {
	var theirs clock.Time
	asked := w.clock.Now()
	if err := w.request(ctx, http.MethodGet, "/time", nil, &theirs); err != nil {
		return
	}
	answered := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.estimate.Add(asked, theirs, answered)
}
