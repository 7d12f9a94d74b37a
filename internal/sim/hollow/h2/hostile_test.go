package h2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
)

// handler answers what the tests ask for.
type handler struct {
	entered chan string   // the path of each request to /wait
	left    chan error    // why it ended
	release chan struct{} // ends it
}

func newHandler() *handler {
	return &handler{entered: make(chan string, 10_000), left: make(chan error, 10_000), release: make(chan struct{})}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/wait":
		h.entered <- r.URL.Path
		select {
		case <-r.Context().Done():
			h.left <- r.Context().Err()
		case <-h.release:
			h.left <- nil
		}
	case "/endless":
		for {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 8<<10)); err != nil {
				h.left <- err
				return
			}
		}
	case "/unread":
		w.WriteHeader(http.StatusAccepted)
	case "/panic":
		panic(http.ErrAbortHandler)
	case "/large":
		_, _ = w.Write(bytes.Repeat([]byte("y"), 300<<10))
	default:
		in, err := io.ReadAll(r.Body)
		if err != nil {
			h.left <- err
			return
		}
		_, _ = w.Write(append([]byte(r.Method+" "+r.Host+" "), in...))
	}
}

func quick(r *http.Request) bool { return strings.HasPrefix(r.URL.RawQuery, "quick") }

// peer is a client that may break any rule.
type peer struct {
	t testing.TB
	*http2.Framer
	net   net.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

// dial connects a peer with a server, which ends with the test.
func dial(t testing.TB, o h2.Options) *peer {
	t.Helper()
	o.Clock = clock.Start()
	s := h2.New(o)
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if n, err := l.Accept(); err == nil {
			s.Serve(t.Context(), n)
		}
	}()
	n := repotest.Must(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() {
		_ = s.Close()
		<-served
		_ = n.Close()
		_ = l.Close()
	})
	_ = n.SetDeadline(time.Now().Add(30 * time.Second))
	p := &peer{t: t, Framer: http2.NewFramer(n, n), net: n}
	p.AllowIllegalWrites = true
	p.enc = hpack.NewEncoder(&p.block)
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return p
}

// greet sends the preface and settings.
func (p *peer) greet(s ...http2.Setting) *peer {
	p.t.Helper()
	if _, err := io.WriteString(p.net, http2.ClientPreface); err != nil {
		p.t.Fatal(err)
	}
	p.do(p.WriteSettings(s...))
	return p
}

func (p *peer) do(err error) {
	p.t.Helper()
	repotest.NoError(p.t, err)
}

// encode returns a header block of names and values.
func (p *peer) encode(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return p.block.Bytes()
}

// ask begins a request.
func (p *peer) ask(id uint32, ended bool, path string, more ...string) {
	p.t.Helper()
	fields := append([]string{":method", "POST", ":scheme", "https", ":authority", "h", ":path", path}, more...)
	p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(fields...), EndHeaders: true, EndStream: ended}))
}

// answer is how a stream or a connection ended.
type answer struct {
	status string
	body   string
	code   http2.ErrCode // of RST_STREAM or GOAWAY
	goAway bool
	err    error // that the connection ended with
}

// until reads until stream id has ended, or the connection, if it is 0. An answer
// whose client is told to stop sending is one.
func (p *peer) until(id uint32) (a answer) {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			a.err = err
			return a
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			a.goAway, a.code = true, f.ErrCode
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				a.code = f.ErrCode
				return a
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				a.status = f.PseudoValue("status")
			}
		case *http2.DataFrame:
			if f.StreamID == id {
				a.body += string(f.Data())
			}
		}
		h := f.Header()
		if ended := h.Flags.Has(http2.FlagDataEndStream) && (h.Type == http2.FrameData || h.Type == http2.FrameHeaders); ended && h.StreamID == id {
			return a
		}
	}
}

