package h2_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
)

// The rules of RFC 9113 and RFC 7541 for servers, section by section: what a client does,
// and what has to become of it. The sections and situations are those that h2spec looks
// at (h2spec_test.go has its cases), and some that RFC 9113 has added.

// rule is one of them.
type rule struct {
	what string
	do   func(p *peer)
	want outcome
}

// outcome is what becomes of it: it judges what the peer reads.
type outcome func(p *peer) error

// answers is an answer to a stream, with the body that handler gives for its method and
// what was sent.
func answers(id uint32, body string) outcome {
	return func(p *peer) error {
		if a := p.until(id); a.status != "200" || a.body != body || a.goAway || a.code != 0 {
			return fmt.Errorf("%+v, want an answer %q", a, body)
		}
		return nil
	}
}

// resets ends a stream, and lets the connection live.
func resets(id uint32, code http2.ErrCode) outcome {
	return func(p *peer) error {
		if a := p.until(id); a.code != code || a.goAway || a.err != nil {
			return fmt.Errorf("%+v, want a reset with %v", a, code)
		}
		return lives(p)
	}
}

// ends ends the connection.
func ends(code http2.ErrCode) outcome {
	return func(p *peer) error {
		if a := p.until(0); !a.goAway || a.code != code || a.err == nil {
			return fmt.Errorf("%+v, want GOAWAY with %v", a, code)
		}
		return nil
	}
}

// lives says that nothing has come of it: a ping and a request are answered.
func lives(p *peer) error {
	if err := quiet(p); err != nil {
		return err
	}
	p.ask(99, true, "/")
	return answers(99, "POST h ")(p)
}

// quiet says that the connection is there, and sends nothing more but what a ping has it
// send.
func quiet(p *peer) error {
	p.do(p.WritePing(false, [8]byte{'l'}))
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return err
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			return fmt.Errorf("GOAWAY with %v, want nothing", g.ErrCode)
		}
		if d, ok := f.(*http2.DataFrame); ok && len(d.Data()) > 0 {
			return fmt.Errorf("%d bytes of stream %d, want nothing", len(d.Data()), d.StreamID)
		}
		if f, ok := f.(*http2.PingFrame); ok && f.IsAck() && f.Data == [8]byte{'l'} {
			return nil
		}
	}
}

// acks is the acknowledgement of a frame, with the payload that it is to have.
func acks(kind http2.FrameType, payload string) outcome {
	return func(p *peer) error {
		for {
			f, err := p.ReadFrame()
			if err != nil {
				return err
			}
			if h := f.Header(); h.Type != kind || !h.Flags.Has(http2.FlagPingAck) {
				continue
			}
			if f, ok := f.(*http2.PingFrame); ok && string(f.Data[:]) != payload {
				return fmt.Errorf("PING with %q, want %q", f.Data, payload)
			}
			return nil
		}
	}
}

// gives is a body in pieces of data of given lengths, one for each window that is opened.
func gives(id uint32, lengths ...int) outcome {
	return func(p *peer) error {
		var got []int
		for len(got) < len(lengths) {
			f, err := p.ReadFrame()
			if err != nil {
				return fmt.Errorf("%w after %v", err, got)
			}
			if f, ok := f.(*http2.DataFrame); ok && f.StreamID == id {
				got = append(got, len(f.Data()))
			}
		}
		if !slices.Equal(got, lengths) {
			return fmt.Errorf("data of %v bytes, want %v", got, lengths)
		}
		return quiet(p)
	}
}

var getFields = []string{":method", "GET", ":scheme", "https", ":authority", "h", ":path", "/"}

// get sends a request without a body, of getFields and more.
func (p *peer) get(id uint32, more ...string) {
	p.block1(id, true, p.encode(append(slices.Clone(getFields), more...)...))
}

// block1 sends a header block in one frame.
func (p *peer) block1(id uint32, end bool, block []byte) {
	p.t.Helper()
	p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: end}))
}

// raw sends a frame of any kind.
func (p *peer) raw(kind http2.FrameType, flags http2.Flags, id uint32, payload string) {
	p.t.Helper()
	p.do(p.WriteRawFrame(kind, flags, id, []byte(payload)))
}

// window is the setting of an initial window.
func window(n uint32) http2.Setting {
	return http2.Setting{ID: http2.SettingInitialWindowSize, Val: n}
}

// part are parts of a header block for two frames.
func (p *peer) parts(fields ...string) (first, second []byte) {
	b := bytes.Clone(p.encode(fields...))
	return b[:len(b)/2], b[len(b)/2:]
}

