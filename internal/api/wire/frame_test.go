package wire_test

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// frames writes what a server may send, and what the cutter is to make of it.
func frames(t testing.TB, repeat int) ([]byte, []wire.Piece) {
	t.Helper()
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	check := func(err error) {
		t.Helper()
		repotest.NoError(t, err)
	}
	var want []wire.Piece
	add := func(kind http2.FrameType, id uint32, payload string, size int) {
		want = append(want, wire.Piece{Kind: kind, Stream: id, Payload: payload, Size: size, Last: true})
	}
	check(f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100}))
	add(http2.FrameSettings, 0, "\x00\x03\x00\x00\x00\x64", 6)
	check(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("\x88"), EndHeaders: true, PadLength: 9, Priority: http2.PriorityParam{StreamDep: 3, Weight: 7}}))
	add(http2.FrameHeaders, 1, "\x88", 1+5+1+9)
	check(f.WriteData(1, false, []byte("hello")))
	add(http2.FrameData, 1, "hello", 5)
	check(f.WriteDataPadded(1, false, []byte("padded"), make([]byte, 20)))
	add(http2.FrameData, 1, "padded", 1+6+20)
	check(f.WriteDataPadded(1, false, nil, make([]byte, 0)))
	add(http2.FrameData, 1, "", 1)
	large := strings.Repeat("large ", repeat)
	check(f.WriteData(1, false, []byte(large)))
	add(http2.FrameData, 1, large, len(large))
	check(f.WriteData(1, true, nil))
	add(http2.FrameData, 1, "", 0)
	check(f.WriteWindowUpdate(0, 77))
	add(http2.FrameWindowUpdate, 0, "\x00\x00\x00\x4d", 4)
	check(f.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}))
	add(http2.FramePing, 0, "\x01\x02\x03\x04\x05\x06\x07\x08", 8)
	check(f.WriteRSTStream(3, http2.ErrCodeRefusedStream))
	add(http2.FrameRSTStream, 3, "\x00\x00\x00\x07", 4)
	check(f.WriteGoAway(5, http2.ErrCodeNo, []byte("bye")))
	add(http2.FrameGoAway, 0, "\x00\x00\x00\x05\x00\x00\x00\x00bye", 11)
	check(f.WriteRawFrame(0x77, 0, 9, []byte("unknown")))
	add(0x77, 9, "unknown", 7)
	return b.Bytes(), want
}

func TestFramesAreCutInPiecesOfAnySize(t *testing.T) {
	p, want := frames(t, 30_000)
	for _, size := range []int{1, 2, 3, 9, 10, 100, 16 << 10, 1 << 20} {
		got, err := wire.Cut(p, size)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("in pieces of %d: %v", size, err)
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("frame %d: %+.100v, want %+.100v", i, got[i], want[i])
				}
			}
		}
	}
}

func TestBrokenFramesAreRefused(t *testing.T) {
	for name, p := range map[string]string{
		"control frame too large":  "\xff\xff\xff\x04\x00\x00\x00\x00\x00",
		"padding beyond data":      "\x00\x00\x02\x00\x08\x00\x00\x00\x01\x02x",
		"padded and empty":         "\x00\x00\x00\x00\x08\x00\x00\x00\x01",
		"padding beyond headers":   "\x00\x00\x02\x01\x0c\x00\x00\x00\x01\x02x",
		"headers without priority": "\x00\x00\x02\x01\x24\x00\x00\x00\x01xx",
		"push":                     "\x00\x00\x04\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02",
	} {
		if _, err := wire.Cut([]byte(p), 1000); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// FuzzFrames compares the cutter with another reader of frames, where that one
// takes what it is given.
func FuzzFrames(f *testing.F) {
	p, _ := frames(f, 30)
	f.Add(p, 7)
	f.Add([]byte("\x00\x00\x05\x00\x08\x00\x00\x00\x01\x02abxx"), 3)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		got, err := wire.Cut(p, size)
		whole, wholeErr := wire.Cut(p, len(p))
		if !reflect.DeepEqual(got, whole) || (err == nil) != (wholeErr == nil) {
			t.Fatalf("in pieces of %d: %d frames, %v; in one: %d, %v", size, len(got), err, len(whole), wholeErr)
		}
		other := http2.NewFramer(io.Discard, bytes.NewReader(p))
		other.SetMaxReadFrameSize(1 << 20)
		other.AllowIllegalReads = true
		for _, piece := range got {
			frame, err := other.ReadFrame()
			if err != nil {
				return // it is stricter
			}
			head := frame.Header()
			if head.Type != piece.Kind || head.StreamID != piece.Stream || int(head.Length) != piece.Size {
				t.Fatalf("%v, want %v", piece, head)
			}
			if d, ok := frame.(*http2.DataFrame); ok && string(d.Data()) != piece.Payload {
				t.Fatalf("data %q, want %q", piece.Payload, d.Data())
			}
			if h, ok := frame.(*http2.HeadersFrame); ok && string(h.HeaderBlockFragment()) != piece.Payload {
				t.Fatalf("headers %q, want %q", piece.Payload, h.HeaderBlockFragment())
			}
		}
	})
}

// FuzzHandle gives a connection whatever a server might send: it may break the
// connection, and no request may be lost or end twice.
func FuzzHandle(f *testing.F) {
	p, _ := frames(f, 30)
	f.Add(p)
	var b bytes.Buffer
	w := http2.NewFramer(&b, nil)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "429"})
	_ = e.WriteField(hpack.HeaderField{Name: "retry-after", Value: "1"})
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()[:2]})
	_ = w.WriteContinuation(1, true, block.Bytes()[2:])
	_ = w.WriteData(1, true, []byte("no"))
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: []byte("\x88"), EndHeaders: true})
	_ = w.WriteData(5, false, []byte("{}\n"))
	_ = w.WriteWindowUpdate(3, 1<<20)
	_ = w.WriteGoAway(1, http2.ErrCodeNo, nil)
	f.Add(b.Bytes())
	f.Fuzz(func(_ *testing.T, p []byte) { wire.Handle(p) })
}

func TestHandleEndsWhatIsAnswered(t *testing.T) {
	if got := wire.Handle([]byte("\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88\x00\x00\x01\x01\x05\x00\x00\x00\x05\x88")); got != 2 {
		t.Errorf("%d requests ended, want 2", got)
	}
}
