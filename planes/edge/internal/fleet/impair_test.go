package fleet

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
)

// TestArrival holds when messages arrive by delay, loss and outages, and that they keep their
// order.
func TestArrival(t *testing.T) {
	type sent struct {
		at     time.Duration
		chance float64
		want   time.Duration
	}
	const second = time.Second
	for name, c := range map[string]struct {
		o     Options
		shift time.Duration
		sent  []sent
	}{
		"nothing":         {Options{}, 0, []sent{{second, 0, second}}},
		"delay":           {Options{Delay: 50 * time.Millisecond}, 0, []sent{{second, 0, 1050 * time.Millisecond}}},
		"lost":            {Options{Delay: 50 * time.Millisecond, Loss: 0.1}, 0, []sent{{second, 0.05, 1350 * time.Millisecond}, {second + 1, 0.5, 1350 * time.Millisecond}, {2 * second, 0.5, 2050 * time.Millisecond}}},
		"outage":          {Options{FlapEvery: 10 * second, FlapFor: 2 * second}, 0, []sent{{second, 0, 2 * second}, {5 * second, 0, 5 * second}, {11 * second, 0, 12 * second}}},
		"outage, shifted": {Options{FlapEvery: 10 * second, FlapFor: 2 * second}, 9 * second, []sent{{second / 2, 0, second / 2}, {2 * second, 0, 3 * second}}},
	} {
		var p path
		for _, s := range c.sent {
			if got := p.arrival(&c.o, clock.Time(s.at), c.shift, s.chance); time.Duration(got) != s.want {
				t.Errorf("%s: what is sent at %v arrives at %v, want %v", name, s.at, time.Duration(got), s.want)
			}
		}
	}
}

// TestHubOrder holds which hubs an edge tries: its own alone, or behind a balancer all, from
// one on that changes.
func TestHubOrder(t *testing.T) {
	for _, c := range []struct {
		balance string
		turn    int
		want    []int
	}{
		{BalanceFixed, 0, []int{1}}, {BalanceFixed, 7, []int{1}},
		{BalanceRandom, 0, []int{0, 1, 2}}, {BalanceRandom, 5, []int{2, 0, 1}}, {BalanceRoundRobin, 4, []int{1, 2, 0}},
	} {
		repotest.Equal(t, hubOrder(c.balance, 1, 3, c.turn), c.want, "%s, turn %d", c.balance, c.turn)
	}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	if !isAway(fmt.Errorf("dial: %w", refused)) || isAway(errors.New("bad certificate")) {
		t.Error("a hub is away if it refuses connections, and only then")
	}
}

// TestHubAddresses holds how hubs are given by a flag.
func TestHubAddresses(t *testing.T) {
	o := Default()
	repotest.NoError(t, o.Words().Check())
	o.HubAddresses = []string{"192.0.2.1:10000/10002", "[::1]:1/2"}
	want := []api.Hub{{Address: "192.0.2.1", Websocket: 10000, Enrolment: 10002}, {Address: "::1", Websocket: 1, Enrolment: 2}}
	if got, err := o.givenHubs(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
	for _, bad := range []string{"192.0.2.1", "192.0.2.1:10000", "192.0.2.1:10000/", ":1/2", "a:x/2"} {
		o.HubAddresses = []string{bad}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "hub-addresses") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
