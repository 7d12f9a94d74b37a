package protocol

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/pki"
)

// What a request to the leader may hold.
const (
	maxReport = 64 << 20
	maxPiece  = 65 << 20 // one block may have 64 MiB
	maxHello  = 64 << 10
)

const (
	// requestWithin is how long a request to the leader may take, with its answer. A
	// worker gives up after a few seconds, and asks again.
	requestTimeout = time.Minute
	// idleWithin is how long a connection may be without requests.
	idleTimeout = 2 * time.Minute
)

// refusal is an answer that is no success.
type refusal struct {
	code int
	why  string
}

func (r refusal) Error() string { return r.why }

func serverTLS(pair pki.Pair) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate for workers: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}, nil
}

// newHandler are the leader's addresses.
func (l *Leader) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /join", l.authorized(l.handleJoin))
	mux.HandleFunc("GET /time", l.fromWorker(func(*workerState, *http.Request) (any, error) { return l.options.Clock.Now(), nil }))
	mux.HandleFunc("GET /next", l.fromWorker(l.handleNext))
	mux.HandleFunc("POST /report", l.fromWorker(l.handleReport))
	mux.HandleFunc("PUT /records", l.fromWorker(l.handleRecords))
	return mux
}

// authorized answers a request of somebody who has the token to join as the worker that he says
// he is.
func (l *Leader) authorized(do func(*workerState, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		number, _, _ := strings.Cut(r.Header.Get(header), ":")
		index, err := strconv.Atoi(number)
		if err != nil || index < 0 || index >= len(l.tokens) || !equalSecrets(r.Header.Get("Authorization"), "Bearer "+l.tokens[index]) {
			w.Header().Set("Connection", "close") // who has no token is to hold nothing
			writeAnswer(w, nil, refusal{http.StatusUnauthorized, fmt.Sprintf("this is not the token of worker %q: each worker has one of its own, and they are numbered from 0 to %d", number, len(l.workers)-1)})
			return
		}
		out, err := do(l.workers[index], r)
		writeAnswer(w, out, err)
	}
}

func equalSecrets(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// fromWorker answers a request of a worker that has joined. It is heard of with it.
func (l *Leader) fromWorker(do func(*workerState, *http.Request) (any, error)) http.HandlerFunc {
	return l.authorized(func(m *workerState, r *http.Request) (any, error) {
		_, token, _ := strings.Cut(r.Header.Get(header), ":")
		l.mu.Lock()
		known := m.joined && equalSecrets(token, m.token)
		lost := m.lost
		if known && lost == nil {
			m.heard = l.options.Clock.Now()
		}
		if known && !m.settled {
			l.settleLocked(m)
		}
		l.mu.Unlock()
		switch {
		case !known:
			return nil, refusal{http.StatusForbidden, fmt.Sprintf("worker %d is another process", m.index)}
		case lost != nil && r.URL.Path != "/records": // what it has measured is still wanted
			return nil, refusal{http.StatusGone, fmt.Sprintf("worker %d was taken for lost: %v", m.index, lost)}
		}
		return do(m, r)
	})
}

// settleLocked notes that a worker has its token. The plan, which holds the plane's
// credentials, is forgotten when all have.
func (l *Leader) settleLocked(m *workerState) {
	m.settled = true
	for _, m := range l.workers {
		if !m.settled {
			return
		}
	}
	l.options.Plan = nil
}

func writeAnswer(w http.ResponseWriter, out any, err error) {
	var refused refusal
	switch {
	case errors.As(err, &refused):
		http.Error(w, refused.why, refused.code)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case out == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(out) // a worker that is gone asks again, or is lost
	}
}

func decodeBody(r *http.Request, most int64, into any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, most)).Decode(into); err != nil {
		return refusal{http.StatusBadRequest, "it cannot be read: " + err.Error()}
	}
	return nil
}