// TestRules plays all rules, each on a connection of its own.
func TestRules(t *testing.T) {
	for _, section := range rules() {
		for _, r := range section.rules {
			t.Run(section.of+": "+r.what, func(t *testing.T) {
				t.Parallel()
				p := dial(t, h2.Options{Handler: newHandler(), Quick: quick, Streams: 100})
				if !strings.Contains(r.what, "preface") {
					p.greet()
				}
				r.do(p)
				if err := r.want(p); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func rules() []section {
	return slices.Concat(framing(), streams(), frames(), settings(), windows(), messages(), compression(), accepted())
}

type section struct {
	of    string
	rules []rule
}

const (
	protocol    = http2.ErrCodeProtocol
	frameSize   = http2.ErrCodeFrameSize
	flow        = http2.ErrCodeFlowControl
	closed      = http2.ErrCodeStreamClosed
	hpackBroken = http2.ErrCodeCompression
)

func framing() []section {
	return []section{
		{"RFC 9113, 3.4", []rule{
			{"a preface and settings", func(p *peer) { p.greet().get(1) }, answers(1, "GET h ")},
			{"another preface", func(p *peer) { _, _ = io.WriteString(p.net, "PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n") }, ends(protocol)},
			{"a preface without settings", func(p *peer) { _, _ = io.WriteString(p.net, http2.ClientPreface); p.get(1) }, ends(protocol)},
			{"a preface and an acknowledgement", func(p *peer) { _, _ = io.WriteString(p.net, http2.ClientPreface); p.do(p.WriteSettingsAck()) }, ends(protocol)},
			{"settings acknowledged after the preface", func(p *peer) { p.greet() }, acks(http2.FrameSettings, "")},
		}},
		{"RFC 9113, 4.1", []rule{
			{"an unknown type", func(p *peer) { p.raw(0x16, 0xff, 0, "12345678") }, lives},
			{"flags that a type does not have", func(p *peer) { p.raw(http2.FramePing, 0x16, 0, "12345678") }, acks(http2.FramePing, "12345678")},
			{"the reserved bit of a stream", func(p *peer) {
				_, err := p.net.Write(append([]byte{0, 0, 8, byte(http2.FramePing), 0, 0x80, 0, 0, 0}, "87654321"...))
				p.do(err)
			}, acks(http2.FramePing, "87654321")},
		}},
		{"RFC 9113, 4.2", []rule{
			{"data of 2^14 bytes", func(p *peer) {
				p.ask(1, false, "/unread")
				p.do(p.WriteData(1, true, make([]byte, 1<<14)))
			}, func(p *peer) error { // it is answered before, after, or without a reset
				if a := p.until(1); a.status != "202" && a.code != 0 || a.goAway {
					return fmt.Errorf("%+v", a)
				}
				return lives(p)
			}},
			{"data of more", func(p *peer) { p.ask(1, false, "/wait"); p.raw(http2.FrameData, 1, 1, strings.Repeat("x", 1<<14+1)) }, ends(frameSize)},
			{"headers of more", func(p *peer) { p.raw(http2.FrameHeaders, 5, 1, strings.Repeat("x", 1<<14+1)) }, ends(frameSize)},
			{"a ping of 6 bytes", func(p *peer) { p.raw(http2.FramePing, 0, 0, "123456") }, ends(frameSize)},
		}},
		{"RFC 9113, 4.3", []rule{
			{"a block that cannot be decoded", func(p *peer) { p.block1(1, true, []byte{0x40}) }, ends(hpackBroken)},
			{"a priority within a block", func(p *peer) {
				first, second := p.parts(getFields...)
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true}))
				p.do(p.WritePriority(1, http2.PriorityParam{Weight: 255}))
				p.do(p.WriteContinuation(1, true, second))
			}, ends(protocol)},
			{"headers of another stream within a block", func(p *peer) {
				first, _ := p.parts(getFields...)
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true}))
				p.get(3)
			}, ends(protocol)},
		}},
		{"RFC 9113, 5.4.1", []rule{
			{"GOAWAY before the connection ends", func(p *peer) { p.raw(http2.FramePing, 0, 3, "12345678") }, ends(protocol)},
			{"GOAWAY names the last stream", func(p *peer) { p.ask(5, true, "/wait"); p.raw(http2.FrameGoAway, 0, 1, "12345678") }, func(p *peer) error {
				for {
					f, err := p.ReadFrame()
					if err != nil {
						return err
					}
					if g, ok := f.(*http2.GoAwayFrame); ok {
						if g.LastStreamID != 5 || g.ErrCode != protocol {
							return fmt.Errorf("%v", g)
						}
						return nil
					}
				}
			}},
		}},
		{"RFC 9113, 5.5", []rule{
			{"an extension's frame of a stream", func(p *peer) { p.raw(0xfe, 0, 1, "x") }, lives},
			{"one within a block", func(p *peer) {
				first, second := p.parts(getFields...)
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true}))
				p.raw(0x16, 0, 1, "x")
				p.do(p.WriteContinuation(1, true, second))
			}, ends(protocol)},
		}},
		{"RFC 9113, 7", []rule{
			{"GOAWAY with an unknown code", func(p *peer) { p.do(p.WriteGoAway(0, 0xff, nil)) }, lives},
			{"a reset with an unknown code", func(p *peer) { p.ask(1, true, "/wait"); p.do(p.WriteRSTStream(1, 0xff)) }, lives},
		}},
	}
}

