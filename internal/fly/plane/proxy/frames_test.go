package proxy

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

func ms(n int) clock.Time { return clock.Time(time.Duration(n) * time.Millisecond) }

func TestCall(t *testing.T) {
	type step struct {
		at   int // ms
		ask  bool
		want int // ms, of an answer
	}
	cases := map[string][]step{
		"unasked":               {{at: 5, want: 0}},
		"one answer":            {{at: 10, ask: true}, {at: 30, want: 20}},
		"request in two parts":  {{at: 10, ask: true}, {at: 14, ask: true}, {at: 30, want: 16}},
		"answer in parts":       {{at: 10, ask: true}, {at: 30, want: 20}, {at: 130, want: 120}, {at: 225, want: 215}},
		"slow first part":       {{at: 0, ask: true}, {at: 5000, want: 5000}},
		"watch events":          {{at: 0, ask: true}, {at: 5, want: 5}, {at: 106, want: 0}, {at: 110, want: 0}, {at: 9000, want: 0}},
		"second call":           {{at: 0, ask: true}, {at: 5, want: 5}, {at: 1000, ask: true}, {at: 1500, want: 500}},
		"ask while it answers":  {{at: 0, ask: true}, {at: 5, want: 5}, {at: 7, ask: true}, {at: 9, want: 2}},
		"exactly as it is over": {{at: 0, ask: true}, {at: 5, want: 5}, {at: 105, want: 105}},
	}
	for name, steps := range cases {
		var c call
		for i, s := range steps {
			if s.ask {
				c.noteRequest(ms(s.at))
			} else if got := c.answerDelay(ms(s.at)); got != time.Duration(s.want)*time.Millisecond {
				t.Errorf("%s: step %d is held for an answer of %v, want %d ms", name, i, got, s.want)
			}
		}
	}
}

// appendFrame writes an HTTP/2 frame of n bytes.
func appendFrame(b []byte, typ, flags byte, stream uint32, n int) []byte {
	b = append(b, byte(n>>16), byte(n>>8), byte(n), typ, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, bytes.Repeat([]byte{typ}, n)...)
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func TestHTTP2TellsCallsApart(t *testing.T) {
	h := newHTTP2()
	asked := func(at int, b []byte) { h.requestSent(ms(at), b) }
	answered := func(at int, b []byte) (took []int) {
		for _, p := range h.answerRead(ms(at), b, nil) {
			took = append(took, int(p.took.Milliseconds()))
		}
		return took
	}
	asked(0, appendFrame([]byte(preface), 4, 0, 0, 18)) // settings
	if got := answered(1, appendFrame(nil, 4, 0, 0, 6)); !reflect.DeepEqual(got, []int{0}) {
		t.Errorf("settings took %v", got)
	}
	asked(10, appendFrame(nil, frameHeaders, 5, 1, 40)) // a GET
	asked(20, appendFrame(nil, frameHeaders, 4, 3, 40)) // a POST, its body comes later
	asked(25, appendFrame(nil, 8, 0, 1, 4))             // a window update asks nothing
	asked(30, appendFrame(nil, frameData, 1, 3, 500))
	// The second is answered first, both in one read.
	both := appendFrame(nil, frameHeaders, 4, 3, 20)
	both = appendFrame(both, frameData, 1, 3, 600)
	both = appendFrame(both, frameHeaders, 4, 1, 20)
	if got := answered(35, both); !reflect.DeepEqual(got, []int{5, 5, 25}) {
		t.Errorf("answers took %v", got)
	}
	if got := answered(60, appendFrame(nil, frameData, 1, 1, 9)); !reflect.DeepEqual(got, []int{50}) {
		t.Errorf("the rest took %v", got)
	}
	if len(h.streams) != 0 {
		t.Errorf("answered to the end, and kept: %v", h.streams)
	}
	asked(70, appendFrame(nil, frameData, 0, 3, 10)) // too late
	asked(70, appendFrame(nil, frameHeaders, 5, 5, 10))
	asked(71, appendFrame(nil, frameReset, 0, 5, 4))
	asked(72, appendFrame(nil, frameHeaders, 5, 7, 10))
	if got := answered(73, appendFrame(nil, frameReset, 0, 7, 4)); !reflect.DeepEqual(got, []int{0}) || len(h.streams) != 0 {
		t.Errorf("after resets: %v, kept %v", got, h.streams)
	}
}

// The scanner finds the same frames however the bytes are cut.
func FuzzScanner(f *testing.F) {
	all := appendFrame(appendFrame(appendFrame(nil, 1, 4, 1, 40), 0, 1, 1, 0), 0, 0, 3, 300)
	f.Add(all, uint8(1))
	f.Add(all, uint8(7))
	f.Add([]byte{0xff, 0xff, 0xff, 1, 2, 3}, uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, part uint8) {
		type found struct {
			frame frame
			ends  int
		}
		scan := func(part int) (out []found) {
			var s scanner
			at := 0
			for rest := data; len(rest) > 0; {
				chunk := rest[:min(part, len(rest))]
				rest = rest[len(chunk):]
				for len(chunk) > 0 {
					n, f, last := s.nextFrame(chunk)
					if n < 1 || n > len(chunk) {
						t.Fatalf("%d of %d bytes", n, len(chunk))
					}
					chunk = chunk[n:]
					at += n
					if last {
						out = append(out, found{f, at})
					}
				}
			}
			return out
		}
		whole, parts := scan(len(data)+1), scan(int(part)+1)
		if !reflect.DeepEqual(whole, parts) {
			t.Fatalf("whole: %v\nin parts: %v", whole, parts)
		}
	})
}
