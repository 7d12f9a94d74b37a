package link

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestForeignPeer holds that another implementation of RFC 6455 reads our frames,
// and ours reads its.
func TestForeignPeer(t *testing.T) {
	server, client := net.Pipe()
	go func() {
		defer server.Close()
		_, err := answerUpgrade(server, nil, func(*http.Request, *tls.ConnectionState) error { return nil })
		if err != nil {
			return
		}
		a := assembler{limit: 1 << 20}
		buffer := make([]byte, 100)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			err = a.feedBytes(buffer[:n], func(op byte, payload []byte) error {
				if op == opClose {
					return errClosed
				}
				_, err := server.Write(appendFrame(nil, op, payload, nil))
				return err
			})
			if err != nil {
				return
			}
		}
	}()
	config := repotest.Must(websocket.NewConfig("ws://hub/x/n/events", "http://hub"))(t)
	ws := repotest.Must(websocket.NewClient(config, client))(t)
	defer ws.Close()
	for _, want := range []string{"a", string(bytes.Repeat([]byte("b"), 70000))} {
		var got string
		if err := errors.Join(websocket.Message.Send(ws, want), websocket.Message.Receive(ws, &got)); err != nil || got != want {
			t.Errorf("%d bytes came back of %d: %v", len(got), len(want), err)
		}
	}
}

// TestFragments holds that a message of several frames is one, with a ping within,
// whatever pieces it comes in.
func TestFragments(t *testing.T) {
	mask := [4]byte{1, 2, 3, 4}
	first := appendFrame(nil, opText, []byte("hello "), &mask)
	first[0] &^= 0x80
	stream := append(append(first, appendFrame(nil, opPing, []byte("?"), &mask)...), appendFrame(nil, opContinue, []byte("edge"), &mask)...)
	for size := 1; size <= len(stream); size++ {
		a, got := assembler{limit: 100}, ""
		for part := range slices.Chunk(slices.Clone(stream), size) {
			repotest.NoError(t, a.feedBytes(slices.Clone(part), func(op byte, p []byte) error { got += string(rune('0'+op)) + string(p) + ";"; return nil }))
		}
		if want := "9?;1hello edge;"; got != want || a.pending != nil || a.message != nil {
			t.Errorf("pieces of %d: got %q, want %q", size, got, want)
		}
	}
}

// TestHostileFrames holds that what breaks the protocol is refused, and how.
func TestHostileFrames(t *testing.T) {
	for _, c := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"reserved bits", []byte{0xf1, 0x80, 0, 0, 0, 0}, ErrProtocol},
		{"opcode 5", []byte{0x85, 0x80, 0, 0, 0, 0}, ErrProtocol},
		{"a ping of two frames", []byte{0x09, 0x80, 0, 0, 0, 0}, ErrProtocol},
		{"not masked", []byte{0x81, 0x00}, ErrProtocol},
		{"continued nothing", []byte{0x80, 0x80, 0, 0, 0, 0}, ErrProtocol},
		{"1 GiB", []byte{0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0}, ErrTooLarge},
		{"more than an int", []byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, ErrTooLarge},
	} {
		a := assembler{limit: 1 << 20}
		if err := a.feedBytes(c.raw, func(byte, []byte) error { return nil }); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// FuzzFrames holds that no bytes break the assembler, that it keeps no more than it
// may, and that pieces make no difference.
func FuzzFrames(f *testing.F) {
	mask := [4]byte{9, 8, 7, 6}
	f.Add(appendFrame(appendFrame(nil, opText, []byte(`{"header":{}}`), &mask), opPing, nil, &mask), 3)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		const limit = 1 << 10
		read := func(size int) (out string) {
			a := assembler{limit: limit}
			for part := range slices.Chunk(slices.Clone(raw), size) {
				err := a.feedBytes(slices.Clone(part), func(op byte, p []byte) error { out += string(rune('0'+op)) + string(p); return nil })
				if err != nil {
					break
				}
				if len(a.message) > limit || len(a.pending) > limit+14 {
					t.Fatalf("keeps %d and %d bytes", len(a.message), len(a.pending))
				}
			}
			return out
		}
		if whole, parts := read(max(len(raw), 1)), read(max(size&0xff, 1)); whole != parts {
			t.Errorf("in pieces %q, at once %q", parts, whole)
		}
	})
}

// FuzzRecords holds that no bytes break the reading of records, and that whole
// ones come through whatever pieces they come in.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("hello"), []byte{23, 3, 3, 0, 20}, 7)
	f.Fuzz(func(t *testing.T, plain, junk []byte, size int) {
		out, err := newTraffic(make([]byte, 32))
		in, err2 := newTraffic(make([]byte, 32))
		repotest.NoError(t, errors.Join(err, err2))
		stream := repotest.Must(out.sealRecords(nil, plain, typeData))(t)
		r, got := records{in: in, out: out}, []byte{}
		var rest []byte
		for part := range slices.Chunk(stream, max(size&0xfff, 1)) {
			rest, _, err = r.openRecords(append(rest, part...), func(b []byte) error { got = append(got, b...); return nil })
			repotest.NoError(t, err)
			rest = slices.Clone(rest)
		}
		if !bytes.Equal(got, plain) || len(rest) > 0 {
			t.Errorf("%q became %q", plain, got)
		}
		_, _, _ = r.openRecords(slices.Clone(junk), func([]byte) error { return nil }) // must return
	})
}