// Breaking a rule ends the connection with the code of the rule, and no other way.
func TestBrokenRulesEndTheConnection(t *testing.T) {
	block := func(p *peer) []byte { return p.encode(":method", "GET", ":scheme", "https", ":path", "/") }
	for name, c := range map[string]struct {
		do   func(p *peer)
		want http2.ErrCode
	}{
		"no settings first":   {func(p *peer) { _, _ = io.WriteString(p.net, http2.ClientPreface); _ = p.WritePing(false, [8]byte{}) }, http2.ErrCodeProtocol},
		"another preface":     {func(p *peer) { _, _ = io.WriteString(p.net, strings.Repeat("x", 24)) }, http2.ErrCodeProtocol},
		"a frame too large":   {func(p *peer) { _ = p.greet().WriteRawFrame(0x42, 0, 0, make([]byte, 16385)) }, http2.ErrCodeFrameSize},
		"an even stream":      {func(p *peer) { p.greet().ask(2, true, "/") }, http2.ErrCodeProtocol},
		"data of no stream":   {func(p *peer) { _ = p.greet().WriteData(1, true, []byte("x")) }, http2.ErrCodeProtocol},
		"reset of no stream":  {func(p *peer) { _ = p.greet().WriteRSTStream(1, http2.ErrCodeCancel) }, http2.ErrCodeProtocol},
		"window of no stream": {func(p *peer) { _ = p.greet().WriteWindowUpdate(1, 1) }, http2.ErrCodeProtocol},
		"a window of nothing": {func(p *peer) { _ = p.greet().WriteWindowUpdate(0, 0) }, http2.ErrCodeProtocol},
		"a window too large":  {func(p *peer) { _ = p.greet().WriteWindowUpdate(0, 1<<31-1) }, http2.ErrCodeFlowControl},
		"an initial window too large": {func(p *peer) {
			_ = p.greet().WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
		}, http2.ErrCodeFlowControl},
		"settings of five bytes": {func(p *peer) { _ = p.greet().WriteRawFrame(http2.FrameSettings, 0, 0, make([]byte, 5)) }, http2.ErrCodeFrameSize},
		"a ping of a stream":     {func(p *peer) { _ = p.greet().WriteRawFrame(http2.FramePing, 0, 1, make([]byte, 8)) }, http2.ErrCodeProtocol},
		"a push":                 {func(p *peer) { _ = p.greet().WriteRawFrame(http2.FramePushPromise, 4, 1, make([]byte, 4)) }, http2.ErrCodeProtocol},
		"no header table":        {func(p *peer) { _ = p.greet().WriteRawFrame(http2.FrameHeaders, 5, 1, []byte{0xff, 0xff, 0xff}) }, http2.ErrCodeCompression},
		"a block not continued": {func(p *peer) {
			_ = p.greet().WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(p)})
			_ = p.WritePing(false, [8]byte{})
		}, http2.ErrCodeProtocol},
		"nothing to continue": {func(p *peer) { _ = p.greet().WriteContinuation(1, true, block(p)) }, http2.ErrCodeProtocol},
		"continued without end": {func(p *peer) {
			_ = p.greet().WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(p)})
			for range 20_000 {
				_ = p.WriteContinuation(1, false, nil)
			}
		}, http2.ErrCodeEnhanceYourCalm},
		"a block too large": {func(p *peer) {
			_ = p.greet().WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(p)})
			for range 17 {
				_ = p.WriteContinuation(1, false, make([]byte, 16384))
			}
		}, http2.ErrCodeEnhanceYourCalm},
		"data beyond the connection's window": {func(p *peer) {
			p.greet()
			for i := range 9 { // of 127 KiB each, which their streams would take
				p.ask(uint32(2*i+1), false, "/wait")
				for range 127 {
					_ = p.WriteData(uint32(2*i+1), false, make([]byte, 1<<10))
				}
			}
		}, http2.ErrCodeFlowControl},
		"pings without end":      {func(p *peer) { p.greet().flood(func() error { return p.WritePing(false, [8]byte{}) }) }, http2.ErrCodeEnhanceYourCalm},
		"settings without end":   {func(p *peer) { p.greet().flood(func() error { return p.WriteSettings() }) }, http2.ErrCodeEnhanceYourCalm},
		"windows without end":    {func(p *peer) { p.greet().flood(func() error { return p.WriteWindowUpdate(0, 1) }) }, http2.ErrCodeEnhanceYourCalm},
		"priorities without end": {func(p *peer) { p.greet().flood(func() error { return p.WritePriority(1, http2.PriorityParam{}) }) }, http2.ErrCodeEnhanceYourCalm},
		"resets without end": {func(p *peer) {
			id := uint32(1)
			p.greet().flood(func() error {
				p.enc = hpack.NewEncoder(&p.block)
				err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(":method", "GET", ":scheme", "https", ":path", "/wait"), EndHeaders: true, EndStream: true})
				id += 2
				return errors.Join(err, p.WriteRSTStream(id-2, http2.ErrCodeCancel))
			})
		}, http2.ErrCodeEnhanceYourCalm},
		"nothing without end": {func(p *peer) {
			p.greet().ask(1, false, "/")
			p.flood(func() error { return p.WriteData(1, false, nil) })
		}, http2.ErrCodeEnhanceYourCalm},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, h2.Options{Handler: newHandler(), Quick: quick})
			end := make(chan answer, 1)
			go func() { end <- p.until(0) }()
			c.do(p)
			if a := <-end; !a.goAway || a.code != c.want || a.err == nil {
				t.Errorf("%+v, want GOAWAY %v", a, c.want)
			}
		})
	}
}

