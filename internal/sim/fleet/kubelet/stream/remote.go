package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// The versions of the remote command protocol that are spoken: 4 over both, 5,
// which says when standard input ends, over WebSocket alone.
const (
	v4       = "v4.channel.k8s.io"
	v4Base64 = "v4.base64.channel.k8s.io"
	v5       = "v5.channel.k8s.io"
)

// Wants says which streams a client asks for.
type Wants struct{ Stdin, Stdout, Stderr, TTY bool }

// ErrNothing says that a client asks for no stream.
var ErrNothing = errors.New("want at least one of stdin, stdout and stderr")

// WantsOf reads a request's query, in which kube-apiserver says input, output,
// error and tty. A terminal has no error stream of its own.
func WantsOf(r *http.Request) (Wants, error) {
	q := r.URL.Query()
	w := Wants{Stdin: q.Get("input") == "1", Stdout: q.Get("output") == "1", Stderr: q.Get("error") == "1", TTY: q.Get("tty") == "1"}
	if w.TTY {
		w.Stderr = false
	}
	if !w.Stdin && !w.Stdout && !w.Stderr {
		return w, ErrNothing
	}
	return w, nil
}

// Size is the size of a terminal in characters.
type Size struct{ Width, Height uint16 }

// Session is one command's side of a client's streams.
type Session struct {
	Stdin  io.Reader // nil when not asked for
	Stdout io.Writer // nil when not asked for
	Stderr io.Writer // nil when not asked for
	TTY    bool
	Resize <-chan Size // closed when there will be no other; nil without a terminal
}

// ExitError is the error of a command that ended with a code other than 0.
type ExitError struct{ Code int }

// Error says the code.
func (e *ExitError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", e.Code)
}

// Serve takes a request's connection over and calls run with the streams that
// the client wants. run's error is told to the client, an ExitError as the exit
// code. run's context ends when the client is gone. Serve returns when the
// connection is closed; the error says why it was not taken over, which the
// client was told, or is run's.
func Serve(w http.ResponseWriter, r *http.Request, wants Wants, run func(context.Context, *Session) error) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var c *channels
	var err error
	if wsstream.IsWebSocketRequest(r) {
		c, err = webSocket(&watched{w, cancel}, withoutLogger(r), wants)
	} else {
		c, err = spdyChannels(ctx, w, r, wants)
	}
	if err != nil {
		return err
	}
	return c.serveChannels(ctx, wants, run)
}

// channels are the streams of a session, whatever carries them.
type channels struct {
	stdin, resize         io.Reader
	stdout, stderr, fault io.WriteCloser
	gone                  <-chan bool // closed when the client is gone; nil where reading tells
	close                 func() error
}

func (c *channels) serveChannels(ctx context.Context, wants Wants, run func(context.Context, *Session) error) error {
	ctx, stop := contextUntilGone(ctx, c.gone)
	defer stop()
	s := &Session{TTY: wants.TTY}
	if wants.Stdin {
		s.Stdin = c.stdin
	}
	if wants.Stdout {
		s.Stdout = c.stdout
	}
	if wants.Stderr {
		s.Stderr = c.stderr
	}
	var wait guard.Group
	if wants.TTY {
		sizes := make(chan Size, 1)
		s.Resize = sizes
		wait.Go(func() { sendSizes(c.resize, sizes) })
	}
	err := run(ctx, s)
	c.sendStatus(err)
	wait.Wait()
	return err
}

// sendSizes reads the sizes of the client's terminal; one that nobody took is
// replaced by the next.
func sendSizes(from io.Reader, to chan Size) {
	defer close(to)
	d := json.NewDecoder(io.LimitReader(from, 1<<20))
	for {
		var s Size
		if d.Decode(&s) != nil {
			return
		}
		select {
		case <-to:
		default:
		}
		to <- s
	}
}

