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

// logs answers with the log of a container.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	q, err := s.query(r.URL.Query())
	if err == nil {
		err = s.known(r.Context(), r)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	l, _, err := configuration.Find(&s.rules.Load().objects.Logs, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		s.fail(w, refuse(http.StatusBadRequest, "no Logs or ClusterLogs: %w", err))
		return
	}
	path := l.LogsFile
	if q.previous {
		path = l.PreviousLogsFile
	}
	if path == "" {
		s.fail(w, refuse(http.StatusBadRequest, "the object names no file for that log"))
		return
	}
	if !s.begin() {
		s.fail(w, refuse(http.StatusServiceUnavailable, "too many sessions"))
		return
	}
	defer s.end()
	to := &lazy{w: w, flush: q.Follow}
	unread, err := logfile.Read(r.Context(), path, q.Options, to.unless(q.noStdout), to.unless(q.noStderr))
	if unread > 0 {
		s.log.Warn("lines of a log are in no known format", "file", path, "lines", unread)
	}
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		to.end()
	case to.begun:
		s.log.Warn("log broken off", "err", err)
	default:
		s.fail(w, refuse(http.StatusBadRequest, "%w", err))
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

// unless returns nil where lines of a stream are not wanted.
func (l *lazy) unless(not bool) io.Writer {
	if not {
		return nil
	}
	return l
}

func (l *lazy) begin() {
	l.w.Header().Set("Content-Type", "text/plain")
	l.begun, l.buf = true, bufio.NewWriterSize(l.w, 32<<10)
}

// Write writes to the answer.
func (l *lazy) Write(p []byte) (int, error) {
	if !l.begun {
		l.begin()
	}
	n, err := l.buf.Write(p)
	if err == nil && l.flush {
		if err = l.buf.Flush(); err == nil {
			err = http.NewResponseController(l.w).Flush()
		}
	}
	return n, err
}

func (l *lazy) end() {
	if !l.begun {
		l.begin()
	}
	_ = l.buf.Flush() // nobody is left to be told of an error
}

// wanted is what a client wants of a log.
type wanted struct {
	logfile.Options
	previous           bool
	noStdout, noStderr bool
}

// query reads the query of a request for a log: the fields of PodLogOptions.
func (s *Server) query(q url.Values) (wanted, error) {
	out := wanted{Options: logfile.All()}
	var err error
	number := func(name string, least, unset int64) int64 {
		text := q.Get(name)
		if text == "" || err != nil {
			return unset
		}
		n, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil || n < least {
			err = refuse(http.StatusBadRequest, "%s: want a number of at least %d, got %q", name, least, text)
		}
		return n
	}
	if tail := q.Get("tail"); tail != "" && tail != "all" { // an older name
		q.Set("tailLines", tail)
	}
	out.Tail, out.Limit = number("tailLines", 0, -1), number("limitBytes", 1, -1)
	if seconds := number("sinceSeconds", 1, 0); seconds > 0 {
		out.Since = s.now().Add(-time.Duration(min(seconds, 1<<32)) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" && err == nil {
		at, bad := time.Parse(time.RFC3339, text)
		if bad != nil {
			err = refuse(http.StatusBadRequest, "sinceTime: want a time such as 2026-01-02T15:04:05Z, got %q", text)
		}
		if at.After(out.Since) {
			out.Since = at
		}
	}
	out.Follow, out.Timestamps, out.previous = truth(q, "follow"), truth(q, "timestamps"), truth(q, "previous")
	switch which := q.Get("stream"); which {
	case "", "All":
	case "Stdout":
		out.noStderr = true
	case "Stderr":
		out.noStdout = true
	default:
		err = errors.Join(err, refuse(http.StatusBadRequest, "stream: want All, Stdout or Stderr, got %q", which))
	}
	return out, err
}

// truth reads a switch as kube-apiserver writes it: only 0 and false are off.
func truth(q url.Values, name string) bool {
	return q.Has(name) && q.Get(name) != "0" && !strings.EqualFold(q.Get(name), "false")
}

func (s *Server) now() time.Time { return s.options.Clock.Wall(s.options.Clock.Now()) }

// attach shows a client what is written to the log of a container from now on.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	wants, err := stream.WantsOf(r)
	if err != nil {
		s.fail(w, refuse(http.StatusBadRequest, "%w", err))
		return
	}
	if err := s.known(r.Context(), r); err != nil {
		s.fail(w, err)
		return
	}
	a, _, err := configuration.Find(&s.rules.Load().objects.Attaches, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		s.fail(w, refuse(http.StatusBadRequest, "no Attach or ClusterAttach: %w", err))
		return
	}
	s.session(w, r, wants, func(ctx context.Context, c *stream.Session) error {
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

// session takes a connection over and runs something for its client.
func (s *Server) session(w http.ResponseWriter, r *http.Request, wants stream.Wants, run func(context.Context, *stream.Session) error) {
	if !s.begin() {
		s.fail(w, refuse(http.StatusServiceUnavailable, "too many sessions"))
		return
	}
	defer s.end()
	var exit *stream.ExitError
	if err := stream.Serve(w, r, wants, run); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
		s.log.Info("session ended", "path", r.URL.Path, "err", err)
	}
}