// flood sends until the server has had enough.
func (p *peer) flood(one func() error) {
	for range 1_000_000 {
		if one() != nil {
			return
		}
	}
}

// Breaking a rule of one request ends that and leaves the others alone.
func TestBrokenRequestsAreReset(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(p *peer)
		want http2.ErrCode
	}{
		"no path":            {func(p *peer) { p.headers(":method", "GET", ":scheme", "https") }, http2.ErrCodeProtocol},
		"no method":          {func(p *peer) { p.headers(":path", "/", ":scheme", "https") }, http2.ErrCodeProtocol},
		"no scheme":          {func(p *peer) { p.headers(":path", "/", ":method", "GET") }, http2.ErrCodeProtocol},
		"two paths":          {func(p *peer) { p.ask(1, true, "/", ":path", "/") }, http2.ErrCodeProtocol},
		"no URL":             {func(p *peer) { p.ask(1, true, "::") }, http2.ErrCodeProtocol},
		"CONNECT":            {func(p *peer) { p.headers(":method", "CONNECT", ":authority", "h", ":scheme", "https", ":path", "/") }, http2.ErrCodeProtocol},
		"an unknown pseudo":  {func(p *peer) { p.ask(1, true, "/", ":status", "200") }, http2.ErrCodeProtocol},
		"a late pseudo":      {func(p *peer) { p.headers(":method", "GET", "a", "b", ":scheme", "https", ":path", "/") }, http2.ErrCodeProtocol},
		"an upper-case name": {func(p *peer) { p.ask(1, true, "/", "Accept", "x") }, http2.ErrCodeProtocol},
		"a line in a value":  {func(p *peer) { p.ask(1, true, "/", "accept", "x\r\ny: z") }, http2.ErrCodeProtocol},
		"a name of HTTP/1.1": {func(p *peer) { p.ask(1, true, "/", "transfer-encoding", "chunked") }, http2.ErrCodeProtocol},
		"two lengths":        {func(p *peer) { p.ask(1, false, "/", "content-length", "1", "content-length", "1") }, http2.ErrCodeProtocol},
		"a length below 0":   {func(p *peer) { p.ask(1, false, "/", "content-length", "-1") }, http2.ErrCodeProtocol},
		"less than its length": {func(p *peer) {
			p.ask(1, false, "/", "content-length", "2")
			p.do(p.WriteData(1, true, []byte("x")))
		}, http2.ErrCodeProtocol},
		"more than its length": {func(p *peer) {
			p.ask(1, false, "/", "content-length", "1")
			p.do(p.WriteData(1, false, []byte("xx")))
		}, http2.ErrCodeProtocol},
		"data after the end": {func(p *peer) {
			p.ask(1, true, "/wait")
			p.do(p.WriteData(1, true, []byte("x")))
		}, http2.ErrCodeStreamClosed},
		"headers after the end": {func(p *peer) {
			p.ask(1, true, "/wait")
			p.ask(1, true, "/wait")
		}, http2.ErrCodeStreamClosed},
		"trailers without end": {func(p *peer) {
			p.ask(1, false, "/wait")
			p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode("a", "b"), EndHeaders: true}))
		}, http2.ErrCodeProtocol},
		"a window too large": {func(p *peer) {
			p.ask(1, true, "/wait")
			p.do(p.WriteWindowUpdate(1, 1<<31-1))
		}, http2.ErrCodeFlowControl},
		"a handler that gives up":          {func(p *peer) { p.ask(1, true, "/panic") }, http2.ErrCodeInternal},
		"a quick handler that gives up":    {func(p *peer) { p.ask(1, true, "/panic?quick") }, http2.ErrCodeInternal},
		"a handler that does not read all": {func(p *peer) { p.ask(1, false, "/unread") }, http2.ErrCodeNo},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, h2.Options{Handler: newHandler(), Quick: quick}).greet()
			c.do(p)
			a := p.until(1)
			if a.code == 0 && a.status == "202" {
				a = p.until(1)
			}
			if a.code != c.want || a.err != nil || a.goAway {
				t.Fatalf("%+v, want %v", a, c.want)
			}
			for i, path := range []string{"/", "/?quick"} {
				p.ask(uint32(3+2*i), false, path)
				p.do(p.WriteData(uint32(3+2*i), true, []byte("fine")))
				if a := p.until(uint32(3 + 2*i)); a.status != "200" || a.body != "POST h fine" || a.goAway {
					t.Errorf("%s after it: %+v", path, a)
				}
			}
		})
	}
}