// sendStatus tells the client how the command ended and closes the connection.
func (c *channels) sendStatus(err error) {
	text, failed := json.Marshal(statusOf(err))
	if failed == nil {
		_, _ = c.fault.Write(text) // nobody is left to be told of an error
	}
	for _, s := range []io.Closer{c.stdout, c.stderr, c.fault} {
		if s != nil && c.gone != nil {
			_ = s.Close()
		}
	}
	if c.gone != nil {
		timer := time.NewTimer(lastWords)
		defer timer.Stop()
		select {
		case <-c.gone:
		case <-timer.C:
		}
	}
	_ = c.close()
}

// statusOf is what the client is told of a command's end.
func statusOf(err error) *metav1.Status {
	var exit *ExitError
	switch {
	case err == nil:
		return &metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exit):
		return &metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: exit.Error(),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(exit.Code)}}}}
	}
	return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError, Message: err.Error()}
}

// spdyChannels takes a connection over with SPDY and waits for its streams.
func spdyChannels(ctx context.Context, w http.ResponseWriter, r *http.Request, wants Wants) (*channels, error) {
	if _, err := httpstream.Handshake(r, w, []string{v4}); err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	streams := make(chan offered, 5)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, newAcceptor(streams))
	if conn == nil {
		return nil, fmt.Errorf("%w: not taken over", errProtocol)
	}
	conn.SetIdleTimeout(idleTimeout)
	c := &channels{gone: conn.CloseChan(), close: conn.Close}
	ctx, stop := contextUntilGone(ctx, c.gone)
	defer stop()
	if err := c.collectStreams(ctx, streams, wants); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// collectStreams waits for the streams that were asked for.
func (c *channels) collectStreams(ctx context.Context, streams <-chan offered, wants Wants) error {
	missing := map[string]bool{"error": true}
	for kind, is := range map[string]bool{"stdin": wants.Stdin, "stdout": wants.Stdout, "stderr": wants.Stderr, "resize": wants.TTY} {
		if is {
			missing[kind] = true
		}
	}
	timer := time.NewTimer(createTimeout)
	defer timer.Stop()
	for len(missing) > 0 {
		select {
		case s := <-streams:
			kind := s.Headers().Get(typeHeader)
			if !missing[kind] {
				return fmt.Errorf("%w: a stream %q that was not asked for", errProtocol, kind)
			}
			delete(missing, kind)
			c.setStream(kind, s)
			if err := s.awaitReply(ctx); err != nil {
				return fmt.Errorf("%w: the client is gone", errProtocol)
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: the client is gone", errProtocol)
		case <-timer.C:
			return fmt.Errorf("%w: the client did not make its streams in %v", errProtocol, createTimeout)
		}
	}
	return nil
}

func (c *channels) setStream(kind string, s httpstream.Stream) {
	switch kind {
	case "error":
		c.fault = s
	case "stdin":
		c.stdin = s
	case "stdout":
		c.stdout = s
	case "stderr":
		c.stderr = s
	case "resize":
		c.resize = s
	}
}

// webSocket takes a connection over with WebSocket, whose messages begin with
// the number of a channel: 0 to 2 are standard input, output and error, 3 tells
// of the end, 4 of the terminal's size.
func webSocket(w http.ResponseWriter, r *http.Request, wants Wants) (*channels, error) {
	kinds := []wsstream.ChannelType{wsstream.IgnoreChannel, wsstream.IgnoreChannel, wsstream.IgnoreChannel, wsstream.WriteChannel, wsstream.ReadChannel}
	first := 3
	for i, is := range []bool{wants.Stderr, wants.Stdout} {
		if is {
			first = 2 - i
			kinds[first] = wsstream.WriteChannel
		}
	}
	if wants.Stdin {
		kinds[0] = wsstream.ReadChannel
	}
	if !wants.TTY {
		kinds[4] = wsstream.IgnoreChannel // or messages to it would wait for a reader
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		v5: {Binary: true, Channels: kinds}, v4: {Binary: true, Channels: kinds}, v4Base64: {Channels: kinds},
	})
	conn.SetIdleTimeout(idleTimeout)
	_, streams, err := conn.Open(w, r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	// An empty message tells the client that it is connected.
	if _, err := streams[first].Write(nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &channels{stdin: streams[0], stdout: streams[1], stderr: streams[2], fault: streams[3], resize: streams[4], close: conn.Close}, nil
}
