package kubelet

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/logfile"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/stream"
)

// serveLogs answers with the log of a container.
func (s *Server) serveLogs(w http.ResponseWriter, r *http.Request) {
	q, err := s.parseLogQuery(r.URL.Query())
	if err == nil {
		err = s.requireKnown(r.Context(), r)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	l, _, err := configuration.Find(&s.rules.Load().objects.Logs, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		s.writeError(w, newFailure(http.StatusBadRequest, "no Logs or ClusterLogs: %w", err))
		return
	}
	path := l.LogsFile
	if q.previous {
		path = l.PreviousLogsFile
	}
	if path == "" {
		s.writeError(w, newFailure(http.StatusBadRequest, "the object names no file for that log"))
		return
	}
	if !s.beginSession() {
		s.writeError(w, newFailure(http.StatusServiceUnavailable, "too many sessions"))
		return
	}
	defer s.endSession()
	to := &lazy{w: w, flush: q.Follow}
	unread, err := logfile.Read(r.Context(), path, q.Options, to.unlessUnwanted(q.noStdout), to.unlessUnwanted(q.noStderr))
	if unread > 0 {
		s.log.Warn("lines of a log are in no known format", "file", path, "lines", unread)
	}
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		to.endResponse()
	case to.begun:
		s.log.Warn("log broken off", "err", err)
	default:
		s.writeError(w, newFailure(http.StatusBadRequest, "%w", err))
	}
}

// lazy is an answer that begins with the first write, so that an error before
// it can be the answer.
type lazy struct {
	w     http.ResponseWriter
	flush bool // each write
	begun bool
	buf   *bufio.Writer
}

// unlessUnwanted returns nil where lines of a stream are not wanted.
func (l *lazy) unlessUnwanted(not bool) io.Writer {
	if not {
		return nil
	}
	return l
}

func (l *lazy) beginResponse() {
	l.w.Header().Set("Content-Type", "text/plain")
	l.begun, l.buf = true, bufio.NewWriterSize(l.w, 32<<10)
}

// Write writes to the answer.
func (l *lazy) Write(p []byte) (int, error) {
	if !l.begun {
		l.beginResponse()
	}
	n, err := l.buf.Write(p)
	if err == nil && l.flush {
		if err = l.buf.Flush(); err == nil {
			err = http.NewResponseController(l.w).Flush()
		}
	}
	return n, err
}

func (l *lazy) endResponse() {
	if !l.begun {
		l.beginResponse()
	}
	_ = l.buf.Flush() // nobody is left to be told of an error
}

// wanted is what a client wants of a log.
type wanted struct {
	logfile.Options
	previous           bool
	noStdout, noStderr bool
}

// parseLogQuery reads the query of a request for a log: the fields of PodLogOptions.
func (s *Server) parseLogQuery(q url.Values) (wanted, error) {
	out := wanted{Options: logfile.All()}
	var err error
	number := func(name string, minValue, unset int64) int64 {
		text := q.Get(name)
		if text == "" || err != nil {
			return unset
		}
		n, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil || n < minValue {
			err = newFailure(http.StatusBadRequest, "%s: want a number of at least %d, got %q", name, minValue, text)
		}
		return n
	}
	if tail := q.Get("tail"); tail != "" && tail != "all" { // an older name
		q.Set("tailLines", tail)
	}
	out.Tail, out.Limit = number("tailLines", 0, -1), number("limitBytes", 1, -1)
	if seconds := number("sinceSeconds", 1, 0); seconds > 0 {
		out.Since = s.wallNow().Add(-time.Duration(min(seconds, 1<<32)) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" && err == nil {
		at, bad := time.Parse(time.RFC3339, text)
		if bad != nil {
			err = newFailure(http.StatusBadRequest, "sinceTime: want a time such as 2026-01-02T15:04:05Z, got %q", text)
		}
		if at.After(out.Since) {
			out.Since = at
		}
	}
	out.Follow, out.Timestamps, out.previous = parseSwitch(q, "follow"), parseSwitch(q, "timestamps"), parseSwitch(q, "previous")
	switch which := q.Get("stream"); which {
	case "", "All":
	case "Stdout":
		out.noStderr = true
	case "Stderr":
		out.noStdout = true
	default:
		err = errors.Join(err, newFailure(http.StatusBadRequest, "stream: want All, Stdout or Stderr, got %q", which))
	}
	return out, err
}

// parseSwitch reads a switch as kube-apiserver writes it: only 0 and false are off.
func parseSwitch(q url.Values, name string) bool {
	return q.Has(name) && q.Get(name) != "0" && !strings.EqualFold(q.Get(name), "false")
}

func (s *Server) wallNow() time.Time { return s.options.Clock.Wall(s.options.Clock.Now()) }

// serveAttach shows a client what is written to the log of a container from now on.
func (s *Server) serveAttach(w http.ResponseWriter, r *http.Request) {
	wants, err := stream.WantsOf(r)
	if err != nil {
		s.writeError(w, newFailure(http.StatusBadRequest, "%w", err))
		return
	}
	if err := s.requireKnown(r.Context(), r); err != nil {
		s.writeError(w, err)
		return
	}
	a, _, err := configuration.Find(&s.rules.Load().objects.Attaches, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		s.writeError(w, newFailure(http.StatusBadRequest, "no Attach or ClusterAttach: %w", err))
		return
	}
	s.serveSession(w, r, wants, func(ctx context.Context, c *stream.Session) error {
		if c.Stdin != nil {
			s.wait.Go(func() { _, _ = io.Copy(io.Discard, c.Stdin) }) // nothing reads it; ends with the connection
		}
		o := logfile.All()
		o.Follow, o.Tail = true, 0
		_, err := logfile.Read(ctx, a.LogsFile, o, writerOf(c.Stdout), writerOf(c.Stderr))
		return err
	})
}

// writerOf keeps a nil of one interface a nil of another.
func writerOf(w io.Writer) io.Writer { return w }

// serveSession takes a connection over and runs something for its client.
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request, wants stream.Wants, run func(context.Context, *stream.Session) error) {
	if !s.beginSession() {
		s.writeError(w, newFailure(http.StatusServiceUnavailable, "too many sessions"))
		return
	}
	defer s.endSession()
	var exit *stream.ExitError
	if err := stream.Serve(w, r, wants, run); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
		s.log.Info("session ended", "path", r.URL.Path, "err", err)
	}
}