func streams() []section {
	half := func(p *peer) { p.ask(1, true, "/wait") } // the client has said all
	done := func(p *peer) { p.get(1); _ = p.until(1) }
	left := func(p *peer) { p.ask(1, false, "/wait"); p.do(p.WriteRSTStream(1, http2.ErrCodeCancel)) }
	then := func(first, second func(*peer)) func(*peer) { return func(p *peer) { first(p); second(p) } }
	data := func(p *peer) { p.do(p.WriteData(1, true, []byte("x"))) }
	headers := func(p *peer) { p.get(1) }
	continued := func(p *peer) { p.do(p.WriteContinuation(1, true, p.encode("a", "b"))) }
	opened := func(p *peer) { p.do(p.WriteWindowUpdate(1, 10)) }
	reset := func(p *peer) { p.do(p.WriteRSTStream(1, http2.ErrCodeCancel)) }
	priority := func(p *peer) { p.do(p.WritePriority(1, http2.PriorityParam{StreamDep: 7})) }
	return []section{
		{"RFC 9113, 5.1, idle", []rule{
			{"data", data, ends(protocol)},
			{"a reset", reset, ends(protocol)},
			{"a window", opened, ends(protocol)},
			{"a continuation", continued, ends(protocol)},
			{"a priority", priority, lives},
			{"headers", func(p *peer) { p.get(1) }, answers(1, "GET h ")},
		}},
		{"RFC 9113, 5.1, half-closed", []rule{
			{"data", then(half, data), resets(1, closed)},
			{"headers", then(half, headers), resets(1, closed)},
			{"a continuation", then(half, continued), ends(protocol)},
			{"a window", then(half, opened), lives},
			{"a priority", then(half, priority), lives},
			{"a reset", then(half, reset), lives},
		}},
		{"RFC 9113, 5.1, closed by the client's reset", []rule{
			{"data", then(left, data), resets(1, closed)},
			{"headers", then(left, headers), resets(1, closed)},
			{"a continuation", then(left, continued), ends(protocol)},
			{"a window", then(left, opened), lives},
			{"a reset", then(left, reset), lives},
			{"a priority", then(left, priority), lives},
		}},
		{"RFC 9113, 5.1, closed", []rule{
			{"data", then(done, data), resets(1, closed)},
			{"headers", then(done, headers), resets(1, closed)},
			{"a continuation", then(done, continued), ends(protocol)},
			{"a window", then(done, opened), lives},
			{"a reset", then(done, reset), lives},
			{"a priority", then(done, priority), lives},
		}},
		{"RFC 9113, 5.1.1", []rule{
			{"an even stream", func(p *peer) { p.get(2) }, ends(protocol)},
			{"a stream before one that was opened", func(p *peer) { p.get(5); _ = p.until(5); p.get(3) }, ends(protocol)},
			{"the first stream after another", func(p *peer) { p.get(3); _ = p.until(3); p.get(1) }, ends(protocol)},
			{"streams that are left out", func(p *peer) { p.get(7); _ = p.until(7); p.get(21) }, answers(21, "GET h ")},
		}},
		{"RFC 9113, 5.1.2", []rule{
			{"one stream more than the settings allow", func(p *peer) {
				for i := range uint32(101) {
					p.ask(2*i+1, true, "/wait")
				}
			}, func(p *peer) error {
				if a := p.until(201); a.code != http2.ErrCodeRefusedStream || a.goAway {
					return fmt.Errorf("%+v", a)
				}
				return nil
			}},
		}},
		{"RFC 7540, 5.3.1, of no effect in RFC 9113", []rule{
			{"headers that depend on themselves", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...), EndHeaders: true, EndStream: true, Priority: http2.PriorityParam{StreamDep: 1, Weight: 255}}))
			}, answers(1, "GET h ")},
			{"a priority that depends on itself", func(p *peer) { p.do(p.WritePriority(3, http2.PriorityParam{StreamDep: 3})) }, lives},
		}},
	}
}

