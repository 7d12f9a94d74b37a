package proxy

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// What comes out of a queue is what was put in, in order, none of it early, and
// none later than what was put in after it.
func TestQueueKeepsBytesOrderAndTimes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var q queue
		var in, out bytes.Buffer
		var due []clock.Time // of each byte in
		now := clock.Time(0)
		for range 300 {
			if random.IntN(2) == 0 {
				room := q.nextBuffer(func() *block { return new(block) })
				n := 1 + random.IntN(min(len(room), 1+random.IntN(blockBytes)))
				for i := range n {
					room[i] = byte(random.Uint32())
				}
				in.Write(room[:n])
				at := now + clock.Time(random.IntN(50))
				if len(due) > 0 {
					at = max(at, due[len(due)-1])
				}
				for range n {
					due = append(due, at)
				}
				q.putBytes(n, at, goesOn)
				continue
			}
			now += clock.Time(random.IntN(20))
			limit := 1 + random.IntN(blockBytes)
			b := q.dueBytes(now, limit)
			if len(b) > limit {
				t.Fatalf("%d bytes, limit %d", len(b), limit)
			}
			if len(b) == 0 {
				if done := out.Len(); done < len(due) && due[done] <= now {
					t.Fatalf("byte %d is due at %d and does not come at %d", done, due[done], now)
				}
				continue
			}
			if last := out.Len() + len(b) - 1; due[last] > now {
				t.Fatalf("byte %d is due at %d and comes at %d", last, due[last], now)
			}
			out.Write(b)
			q.discardBytes(len(b))
			if q.bytes != in.Len()-out.Len() {
				t.Fatalf("%d bytes, want %d", q.bytes, in.Len()-out.Len())
			}
		}
		if !bytes.Equal(out.Bytes(), in.Bytes()[:out.Len()]) {
			t.Fatal("bytes are changed")
		}
	}
}

func TestQueueEndsAfterItsBytes(t *testing.T) {
	var q queue
	copy(q.nextBuffer(func() *block { return new(block) }), "last words")
	q.putBytes(10, 50, goesOn)
	q.putBytes(0, 20, closes)
	if got := *q.marks.last(); got.due != 50 || got.end != closes {
		t.Errorf("the end is %+v", got)
	}
	q.discardBytes(len(q.dueBytes(50, 100)))
	if got := *q.marks.first(); got.end != closes || q.bytes != 0 {
		t.Errorf("left: %+v, %d bytes", got, q.bytes)
	}
}

// A queue of which a little is always taken reuses its blocks and its marks.
func TestQueueDoesNotGrowForEver(t *testing.T) {
	var q queue
	made := 0
	for i := range 100_000 {
		q.nextBuffer(func() *block { made++; return new(block) })
		q.putBytes(100, clock.Time(i), goesOn)
		if i >= 10 {
			q.discardBytes(100)
		}
	}
	// Each block that is used up is given back to the caller.
	if want := 100_000 * 100 / (blockBytes - minRead); made > want+2 || cap(q.marks.items) > 100 || cap(q.blocks.items) > 100 {
		t.Errorf("%d blocks made (at most %d), places for %d marks and %d blocks", made, want, cap(q.marks.items), cap(q.blocks.items))
	}
}

func TestMarksCount(t *testing.T) {
	var q queue
	for i := range 1000 {
		q.nextBuffer(func() *block { return new(block) })
		q.putBytes(1, clock.Time(i), goesOn)
	}
	if got := q.size(); got != 1000+1000*markBytes {
		t.Errorf("size %d", got)
	}
}

func TestBandwidthIsShared(t *testing.T) {
	var d direction
	// Two connections of 1,000 bytes at a time on 100 kB/s take turns.
	var last clock.Time
	for i := range 20 {
		got := d.reserveTime(last, 1000, 100_000)
		if want := clock.Time((i + 1) * int(10*time.Millisecond)); got != want {
			t.Fatalf("portion %d is through at %v, want %v", i, time.Duration(got), time.Duration(want))
		}
	}
	// What was not used is lost: no burst after silence.
	if got := d.reserveTime(clock.Time(time.Second), 1000, 100_000); got != clock.Time(1010*time.Millisecond) {
		t.Errorf("after silence through at %v", time.Duration(got))
	}
	for rate, want := range map[int64]int{0: blockBytes, 1: 1, 99: 1, 5000: 50, 1 << 40: blockBytes} {
		if got := portionOf(rate); got != want {
			t.Errorf("portion of %d bytes/s is %d, want %d", rate, got, want)
		}
	}
}

func TestLinkIsValidated(t *testing.T) {
	for _, s := range []Link{{RoundTrip: -1}, {Jitter: -1}, {BytesPerSecond: -1}, {AnswerFactor: 0.9}, {AnswerFactor: -1}, {AnswerFactor: 1e9}} {
		if err := s.checkLink(); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
	for _, s := range []Link{{}, {RoundTrip: time.Hour, Jitter: 1, BytesPerSecond: 1, AnswerFactor: 1}} {
		if err := s.checkLink(); err != nil {
			t.Error(err)
		}
	}
}
