package kwok_test

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

func TestBeat(t *testing.T) {
	f := repotest.Must(builtin.Load("fast"))(t)
	if !f.Beat(6 * time.Hour) {
		t.Fatal("the set fast has no heartbeat")
	}
	for _, s := range f.Stages {
		if d := s.Spec.Delay; s.Name == "node-heartbeat-with-lease" {
			if *d.DurationMilliseconds != 21_600_000 || *d.JitterDurationMilliseconds != 21_970_000 {
				t.Errorf("between %d and %d ms", *d.DurationMilliseconds, *d.JitterDurationMilliseconds)
			}
		} else if d != nil {
			t.Errorf("%s has a delay of its own", s.Name)
		}
	}
	m := repotest.Must(machine.Compile(f.Stages))(t)
	if err := stage.New(m).SlowNodes(); err != nil {
		t.Error(err)
	}
	f = &kwok.File{Stages: f.Stages[:1]}
	if f.Beat(time.Hour) {
		t.Errorf("%s is taken for a heartbeat", f.Stages[0].Name)
	}
}