func frames() []section {
	open := func(p *peer) { p.ask(1, false, "/") }
	return []section{
		{"RFC 9113, 6.1", []rule{
			{"data", func(p *peer) {
				open(p)
				p.do(p.WriteData(1, false, []byte("a")))
				p.do(p.WriteData(1, true, []byte("b")))
			}, answers(1, "POST h ab")},
			{"data with padding", func(p *peer) { open(p); p.do(p.WriteDataPadded(1, true, []byte("a"), make([]byte, 100))) }, answers(1, "POST h a")},
			{"data of nothing but padding", func(p *peer) { open(p); p.raw(http2.FrameData, 0x9, 1, "\x03\x00\x00\x00") }, answers(1, "POST h ")},
			{"data of no stream", func(p *peer) { p.raw(http2.FrameData, 1, 0, "x") }, ends(protocol)},
			{"data of a stream that is not open", func(p *peer) { p.ask(1, true, "/wait"); p.do(p.WriteData(1, true, nil)) }, resets(1, closed)},
			{"padding as long as the frame", func(p *peer) { open(p); p.raw(http2.FrameData, 0x9, 1, "\x04abc") }, ends(protocol)},
			{"no length of padding", func(p *peer) { open(p); p.raw(http2.FrameData, 0x9, 1, "") }, ends(frameSize)},
		}},
		{"RFC 9113, 6.2", []rule{
			{"headers with padding", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...), EndHeaders: true, EndStream: true, PadLength: 100}))
			}, answers(1, "GET h ")},
			{"headers with a priority", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...), EndHeaders: true, EndStream: true, Priority: http2.PriorityParam{StreamDep: 9, Exclusive: true, Weight: 3}}))
			}, answers(1, "GET h ")},
			{"no end of headers, and then a priority", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...)}))
				p.do(p.WritePriority(1, http2.PriorityParam{}))
			}, ends(protocol)},
			{"no end of headers, and then others", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...)}))
				p.get(3)
			}, ends(protocol)},
			{"headers of no stream", func(p *peer) { p.raw(http2.FrameHeaders, 5, 0, string(p.encode(getFields...))) }, ends(protocol)},
			{"more padding than frame", func(p *peer) { p.raw(http2.FrameHeaders, 0xd, 1, "\xff"+string(p.encode(getFields...))) }, ends(protocol)},
			{"half of a priority", func(p *peer) { p.raw(http2.FrameHeaders, 0x25, 1, "\x00\x00") }, ends(frameSize)},
		}},
		{"RFC 9113, 6.3", []rule{
			{"a priority of no stream", func(p *peer) { p.raw(http2.FramePriority, 0, 0, "\x00\x00\x00\x00\x00") }, ends(protocol)},
			{"priorities of all weights and kinds", func(p *peer) {
				for i, by := range []http2.PriorityParam{{Weight: 0}, {Weight: 255}, {StreamDep: 1}, {StreamDep: 1, Exclusive: true}} {
					p.do(p.WritePriority(uint32(3+2*i), by))
				}
			}, lives},
			{"a priority of a stream, and then a request of a lower one", func(p *peer) { p.do(p.WritePriority(5, http2.PriorityParam{Weight: 255})); p.get(3) }, answers(3, "GET h ")},
			{"a priority of 4 bytes", func(p *peer) { p.ask(1, true, "/wait"); p.raw(http2.FramePriority, 0, 1, "\x00\x00\x00\x00") }, ends(frameSize)},
		}},
		{"RFC 9113, 6.4", []rule{
			{"a reset", func(p *peer) { p.ask(1, true, "/wait"); p.do(p.WriteRSTStream(1, http2.ErrCodeCancel)) }, lives},
			{"a reset of no stream", func(p *peer) { p.raw(http2.FrameRSTStream, 0, 0, "\x00\x00\x00\x08") }, ends(protocol)},
			{"a reset of a stream that was not opened", func(p *peer) { p.do(p.WriteRSTStream(1, http2.ErrCodeCancel)) }, ends(protocol)},
			{"a reset of 3 bytes", func(p *peer) { p.ask(1, true, "/wait"); p.raw(http2.FrameRSTStream, 0, 1, "\x00\x00\x00") }, ends(frameSize)},
		}},
		{"RFC 9113, 6.7", []rule{
			{"a ping", func(p *peer) { p.do(p.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})) }, acks(http2.FramePing, "\x01\x02\x03\x04\x05\x06\x07\x08")},
			{"an acknowledgement that nobody waits for", func(p *peer) { p.do(p.WritePing(true, [8]byte{'x'})) }, lives},
			{"a ping of a stream", func(p *peer) { p.raw(http2.FramePing, 0, 1, "12345678") }, ends(protocol)},
			{"a ping of 7 bytes", func(p *peer) { p.raw(http2.FramePing, 0, 0, "1234567") }, ends(frameSize)},
		}},
		{"RFC 9113, 6.8", []rule{
			{"GOAWAY", func(p *peer) { p.do(p.WriteGoAway(0, http2.ErrCodeNo, []byte("debug"))) }, lives},
			{"GOAWAY of a stream", func(p *peer) { p.raw(http2.FrameGoAway, 0, 1, "\x00\x00\x00\x00\x00\x00\x00\x00") }, ends(protocol)},
		}},
		{"RFC 9113, 6.10", []rule{
			{"a continuation", func(p *peer) {
				first, second := p.parts(getFields...)
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true}))
				p.do(p.WriteContinuation(1, true, second))
			}, answers(1, "GET h ")},
			{"several continuations, also empty ones", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true}))
				for _, b := range bytes.Clone(p.encode(getFields...)) {
					p.do(p.WriteContinuation(1, false, []byte{b}))
				}
				p.do(p.WriteContinuation(1, true, nil))
			}, answers(1, "GET h ")},
			{"another frame before the end", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...), EndStream: true}))
				p.do(p.WriteContinuation(1, false, p.encode("a", "b")))
				p.do(p.WriteData(1, true, []byte("x")))
			}, ends(protocol)},
			{"a continuation of no stream", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...), EndStream: true}))
				p.raw(http2.FrameContinuation, 4, 0, "")
			}, ends(protocol)},
			{"a continuation of another stream", func(p *peer) {
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(getFields...), EndStream: true}))
				p.do(p.WriteContinuation(3, true, nil))
			}, ends(protocol)},
			{"one behind the end of headers", func(p *peer) { p.ask(1, true, "/wait"); p.do(p.WriteContinuation(1, true, p.encode("a", "b"))) }, ends(protocol)},
			{"one behind the end of continuations", func(p *peer) {
				first, second := p.parts(":method", "POST", ":scheme", "https", ":path", "/wait")
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true}))
				p.do(p.WriteContinuation(1, true, second))
				p.do(p.WriteContinuation(1, true, p.encode("a", "b")))
			}, ends(protocol)},
			{"one behind data", func(p *peer) {
				open(p)
				p.do(p.WriteData(1, true, []byte("x")))
				p.do(p.WriteContinuation(1, true, p.encode("a", "b")))
			}, ends(protocol)},
		}},
		{"RFC 9113, 8.4", []rule{
			{"a push", func(p *peer) { p.raw(http2.FramePushPromise, 4, 1, "\x00\x00\x00\x02"+string(p.encode(getFields...))) }, ends(protocol)},
		}},
	}
}