// handleJoin takes a worker in. A second process for an index is refused, also where the
// first one is lost: it has sent some of the calls. The token to join may be in a Secret
// that others may read, so the answer is given again only to whoever knows what the first
// one has sent, and not after that one has shown its token.
func (l *Leader) handleJoin(m *workerState, r *http.Request) (any, error) {
	var h hello
	if err := decodeBody(r, maxHello, &h); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.options.Binary != "" && h.Binary != l.options.Binary:
		return nil, refusal{http.StatusPreconditionFailed, fmt.Sprintf("worker %d is another build of windtunnel than the leader: both have to be the same file", m.index)}
	case l.ended:
		return nil, refusal{http.StatusGone, "the run is over"}
	}
	switch {
	case h.Secret == "":
		return nil, refusal{http.StatusBadRequest, "it has no secret"}
	case m.settled || m.joined && !equalSecrets(m.secret, h.Secret):
		return nil, refusal{http.StatusConflict, fmt.Sprintf("worker %d is there already, as another process: a second one is refused", m.index)}
	case l.begun && !m.joined:
		return nil, refusal{http.StatusGone, fmt.Sprintf("worker %d is too late: the load has begun", m.index)}
	case !m.joined:
		m.joined, m.secret, m.token = true, h.Secret, rand.Text()
	}
	m.heard = l.options.Clock.Now()
	l.changeLocked()
	return welcome{Of: len(l.workers), Token: m.token, Plan: l.options.Plan}, nil
}

// handleNext answers with the messages behind one that the worker has, as soon as there are
// any.
func (l *Leader) handleNext(m *workerState, r *http.Request) (any, error) {
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil || after < 0 {
		return nil, refusal{http.StatusBadRequest, "after is no number"}
	}
	patience := time.NewTimer(pollTimeout)
	defer patience.Stop()
	for {
		l.mu.Lock()
		if after < len(l.messages) {
			out := l.messages[after:]
			l.mu.Unlock()
			return out, nil
		}
		told, ended := l.messageSent, l.ended
		m.heard = l.options.Clock.Now()
		l.mu.Unlock()
		if ended {
			return nil, refusal{http.StatusGone, "the run is over"}
		}
		select {
		case <-told:
		case <-patience.C:
			return nil, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// handleReport takes what a worker says. The same may come twice; of a part that is over, or
// that there is not, nothing is kept.
func (l *Leader) handleReport(m *workerState, r *http.Request) (any, error) {
	var said report
	if err := decodeBody(r, maxReport, &said); err != nil {
		return nil, err
	}
	if said.What == underWay {
		if l.options.Progress != nil {
			l.options.Progress(m.index, said.Body)
		}
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m.trip = said.Trip
	switch {
	case said.What == left:
		m.left = true
		m.spool.setEnd(said.Size)
	case said.What != ready && said.What != ended:
		return nil, refusal{http.StatusBadRequest, fmt.Sprintf("what is %q?", said.What)}
	case l.parts[said.Of]:
		m.reports[reportKey{said.Of, said.What}] = said
	}
	l.changeLocked()
	return nil, nil
}

// handleRecords takes a piece of a worker's stream, with how its clock stands.
func (l *Leader) handleRecords(m *workerState, r *http.Request) (any, error) {
	at, err := strconv.ParseInt(r.URL.Query().Get("at"), 10, 64)
	if err != nil || at < 0 {
		return nil, refusal{http.StatusBadRequest, "at is no number"}
	}
	piece, err := io.ReadAll(io.LimitReader(r.Body, maxPiece))
	if err != nil {
		return nil, refusal{http.StatusBadRequest, "it cannot be read: " + err.Error()}
	}
	size, err := m.spool.appendPiece(at, piece)
	if errors.Is(err, errDamaged) {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	if err != nil {
		return nil, err
	}
	l.noteClock(m, r.URL.Query().Get("clock"))
	if m.spool.isComplete() {
		l.mu.Lock()
		l.changeLocked()
		l.mu.Unlock()
	}
	return stored{size}, nil
}

// tellClockEvery is how often it is told how a clock stands while load is sent.
const clockReportInterval = 10 * time.Second

// noteClock takes how a worker's clock stands, "OFFSET,BOUND,JUMPED" in nanoseconds.
func (l *Leader) noteClock(m *workerState, text string) {
	if text == "" {
		return
	}
	var c Clock
	if _, err := fmt.Sscanf(text, "%d,%d,%t", &c.Offset, &c.Bound, &c.Jumped); err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Jumped || m.clockSent > 0 && l.options.Clock.Now().Sub(m.clockSent) > clockReportInterval {
		l.reportClockLocked(m, c)
	}
}
