package h2_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
)

// recorded is a connection whose client has sent all that it will, and keeps what it
// is sent.
type recorded struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (r *recorded) Read(p []byte) (int, error)       { return r.in.Read(p) }
func (r *recorded) Write(p []byte) (int, error)      { return r.out.Write(p) }
func (*recorded) Close() error                       { return nil }
func (*recorded) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*recorded) SetDeadline(time.Time) error        { return nil }
func (r *recorded) SetReadDeadline(time.Time) error  { return nil }
func (r *recorded) SetWriteDeadline(time.Time) error { return nil }

// script returns what a client may send, without its preface.
func script(do func(p *peer)) []byte {
	var b bytes.Buffer
	p := &peer{Framer: http2.NewFramer(&b, nil)}
	p.AllowIllegalWrites = true
	p.enc = hpack.NewEncoder(&p.block)
	_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	do(p)
	return b.Bytes()
}

// begin sends a request's headers.
func (p *peer) begin(id uint32, ended bool, path string) {
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: ended,
		BlockFragment: p.encode(":method", "POST", ":scheme", "https", ":path", path, "content-type", "x")})
}

// FuzzFrames gives a server whatever a client might send. What it answers are frames,
// no stream ends twice, and no more data comes than the client's windows have taken.
func FuzzFrames(f *testing.F) {
	f.Add(script(func(p *peer) {
		p.begin(1, false, "/?quick")
		_ = p.WriteData(1, true, []byte("body"))
		p.begin(3, false, "/")
		_ = p.WriteDataPadded(3, false, []byte("b"), make([]byte, 9))
		p.begin(5, true, "/large?quick")
		_ = p.WriteWindowUpdate(5, 5000)
		_ = p.WriteRSTStream(5, http2.ErrCodeCancel)
		_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: p.encode("a", "b"), EndHeaders: true, EndStream: true})
	}))
	f.Add(script(func(p *peer) {
		block := p.encode(":method", "GET", ":scheme", "https", ":path", "/large")
		_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:3], EndStream: true})
		_ = p.WriteContinuation(1, true, block[3:])
		_ = p.WriteWindowUpdate(0, 1<<20)
		_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20})
		_ = p.WritePing(false, [8]byte{1})
		_ = p.WritePriority(1, http2.PriorityParam{StreamDep: 3})
		_ = p.WriteGoAway(0, http2.ErrCodeNo, []byte("bye"))
		_ = p.WriteRawFrame(0x77, 0, 9, []byte("unknown"))
	}))
	f.Add(script(func(p *peer) {
		p.begin(1, true, "/panic?quick")
		p.begin(3, true, "/panic")
		p.begin(5, false, "/unread")
		_ = p.WriteData(5, false, []byte("x"))
		p.begin(4, true, "/")
	}))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 {
			return
		}
		s := h2.New(h2.Options{Handler: http.HandlerFunc(replies), Quick: quick, Clock: clock.Start(), Streams: 8})
		r := &recorded{in: io.MultiReader(bytes.NewReader([]byte(http2.ClientPreface)), bytes.NewReader(in))}
		s.Serve(t.Context(), r)
		check(t, in, r.out.Bytes())
	})
}

// replies is a handler that waits for nobody but its client.
func replies(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic(http.ErrAbortHandler)
	case "/unread":
		return
	case "/large":
		for range 5 {
			_, _ = w.Write(make([]byte, 20_000))
		}
	default:
		in, _ := io.ReadAll(r.Body)
		_, _ = w.Write(in)
	}
}

// check holds what a server answered against what it was sent.
func check(t *testing.T, in, out []byte) {
	t.Helper()
	taken := int64(65535)
	sent := http2.NewFramer(io.Discard, bytes.NewReader(in))
	sent.AllowIllegalReads = true
	for {
		f, err := sent.ReadFrame()
		if err != nil {
			break
		}
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == 0 {
			taken += int64(w.Increment)
		}
	}
	got := http2.NewFramer(io.Discard, bytes.NewReader(out))
	got.SetMaxReadFrameSize(1<<24 - 1)
	got.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	ended := map[uint32]bool{}
	for {
		f, err := got.ReadFrame()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("an answer is no frame: %v", err)
		}
		h := f.Header()
		switch f.(type) {
		case *http2.DataFrame:
			taken -= int64(h.Length)
		case *http2.MetaHeadersFrame:
		default:
			continue
		}
		if ended[h.StreamID] {
			t.Fatalf("%v after the end of its stream", h)
		}
		ended[h.StreamID] = h.Flags.Has(http2.FlagDataEndStream)
	}
	if taken < 0 {
		t.Fatalf("%d bytes more than the client takes", -taken)
	}
}
