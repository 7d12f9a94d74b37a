package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/clock"
)

// TestWheel holds the wheel against what it promises: every timer fires once,
// never early, at most a tick after its time when it is advanced in time, and
// wake never sleeps past one.
func TestWheel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var w wheel
	type entry struct {
		timer
		fired int
		at    clock.Time
	}
	now := clock.Time(0)
	entries := make([]*entry, 2000)
	for i := range entries {
		e := &entry{}
		e.fire = func() { e.fired++; e.at = now }
		entries[i] = e
		w.set(&e.timer, clock.Time(rng.Int64N(int64(60*time.Second))))
	}
	for i, e := range entries {
		switch i % 5 {
		case 0:
			w.stop(&e.timer)
		case 1:
			w.set(&e.timer, clock.Time(rng.Int64N(int64(60*time.Second)))) // changed its mind
		}
	}
	for steps := 0; ; steps++ {
		wake, ok := w.wake()
		if !ok {
			break
		}
		if wake <= now || steps > 100_000 {
			t.Fatalf("wake at %v, it is %v", wake, now)
		}
		now = wake
		w.advance(now)
	}
	for i, e := range entries {
		want := 1
		if i%5 == 0 {
			want = 0
		}
		if e.fired != want {
			t.Errorf("timer %d fired %d times", i, e.fired)
		}
		if late := e.at.Sub(e.due); want == 1 && (late < 0 || late > time.Duration(wheelTick)) {
			t.Errorf("timer %d fired %v after its time", i, late)
		}
	}
	if w.count != 0 {
		t.Errorf("%d timers are left", w.count)
	}
}

// TestWheelInItself: what a firing timer does to others of its slot holds.
func TestWheelInItself(t *testing.T) {
	var w wheel
	var fired []string
	var a, b, c timer
	a.fire = func() {
		fired = append(fired, "a")
		w.stop(&b)
		w.set(&c, c.due.Add(time.Second))
	}
	b.fire = func() { fired = append(fired, "b") }
	c.fire = func() { fired = append(fired, "c") }
	for _, e := range []*timer{&a, &b, &c} {
		w.set(e, clock.Time(time.Millisecond))
	}
	w.advance(clock.Time(time.Second))
	if len(fired) != 1 || !c.waiting() || b.waiting() {
		t.Errorf("fired %v", fired)
	}
	w.advance(clock.Time(time.Minute)) // more than a turn at once
	if len(fired) != 2 || fired[1] != "c" {
		t.Errorf("fired %v", fired)
	}
}

func TestLags(t *testing.T) {
	var l lags
	if l.quantile(0.99) != 0 {
		t.Error("an empty one has a quantile")
	}
	for i := range 1000 {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 0.999: time.Second} {
		if got := l.quantile(q); got < want || float64(got) > 1.13*float64(want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	var r recent
	r.add(0, time.Second)
	if got := r.quantile(9*time.Second, 0.99); got != time.Second {
		t.Errorf("after 9s: %v", got)
	}
	if got := r.quantile(11*time.Second, 0.99); got != 0 {
		t.Errorf("after 11s: %v", got)
	}
}

func TestNames(t *testing.T) {
	f := &Fleet{nodes: make([]*node, 2_000_000), model: &model{fleet: "node"}}
	for _, i := range []uint32{0, 7, 999_999, 1_000_000, 1_999_999} {
		if got, ok := f.index([]byte(f.model.nodeName(i))); !ok || got != i {
			t.Errorf("%s is %d, %v", f.model.nodeName(i), got, ok)
		}
	}
	for _, name := range []string{"", "node-", "node-00001", "node-0000001", "node-2000000", "node-00000x", "mode-000001", "node-9999999999"} {
		if _, ok := f.index([]byte(name)); ok {
			t.Errorf("%q is a node", name)
		}
	}
}

func TestAddresses(t *testing.T) {
	f := &Fleet{nextBlock: firstPod, nodes: make([]*node, 2), model: &model{fleet: "node"}}
	a, b := &node{}, &node{index: 1}
	seen := map[uint32]bool{}
	for range 40 {
		for _, n := range []*node{a, b} {
			ip := f.takeAddress(n)
			if ip == 0 || seen[ip] {
				t.Fatalf("address %v twice", address(ip))
			}
			seen[ip] = true
		}
	}
	a.freeAddress(firstPod + 3)
	if ip := f.takeAddress(a); ip != firstPod+3 {
		t.Errorf("took %v, not the one that was given back", address(ip))
	}
	if got := (&book{fleet: f}).Host([]byte("node-000001")).String(); got != "10.1.0.1" {
		t.Errorf("host %s", got)
	}
	f.nextBlock = lastAddress - blockSize + 1
	if ip := f.takeAddress(&node{}); ip != 0 {
		t.Errorf("took %v from nothing", address(ip))
	}
}

func TestPodKey(t *testing.T) {
	a := podKey([]byte("0b1e5f1c-7d52-4f39-9a39-5a60b6a9a111"))
	if a[0] != 0x0b || a[15] != 0x11 {
		t.Errorf("%x", a)
	}
	if podKey([]byte("x")) == podKey([]byte("y")) || podKey([]byte("0b1e5f1c-7d52-4f39-9a39-5a60b6a9a11z")) == a {
		t.Error("two pods, one key")
	}
}