// headers sends a header block as a request.
func (p *peer) headers(fields ...string) {
	p.t.Helper()
	p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(fields...), EndHeaders: true, EndStream: true}))
}

func TestHeaderListTooLarge(t *testing.T) {
	p := dial(t, h2.Options{Handler: newHandler()}).greet()
	var fields []string
	for range 90 { // one of 4 kB in the table, and then each a byte
		fields = append(fields, "x", strings.Repeat("v", 3000))
	}
	p.ask(1, true, "/", fields...)
	if a := p.until(1); a.status != "431" {
		t.Errorf("%+v", a)
	}
	p.ask(3, true, "/")
	if a := p.until(3); a.status != "200" {
		t.Errorf("after it: %+v", a)
	}
}

// What is reset while its body has not come is never handled, or hears of it.
func TestResetEndsHandlers(t *testing.T) {
	h := newHandler()
	p := dial(t, h2.Options{Handler: h}).greet()
	p.ask(1, true, "/wait")
	<-h.entered
	p.do(p.WriteRSTStream(1, http2.ErrCodeCancel))
	if err := <-h.left; err == nil {
		t.Error("a handler whose client reset its request does not hear of it")
	}
	p.ask(3, false, "/")
	p.do(p.WriteData(3, false, []byte("x")))
	p.do(p.WriteRSTStream(3, http2.ErrCodeCancel))
	p.ask(5, true, "/")
	if a := p.until(5); a.status != "200" {
		t.Errorf("after it: %+v", a)
	}
	p.ask(7, true, "/wait")
	<-h.entered
	_ = p.net.Close()
	if err := <-h.left; err == nil {
		t.Error("a handler whose client has left does not hear of it")
	}
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	h := newHandler()
	p := dial(t, h2.Options{Handler: h, Streams: 2}).greet()
	p.ask(1, true, "/wait")
	p.ask(3, true, "/wait")
	p.ask(5, true, "/")
	if a := p.until(5); a.code != http2.ErrCodeRefusedStream {
		t.Errorf("the third of two: %+v", a)
	}
	close(h.release)
	if a := p.until(1); a.status != "200" {
		t.Errorf("the first: %+v", a)
	}
}

