package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestFaultsAreMended(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault scenario.Disturbance
		run   time.Duration // until the run ends
		want  string        // when the fault began, when its step ended, when it was mended
	}{
		{"after its time", scenario.Disturbance{For: unit.Duration(10 * time.Second)}, time.Minute, "0s 0s 10s"},
		{"held", scenario.Disturbance{For: unit.Duration(10 * time.Second), Hold: true}, time.Minute, "0s 10s 10s"},
		{"at the end of the run", scenario.Disturbance{}, time.Minute, "0s 0s 1m0s"},
		{"at the end of the run, before its time", scenario.Disturbance{For: unit.Duration(time.Hour)}, time.Minute, "0s 0s 1m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var got []string
			note := func() { got = append(got, time.Since(begin).String()) }
			f := &Injected{}
			err := f.beginFault(t.Context(), &tt.fault, func(context.Context) (func(context.Context) error, error) {
				note()
				return func(context.Context) error { note(); return nil }, nil
			})
			if err != nil {
				t.Error(err)
			}
			ended := time.Since(begin).String()
			time.Sleep(tt.run - time.Since(begin))
			f.End()
			if text := fmt.Sprintf("%s %s %s", got[0], ended, strings.Join(got[1:], " ")); text != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
			}
		})
	}
}

func TestFaultThatCannotBeMade(t *testing.T) {
	why := errors.New("why")
	f := &Injected{}
	err := f.beginFault(t.Context(), &scenario.Disturbance{}, func(context.Context) (func(context.Context) error, error) { return nil, why })
	if !errors.Is(err, why) {
		t.Error(err)
	}
	f.End()
	b := newBench(t, "scenario: x\nfleet: {nodes: 1}\nsteps: [{pause: 1s}]\n")
	if _, err := (Fault{"f", &scenario.Disturbance{Nodes: &scenario.Victims{}, Action: "silent"}}).injectFault(t.Context(), b.Session); !errors.Is(err, plane.ErrNoFault) {
		t.Errorf("without a fleet: %v", err)
	}
}

// TestOverlappingFaults: the end of one fault must not be the end of another that was asked
// for, of the same target and kind.
func TestOverlappingFaults(t *testing.T) {
	f := &Injected{}
	mended := 0
	inject := func(action, target string) (func(context.Context) error, error) {
		return f.hold(&scenario.Disturbance{Action: action}, target, func() (func(context.Context) error, error) {
			return func(context.Context) error { mended++; return nil }, nil
		})
	}
	first := repotest.Must(inject("delay", "load"))(t)
	for _, other := range [][2]string{{"slow", "load"}, {"delay", "fleet"}, {"restart", "etcd"}, {"restart", "etcd"}} {
		if _, err := inject(other[0], other[1]); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
	if _, err := inject("delay", "load"); !errors.Is(err, errHeld) || !strings.HasPrefix(err.Error(), "delay load: ") {
		t.Errorf("a second one that would end with the first: %v", err)
	}
	if err := first(t.Context()); err != nil || mended != 1 {
		t.Errorf("mended %d times, %v", mended, err)
	}
	why := errors.New("why")
	if _, err := f.hold(&scenario.Disturbance{Action: "delay"}, "load", func() (func(context.Context) error, error) { return nil, why }); !errors.Is(err, why) {
		t.Errorf("after the first is over: %v", err)
	}
	if _, err := inject("delay", "load"); err != nil {
		t.Errorf("after one that could not be made: %v", err)
	}
}

func TestDisturbedClients(t *testing.T) {
	s, err := scenario.Parse("f", []byte("scenario: x\nsteps:\n- fault: {client: load, action: cut, for: 1s}\n- parallel: [{fault: {client: etcd, action: delay, roundTrip: 1s}}, {fault: {client: load, action: cut}}, {fault: {component: etcd, action: kill}}]\n"), nil)
	repotest.NoError(t, err)
	if got := fmt.Sprint((&workload.Workload{Scenario: s}).DisturbedClients()); got != "[load etcd]" {
		t.Error(got)
	}
}