func settings() []section {
	one := func(id http2.SettingID, v uint32) func(p *peer) {
		return func(p *peer) { p.do(p.WriteSettings(http2.Setting{ID: id, Val: v})) }
	}
	return []section{
		{"RFC 9113, 6.5", []rule{
			{"an acknowledgement with a payload", func(p *peer) { p.raw(http2.FrameSettings, 1, 0, "\x00\x00\x00\x00\x00\x00") }, ends(frameSize)},
			{"settings of a stream", func(p *peer) { p.raw(http2.FrameSettings, 0, 1, "\x00\x03\x00\x00\x00\x64") }, ends(protocol)},
			{"settings of 5 bytes", func(p *peer) { p.raw(http2.FrameSettings, 0, 0, "\x00\x03\x00\x00\x00") }, ends(frameSize)},
		}},
		{"RFC 9113, 6.5.2", []rule{
			{"a push of 2", one(http2.SettingEnablePush, 2), ends(protocol)},
			{"an initial window of 2^31", one(http2.SettingInitialWindowSize, 1<<31), ends(flow)},
			{"frames of less than 2^14", one(http2.SettingMaxFrameSize, 1<<14-1), ends(protocol)},
			{"frames of 2^24", one(http2.SettingMaxFrameSize, 1<<24), ends(protocol)},
			{"frames of 2^24-1", one(http2.SettingMaxFrameSize, 1<<24-1), lives},
			{"a setting that is unknown", one(0xff, 1), lives},
			{"no push", one(http2.SettingEnablePush, 0), lives},
			{"no table of headers", one(http2.SettingHeaderTableSize, 0), lives},
			{"a large table of headers", one(http2.SettingHeaderTableSize, 1<<32-1), lives},
			{"no streams from the server", one(http2.SettingMaxConcurrentStreams, 0), lives},
		}},
		{"RFC 9113, 6.5.3", []rule{
			{"the last of several values counts", func(p *peer) {
				p.do(p.WriteSettings(window(100), window(1), window(3)))
				p.ask(1, true, "/large")
			}, gives(1, 3)},
			{"a value that is wrong before one that is right", func(p *peer) { p.do(p.WriteSettings(window(1<<31), window(1))) }, ends(flow)},
			{"each is acknowledged", func(p *peer) { p.do(p.WriteSettings()); p.do(p.WriteSettings()) }, func(p *peer) error {
				for range 3 {
					if err := acks(http2.FrameSettings, "")(p); err != nil {
						return err
					}
				}
				return nil
			}},
		}},
	}
}