// No more is sent than the client takes, on a stream and on the connection, by a
// handler that waits for it and by one that may not.
func TestWindowsAreKept(t *testing.T) {
	for _, path := range []string{"/large", "/large?quick"} {
		p := dial(t, h2.Options{Handler: newHandler(), Quick: quick}).greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		p.ask(1, true, path)
		p.count(1, 10)
		p.do(p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 25}))
		p.count(1, 15)
		p.do(p.WriteWindowUpdate(1, 1<<20))
		p.count(1, 65535-25)
		p.do(p.WriteWindowUpdate(0, 1<<20))
		if a := p.until(1); len(a.body) != 300<<10-65535 {
			t.Errorf("%s: %d bytes at last", path, len(a.body))
		}
	}
}

// count reads until exactly n bytes of a stream have come, and nothing more.
func (p *peer) count(id uint32, n int) {
	p.t.Helper()
	for n > 0 {
		f, err := p.ReadFrame()
		p.do(err)
		if d, ok := f.(*http2.DataFrame); ok && d.StreamID == id {
			n -= len(d.Data())
		}
	}
	p.do(p.WritePing(false, [8]byte{1}))
	for n == 0 {
		f, err := p.ReadFrame()
		p.do(err)
		switch f := f.(type) {
		case *http2.DataFrame:
			n -= len(f.Data())
		case *http2.PingFrame:
			return
		}
	}
	p.t.Fatalf("%d bytes more than the windows take", -n)
}

// A client that reads nothing is given up, and so are its handlers.
func TestSlowReadersAreGivenUp(t *testing.T) {
	h := newHandler()
	p := dial(t, h2.Options{Handler: h, Stall: 300 * time.Millisecond}).greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	p.do(p.WriteWindowUpdate(0, 1<<30))
	p.ask(1, true, "/endless")
	select {
	case err := <-h.left:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the handler writes still")
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	p := dial(t, h2.Options{Handler: newHandler(), Idle: 2 * time.Second}).greet()
	p.ask(1, true, "/")
	if a := p.until(1); a.status != "200" {
		t.Fatalf("%+v", a)
	}
	if a := p.until(0); !a.goAway || a.code != http2.ErrCodeNo || !errors.Is(a.err, io.EOF) {
		t.Errorf("%+v", a)
	}
}

func TestCloseSaysGoodbye(t *testing.T) {
	h := newHandler()
	s := h2.New(h2.Options{Handler: h, Clock: clock.Start()})
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		if n, err := l.Accept(); err == nil {
			s.Serve(t.Context(), n)
		}
	}()
	n := repotest.Must(net.Dial("tcp", l.Addr().String()))(t)
	defer n.Close()
	p := &peer{t: t, Framer: http2.NewFramer(n, n), net: n}
	p.enc = hpack.NewEncoder(&p.block)
	p.greet().ask(1, true, "/wait")
	<-h.entered
	repotest.NoError(t, s.Close())
	if err := <-h.left; err == nil {
		t.Error("Close does not end handlers")
	}
	if a := p.until(0); !a.goAway || a.code != http2.ErrCodeNo {
		t.Errorf("%+v", a)
	}
	if err := s.Close(); err != nil {
		t.Error(fmt.Errorf("once more: %w", err))
	}
}
