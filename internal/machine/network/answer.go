package network

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

// TokenSize is how many bytes tell our datagrams and connections from what else comes.
const TokenSize = 16

// Reach is what the sending end of a path has to know of one that answers elsewhere. It
// holds a secret.
type Reach struct {
	Address netip.Addr `json:"address"`
	Echoes  uint16     `json:"echoes,omitempty"`  // port; 0: none are answered
	Streams uint16     `json:"streams,omitempty"` // port; 0: none are received
	Token   []byte     `json:"token"`
}

// Check says what is wrong with one that another process has said.
func (r Reach) Check() error {
	if !r.Address.IsValid() || r.Address.IsUnspecified() || len(r.Token) != TokenSize {
		return fmt.Errorf("%w: the other end does not say how it is reached", ErrNetwork)
	}
	return nil
}

// AnswerOptions say what the answering end of a path does for a sender that is another
// process.
type AnswerOptions struct {
	At       End
	Echoes   bool          // of UDP are answered
	Streams  int           // connections that are received; 0: none
	Lifetime time.Duration // it ends by itself after so long, whoever has forgotten it
	Every    time.Duration // of arrivals that are handed to Took
	Clock    clock.Clock
	Took     func(Arrival) // from when all connections are there until they have ended, or Close
}

// Arrival is what the receiving end of all streams together has counted until a moment.
type Arrival struct {
	At       clock.Time
	Bytes    uint64
	Segments uint64 // that came in, of its kernel
}

// Answerer is the answering end of a path. Close it after use.
type Answerer struct {
	reach    Reach
	echoes   *echoServer // nil: none
	receiver *receiver   // nil: none
	over     chan struct{}
	once     sync.Once
	reading  guard.Group
	forget   context.CancelFunc // of its lifetime
}

// Answer begins to answer.
func Answer(ctx context.Context, o AnswerOptions) (*Answerer, error) {
	a := &Answerer{reach: Reach{Address: o.At.Address, Token: make([]byte, TokenSize)}, over: make(chan struct{})}
	var life context.Context
	life, a.forget = context.WithTimeout(context.WithoutCancel(ctx), o.Lifetime)
	_, err := rand.Read(a.reach.Token)
	if err == nil && o.Echoes {
		if a.echoes, err = serveEchoes(o.At, a.reach.Token); err == nil {
			a.reach.Echoes = a.echoes.at.Port()
		}
	}
	if err == nil && o.Streams > 0 {
		if a.receiver, err = receiveAt(ctx, o.At, a.reach.Token, o.Streams); err == nil {
			a.reach.Streams = a.receiver.port()
		}
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if a.receiver != nil {
		a.reading.Go(func() { a.readPeriodically(o) })
	}
	context.AfterFunc(life, func() { a.once.Do(a.end) })
	return a, nil
}

// Reach is how it is reached.
func (a *Answerer) Reach() Reach { return a.reach }

// Close ends it. It may be called twice.
func (a *Answerer) Close() error {
	a.once.Do(a.end)
	return nil
}

func (a *Answerer) end() {
	close(a.over)
	a.reading.Wait()
	if a.echoes != nil {
		a.echoes.end()
	}
	if a.receiver != nil {
		a.receiver.close()
	}
	a.forget()
}

// readPeriodically hands out what has arrived while connections are open, and once more when they
// have ended.
func (a *Answerer) readPeriodically(o AnswerOptions) {
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	begun, over := false, false
	for {
		bytes, segments, open := a.receiver.countReceived()
		if open || begun {
			o.Took(Arrival{o.Clock.Now(), bytes, segments})
		}
		if over || begun && !open {
			return
		}
		begun = open
		select {
		case <-tick.C:
		case <-a.over:
			over = true
		}
	}
}