func windows() []section {
	return []section{
		{"RFC 9113, 6.9", []rule{
			{"an increment of 0", func(p *peer) { p.raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00") }, ends(protocol)},
			{"an increment of 0 of a stream", func(p *peer) { p.ask(1, true, "/wait"); p.raw(http2.FrameWindowUpdate, 0, 1, "\x00\x00\x00\x00") }, ends(protocol)},
			{"an increment of 3 bytes", func(p *peer) { p.raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x01") }, ends(frameSize)},
			{"increments of the connection and of a stream", func(p *peer) {
				p.ask(1, true, "/wait")
				p.do(p.WriteWindowUpdate(0, 1))
				p.do(p.WriteWindowUpdate(1, 1))
			}, lives},
			{"the reserved bit of an increment", func(p *peer) { p.raw(http2.FrameWindowUpdate, 0, 0, "\x80\x00\x00\x01") }, lives},
		}},
		{"RFC 9113, 6.9.1", []rule{
			{"no more than the stream's window", func(p *peer) { p.do(p.WriteSettings(window(1))); p.ask(1, true, "/large") }, gives(1, 1)},
			{"no more than the connection's", func(p *peer) { p.do(p.WriteSettings(window(1 << 20))); p.ask(1, true, "/large?quick") }, gives(1, 16384, 16384, 16384, 16383)},
			{"increments beyond 2^31-1", func(p *peer) { p.do(p.WriteWindowUpdate(0, 1<<31-1)); p.do(p.WriteWindowUpdate(0, 1<<31-1)) }, ends(flow)},
			{"increments of a stream beyond 2^31-1", func(p *peer) {
				p.ask(1, true, "/wait")
				p.do(p.WriteWindowUpdate(1, 1<<31-1))
			}, resets(1, flow)},
		}},
		{"RFC 9113, 6.9.2", []rule{
			{"a larger initial window after the headers", func(p *peer) {
				p.do(p.WriteSettings(window(0)))
				p.ask(1, true, "/large")
				p.do(p.WriteSettings(window(1)))
			}, gives(1, 1)},
			{"a window below 0", func(p *peer) {
				p.do(p.WriteSettings(window(3)))
				p.ask(1, true, "/large")
				p.count(1, 3)
				p.do(p.WriteSettings(window(2)))
				p.do(p.WriteWindowUpdate(1, 2)) // of which one makes up for what is too much
			}, gives(1, 1)},
			{"an initial window of 2^32-1", func(p *peer) { p.do(p.WriteSettings(window(1<<32 - 1))) }, ends(flow)},
			{"an initial window that takes another beyond 2^31-1", func(p *peer) {
				p.ask(1, true, "/wait")
				p.do(p.WriteWindowUpdate(1, 1<<31-1-65535))
				p.do(p.WriteSettings(window(65536)))
			}, ends(flow)},
		}},
	}
}

func messages() []section {
	fields := func(f ...string) func(p *peer) { return func(p *peer) { p.headers(f...) } }
	more := func(f ...string) func(p *peer) { return func(p *peer) { p.get(1, f...) } }
	bad := resets(1, protocol)
	return []section{
		{"RFC 9113, 8.1", []rule{
			{"a second block that does not end the stream", func(p *peer) { p.ask(1, false, "/wait"); p.block1(1, false, p.encode("a", "b")) }, bad},
			{"trailers", func(p *peer) {
				p.ask(1, false, "/")
				p.do(p.WriteData(1, false, []byte("x")))
				p.block1(1, true, p.encode("a", "b"))
			}, answers(1, "POST h x")},
			{"an answer before the request has come", func(p *peer) { p.ask(1, false, "/unread") }, func(p *peer) error {
				if a := p.until(1); a.status != "202" && a.code != http2.ErrCodeNo || a.goAway {
					return fmt.Errorf("%+v", a)
				}
				return lives(p)
			}},
		}},
		{"RFC 9113, 8.2.1", []rule{
			{"a name in capital letters", more("X-Test", "ok"), bad},
			{"a name with a blank", more("x test", "ok"), bad},
			{"a name with a colon", more("x:test", "ok"), bad},
			{"a name that is empty", more("", "ok"), bad},
			{"a name beyond ASCII", more("x-ä", "ok"), bad},
			{"a value with a zero", more("x-test", "a\x00b"), bad},
			{"a value with a line feed", more("x-test", "a\nb"), bad},
			{"a value with a carriage return", more("x-test", "a\rb"), bad},
			{"a value that begins with a blank", more("x-test", " a"), bad},
			{"a value that ends with a tab", more("x-test", "a\t"), bad},
			{"a path that ends with a blank", fields(":method", "GET", ":scheme", "https", ":path", "/ "), bad},
			{"an empty value", more("x-test", ""), answers(1, "GET h ")},
		}},
		{"RFC 9113, 8.2.2", []rule{
			{"connection", more("connection", "keep-alive"), bad},
			{"proxy-connection", more("proxy-connection", "keep-alive"), bad},
			{"keep-alive", more("keep-alive", "1"), bad},
			{"transfer-encoding", more("transfer-encoding", "chunked"), bad},
			{"upgrade", more("upgrade", "h2c"), bad},
			{"te of more than trailers", more("te", "trailers, deflate"), bad},
			{"te of trailers", more("te", "trailers"), answers(1, "GET h ")},
		}},
		{"RFC 9113, 8.3", []rule{
			{"an unknown pseudo field", more(":test", "ok"), bad},
			{"one of answers", more(":status", "200"), bad},
			{"one in trailers", func(p *peer) { p.ask(1, false, "/wait"); p.block1(1, true, p.encode(":method", "GET")) }, bad},
			{"one behind other fields", fields(":method", "GET", "x-test", "ok", ":scheme", "https", ":path", "/"), bad},
		}},
		{"RFC 9113, 8.3.1", []rule{
			{"an empty path", fields(":method", "GET", ":scheme", "https", ":path", ""), bad},
			{"no method", fields(":scheme", "https", ":path", "/"), bad},
			{"no scheme", fields(":method", "GET", ":path", "/"), bad},
			{"no path", fields(":method", "GET", ":scheme", "https"), bad},
			{"two methods", more(":method", "GET"), bad},
			{"two schemes", more(":scheme", "https"), bad},
			{"two paths", more(":path", "/"), bad},
			{"a path without a slash", fields(":method", "GET", ":scheme", "https", ":path", "a"), bad},
			{"a path that is a URL", fields(":method", "GET", ":scheme", "https", ":path", "https://h/"), bad},
			{"a path of a star", fields(":method", "GET", ":scheme", "https", ":path", "*"), bad},
			{"a path of a star to OPTIONS", fields(":method", "OPTIONS", ":scheme", "https", ":authority", "h", ":path", "*"), answers(1, "OPTIONS h ")},
			{"a host in place of an authority", fields(":method", "GET", ":scheme", "https", ":path", "/", "host", "x"), answers(1, "GET x ")},
		}},
		{"RFC 9113, 8.1.1", []rule{
			{"less than its length", func(p *peer) { p.ask(1, false, "/", "content-length", "2"); p.do(p.WriteData(1, true, []byte("x"))) }, bad},
			{"less than its length in several frames", func(p *peer) {
				p.ask(1, false, "/", "content-length", "9")
				p.do(p.WriteData(1, false, []byte("test")))
				p.do(p.WriteData(1, true, []byte("test")))
			}, bad},
			{"a length, and no body", more("content-length", "1"), bad},
			{"a length that is no number", more("content-length", "+1"), bad},
			{"its length", func(p *peer) {
				p.ask(1, false, "/", "content-length", "2")
				p.do(p.WriteData(1, false, []byte("x")))
				p.do(p.WriteData(1, true, []byte("y")))
			}, answers(1, "POST h xy")},
		}},
	}
}

// literal is a field that is in no table: of a prefix, and a name and a value as they are.
func literal(prefix byte, name, value string) string {
	return string(prefix) + string(byte(len(name))) + name + string(byte(len(value))) + value
}

// huffman is a text in Huffman code, with its length.
func huffman(s string) string {
	b := hpack.AppendHuffmanString(nil, s)
	return string(append([]byte{byte(len(b)) | 0x80}, b...))
}

func compression() []section {
	base := "\x82\x87\x84" // GET, https, /
	with := func(block string) func(p *peer) { return func(p *peer) { p.block1(1, true, []byte(base+block)) } }
	fine := answers(1, "GET  ")
	return []section{
		{"RFC 7541, 2.3.3", []rule{
			{"an index beyond both tables", with("\xc6"), ends(hpackBroken)},
			{"a name beyond both tables", with("\x7f\x10\x01x"), ends(hpackBroken)},
		}},
		{"RFC 7541, 4.2", []rule{
			{"a new size of the table behind a field", with("\x40\x01a\x01b\x20"), ends(hpackBroken)},
		}},
		{"RFC 7541, 5.1", []rule{
			{"a number without end", with("\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), ends(hpackBroken)},
		}},
		{"RFC 7541, 5.2", []rule{
			{"padding of more than 7 bits", with("\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff\xff"), ends(hpackBroken)},
			{"padding of zeros", with("\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90"), ends(hpackBroken)},
			{"the code of an end", with("\x00\x85\xf2\xb2\x4a\x84\xff\x88\x49\x50\x9f\xff\xff\xff\xfc\xff"), ends(hpackBroken)},
			{"a text longer than the block", with("\x00\x05a"), ends(hpackBroken)},
		}},
		{"RFC 7541, 6.1", []rule{
			{"an index of 0", with("\x80"), ends(hpackBroken)},
			{"a field of the static table", with("\x90"), fine},
			{"a field that was added", func(p *peer) {
				p.block1(1, true, []byte(base+literal(0x40, "x-test", "v")))
				_ = p.until(1)
				p.block1(3, true, []byte(base+"\xbe"))
			}, answers(3, "GET  ")},
		}},
		{"RFC 7541, 6.2", []rule{
			{"added, an indexed name", with("\x7a\x01v"), fine},
			{"added, an indexed name, in Huffman code", with("\x7a" + huffman("v")), fine},
			{"added, a new name", with(literal(0x40, "x-test", "v")), fine},
			{"added, a new name, in Huffman code", with("\x40" + huffman("x-test") + huffman("v")), fine},
			{"not added, an indexed name", with("\x0f\x2b\x01v"), fine},
			{"not added, an indexed name, in Huffman code", with("\x0f\x2b" + huffman("v")), fine},
			{"not added, a new name", with(literal(0, "x-test", "v")), fine},
			{"not added, a new name, in Huffman code", with("\x00" + huffman("x-test") + huffman("v")), fine},
			{"never added, an indexed name", with("\x1f\x2b\x01v"), fine},
			{"never added, an indexed name, in Huffman code", with("\x1f\x2b" + huffman("v")), fine},
			{"never added, a new name", with(literal(0x10, "x-test", "v")), fine},
			{"never added, a new name, in Huffman code", with("\x10" + huffman("x-test") + huffman("v")), fine},
		}},
		{"RFC 7541, 6.3", []rule{
			{"a table larger than the settings allow", func(p *peer) { p.block1(1, true, []byte("\x3f\xe2\x1f"+base)) }, ends(hpackBroken)},
			{"a smaller table", func(p *peer) { p.block1(1, true, []byte("\x20"+base)) }, fine},
			{"two new sizes", func(p *peer) { p.block1(1, true, []byte("\x20\x3f\xe1\x1f"+base)) }, fine},
			{"a field of a table that was emptied", func(p *peer) {
				p.block1(1, true, []byte(base+literal(0x40, "x-test", "v")))
				_ = p.until(1)
				p.block1(3, true, []byte("\x20"+base+"\xbe"))
			}, ends(hpackBroken)},
		}},
	}
}

// accepted are messages as clients send them.
func accepted() []section {
	return []section{
		{"RFC 9113, 8.3.1, requests", []rule{
			{"GET", func(p *peer) { p.get(1) }, answers(1, "GET h ")},
			{"HEAD", func(p *peer) { p.headers(":method", "HEAD", ":scheme", "https", ":authority", "h", ":path", "/") }, answers(1, "")},
			{"POST", func(p *peer) { p.ask(1, false, "/"); p.do(p.WriteData(1, true, []byte("body"))) }, answers(1, "POST h body")},
			{"POST with trailers and a continuation", func(p *peer) {
				p.ask(1, false, "/", "trailer", "x-test")
				p.do(p.WriteData(1, false, []byte("body")))
				first, second := p.parts("x-test", "ok")
				p.do(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true}))
				p.do(p.WriteContinuation(1, true, second))
			}, answers(1, "POST h body")},
			{"cookies in several fields", func(p *peer) { p.get(1, "cookie", "a=b", "cookie", "c=d") }, answers(1, "GET h ")},
			{"several at once", func(p *peer) {
				p.ask(1, false, "/")
				p.get(3)
				p.do(p.WriteData(1, true, []byte("late")))
			}, func(p *peer) error {
				seen := map[uint32]bool{}
				for len(seen) < 2 {
					f, err := p.ReadFrame()
					if err != nil {
						return err
					}
					if f, ok := f.(*http2.DataFrame); ok && f.StreamEnded() {
						seen[f.StreamID] = true
					}
				}
				return nil
			}},
			{"an answer has a status and a length", func(p *peer) { p.get(1) }, func(p *peer) error {
				for {
					f, err := p.ReadFrame()
					if err != nil {
						return err
					}
					if f, ok := f.(*http2.MetaHeadersFrame); ok {
						if f.PseudoValue("status") != fmt.Sprint(http.StatusOK) || !slices.ContainsFunc(f.RegularFields(), func(h hpack.HeaderField) bool { return h.Name == "content-length" && h.Value == "6" }) {
							return fmt.Errorf("%v", f)
						}
						return nil
					}
				}
			}},
		}},
	}
}
