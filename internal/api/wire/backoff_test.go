package wire_test

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

func TestBackoff(t *testing.T) {
	b := wire.CallBackoff()
	for before, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 8: 25600 * time.Millisecond, 9: 30 * time.Second, 1 << 30: 30 * time.Second,
	} {
		if got := b.Pause(before); got != want {
			t.Errorf("after %d failures: %v, want %v", before, got, want)
		}
	}
	if least, most := b.Jittered(1, 0), b.Jittered(1, 1); least != 160*time.Millisecond || most != 240*time.Millisecond {
		t.Errorf("200ms becomes %v to %v", least, most)
	}
}

func TestReopening(t *testing.T) {
	const ms = time.Millisecond
	type end struct {
		after, lasted time.Duration // since the end before; of the watch
		brought       bool
		pause         time.Duration
	}
	again := func(n int, e end) (out []end) {
		for range n {
			out = append(out, e)
		}
		return out
	}
	for name, ends := range map[string][]end{
		"what brings nothing": {
			{pause: 100 * ms}, {pause: 200 * ms}, {pause: 400 * ms}, {pause: 800 * ms}, {pause: 1600 * ms}, {pause: 3200 * ms}, {pause: 5 * time.Second}, {pause: 5 * time.Second},
		},
		"the time that it lasted counts":    {{lasted: 30 * ms, pause: 70 * ms}, {lasted: time.Second}, {lasted: 6 * time.Second}, {pause: 200 * ms}},
		"what brings something begins anew": {{pause: 100 * ms}, {pause: 200 * ms}, {brought: true}, {pause: 100 * ms}},
		"a busy server":                     again(600, end{after: 1010 * ms, lasted: 1010 * ms, brought: true}),
		"a busy moment":                     append(again(10, end{after: 50 * ms, lasted: 50 * ms, brought: true}), end{after: 10 * time.Second, brought: true}),
		"a server that ends all at once":    append(again(10, end{brought: true}), end{brought: true, pause: time.Second}, end{after: time.Second, brought: true, pause: time.Second}),
	} {
		t.Run(name, func(t *testing.T) {
			r, now := wire.Reopening{Backoff: wire.Backoff{First: 100 * ms, Last: 5 * time.Second}}, clock.Time(0)
			for i, e := range ends {
				now = now.Add(e.after)
				if got := r.Pause(now, e.lasted, e.brought); got != e.pause {
					t.Errorf("end %d: pause %v, want %v", i, got, e.pause)
				}
			}
		})
	}
}
