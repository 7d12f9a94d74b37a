package network_test

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// arrivals keeps what an end has counted.
type arrivals struct {
	mu  sync.Mutex
	all []network.Arrival
}

func (a *arrivals) take(one network.Arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, one)
}

func (a *arrivals) last() (last network.Arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) > 0 {
		last = a.all[len(a.all)-1]
	}
	return last
}

// answering is an end that answers on this machine's loopback.
func answering(t *testing.T, change func(*network.AnswerOptions)) (*network.Answerer, *arrivals) {
	t.Helper()
	took := &arrivals{}
	o := network.AnswerOptions{At: network.End{Address: netip.MustParseAddr("127.0.0.1")}, Echoes: true, Streams: 2,
		Lifetime: time.Hour, Every: 10 * time.Millisecond, Clock: clock.Start(), Took: took.take}
	if change != nil {
		change(&o)
	}
	a := repotest.Must(network.Answer(t.Context(), o))(t)
	t.Cleanup(func() { _ = a.Close() })
	return a, took
}

// TestAnswerCountsWhatArrives holds that an end elsewhere counts what the sender has sent.
func TestAnswerCountsWhatArrives(t *testing.T) {
	a, took := answering(t, nil)
	far := a.Reach()
	all := streams(t, network.StreamOptions{Far: &far, Streams: 2, For: 200 * time.Millisecond, Every: 20 * time.Millisecond})
	if last := all[len(all)-1]; last.Segments == 0 || last.Received != 0 {
		t.Errorf("%+v: want segments, and no bytes: the other end counts them", last)
	}
	repotest.Eventually(t, "all has arrived", func() bool { // a reading after the last connection has ended
		took.mu.Lock()
		defer took.mu.Unlock()
		n := len(took.all)
		return n > 2 && took.all[n-1].Bytes > 0 && took.all[n-1].Segments > 0
	})
	repotest.NoError(t, a.Close())
	for i := 1; i < len(took.all); i++ {
		if was, is := took.all[i-1], took.all[i]; is.Bytes < was.Bytes || is.Segments < was.Segments || is.At < was.At {
			t.Errorf("%+v after %+v", is, was)
		}
	}
}

// TestAnswerOfEchoes holds that echoes that show the token are answered, and no others.
func TestAnswerOfEchoes(t *testing.T) {
	a, _ := answering(t, nil)
	far := a.Reach()
	o := network.EchoOptions{Far: &far, Pace: pace.Constant(500), For: 100 * time.Millisecond, Size: 56, Patience: 10 * time.Second}
	for i, e := range echoes(t, o) {
		if e.Lost {
			t.Errorf("echo %d is lost", i)
		}
	}
	stranger := far
	stranger.Token = make([]byte, network.TokenSize)
	o.Far, o.Patience = &stranger, 100*time.Millisecond
	all := echoes(t, o)
	for i, e := range all {
		if !e.Lost {
			t.Errorf("echo %d of a stranger was answered", i)
		}
	}
	if len(all) != 50 {
		t.Errorf("%d echoes: want 50", len(all))
	}
}

// TestAnswerTakesNoStrangers holds that connections that show another token, or nothing, or
// are one too many, are not taken, and that those that say nothing keep nobody out.
func TestAnswerTakesNoStrangers(t *testing.T) {
	a, took := answering(t, nil)
	far := a.Reach()
	at := netip.AddrPortFrom(far.Address, far.Streams).String()
	dial := func(say []byte) net.Conn {
		c := repotest.Must(net.Dial("tcp", at))(t)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write(say)
		return c
	}
	for range 8 {
		dial(nil) // half of those that may wait at a time
	}
	refused := func(what string, c net.Conn) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s was taken", what)
		} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // net returns it as it is
			t.Errorf("%s was left open", what)
		}
	}
	refused("another token", dial(make([]byte, network.TokenSize)))
	for range 2 {
		c := dial(far.Token)
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("a connection with the token: %d bytes, %v", n, err)
		}
		_, _ = c.Write([]byte("12345"))
	}
	refused("a third connection of two", dial(far.Token))
	repotest.Eventually(t, "what came is counted", func() bool { return took.last().Bytes == 10 })
	if err := a.Close(); err != nil { // with connections open
		t.Fatal(err)
	}
}

// TestAnswerEndsByItself holds that an end that was forgotten answers no more.
func TestAnswerEndsByItself(t *testing.T) {
	a, _ := answering(t, func(o *network.AnswerOptions) { o.Lifetime = 50 * time.Millisecond })
	far := a.Reach()
	repotest.Eventually(t, "it listens no more", func() bool {
		c, err := net.Dial("tcp", netip.AddrPortFrom(far.Address, far.Streams).String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}

func TestReachIsChecked(t *testing.T) {
	good := network.Reach{Address: netip.MustParseAddr("10.0.0.1"), Token: make([]byte, network.TokenSize)}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]network.Reach{
		"no address": {Token: good.Token}, "any address": {Address: netip.MustParseAddr("0.0.0.0"), Token: good.Token}, "no token": {Address: good.Address},
		"a long token": {Address: good.Address, Token: make([]byte, 1<<20)},
	} {
		if bad.Check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
