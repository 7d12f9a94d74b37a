package pace_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestPaces(t *testing.T) {
	repotest.Trace(t, "testdata/paces.trace", func(t *testing.T, s repotest.Step) string {
		p := paceOf(t, s)
		var out strings.Builder
		for _, word := range strings.Fields(s.Input) {
			n := repotest.Must(strconv.Atoi(word))(t)
			due := "never"
			if d := p.Due(n); d != pace.Never {
				due = d.String()
			}
			fmt.Fprintf(&out, "%d: %s\n", n, due)
		}
		fmt.Fprintf(&out, "rate %g", p.Rate())
		if n := p.Parallel(); n > 0 {
			fmt.Fprintf(&out, ", %d at a time", n)
		}
		if n := p.Count(); n > 0 {
			fmt.Fprintf(&out, ", %d in all", n)
		}
		return out.String()
	})
}

// paceOf makes the pace that a command names.
func paceOf(t *testing.T, s repotest.Step) *pace.Pace {
	t.Helper()
	number := func(key string) float64 {
		return repotest.Must(strconv.ParseFloat(s.Args[key], 64))(t)
	}
	var p *pace.Pace
	switch s.Name {
	case "constant":
		p = pace.Constant(number("rate"))
	case "poisson":
		p = pace.Poisson(number("rate"), uint64(number("seed")))
	case "burst":
		p = pace.Burst()
	case "within":
		p = pace.Within(int(number("count")), duration(t, s.Args["window"]))
	case "scattered":
		p = pace.Scattered(int(number("count")), duration(t, s.Args["window"]), uint64(number("seed")))
	case "ramp":
		p = pace.Ramp(number("from"), number("to"), duration(t, s.Args["over"]))
	case "closed":
		p = pace.Closed(int(number("parallel")))
	case "steps":
		p = pace.Steps(steps(t, s)...)
	case "replay":
		var times []time.Duration
		for _, word := range s.Words {
			times = append(times, duration(t, word))
		}
		p = pace.Replay(times)
	default:
		t.Fatalf("no pace %s", s.Name)
	}
	if _, ok := s.Args["bundle"]; ok {
		p = p.Bundle(int(number("bundle")))
	}
	if _, ok := s.Args["again"]; ok {
		p = p.Bundle(int(number("again")))
	}
	if _, ok := s.Args["jitter"]; ok {
		p = p.Jitter(number("jitter"), uint64(number("seed")))
	}
	return p
}

// steps reads words such as 1-10/2s: from 1 to 10 calls a second in two seconds.
func steps(t *testing.T, s repotest.Step) (out []pace.Step) {
	for _, word := range s.Words {
		var step pace.Step
		rates, long, _ := strings.Cut(word, "/")
		if _, err := fmt.Sscanf(rates, "%g-%g", &step.Rate, &step.To); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		step.For = duration(t, long)
		out = append(out, step)
	}
	return out
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	return repotest.Must(time.ParseDuration(text))(t)
}
