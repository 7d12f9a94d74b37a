package informer_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestInformer plays what servers answer, and holds that an informer asks next what
// client-go's would.
func TestInformer(t *testing.T) {
	var i informer.Informer
	var now clock.Time
	forms := map[string]informer.Form{"list": informer.List, "watchList": informer.WatchList}
	ends := map[string]informer.How{
		"page": informer.Answered, "closed": informer.Closed, "error": informer.Failed, "refused": informer.Refused,
		"unreachable": informer.Unreachable, "cut": informer.Cut, "unanswered": informer.Unanswered,
	}
	events := map[string]informer.Event{"added": informer.Added, "changed": informer.Changed, "bookmark": informer.Bookmark, "initial-end": informer.InitialEnd}
	repotest.Trace(t, "testdata/informer.trace", func(t *testing.T, s repotest.Step) string {
		duration := func(name string) time.Duration {
			d, err := time.ParseDuration(s.Args[name])
			if s.Args[name] != "" && err != nil {
				t.Fatalf("%s: %v", s.Line, err)
			}
			return d
		}
		number := func(name string) (n int) {
			n, _ = strconv.Atoi(s.Args[name])
			return n
		}
		random, _ := strconv.ParseFloat(s.Args["random"], 64)
		if s.Args["at"] != "" {
			now = clock.Time(duration("at"))
		}
		switch s.Name {
		case "informer":
			i = informer.New(forms[s.Args["form"]], now)
			return show(i.First(random))
		case "open":
			return whole(i.Open())
		case "event":
			return whole(i.See(events[s.Words[0]], s.Args["version"]))
		}
		how, known := ends[s.Name]
		if !known {
			t.Fatalf("%s: no such command", s.Line)
		}
		e := informer.End{
			How: how, Code: number("code"), RetryAfter: duration("after"), TooLarge: strings.Contains(s.Line, "too-large"),
			Version: s.Args["version"], Continue: s.Args["continue"], Lasted: duration("lasted"), Events: number("events"),
		}
		var out strings.Builder
		for range max(1, number("times")) {
			out.WriteString(show(i.End(now, e, random)) + "\n")
		}
		return out.String()
	})
}

func whole(yes bool) string {
	if yes {
		return "whole"
	}
	return "nothing"
}

func show(a informer.Ask) string {
	out := map[informer.Kind]string{informer.ListPage: "list", informer.Watch: "watch", informer.InitialWatch: "watch what exists"}[a.Kind]
	if a.Continue != "" {
		out += ", page " + a.Continue
	} else {
		out += fmt.Sprintf(" version=%q", a.Version)
	}
	if a.Limit > 0 {
		out += fmt.Sprintf(" limit=%d", a.Limit)
	}
	if a.Timeout > 0 {
		out += fmt.Sprintf(" timeout=%v", a.Timeout)
	}
	if a.Pause > 0 {
		out += fmt.Sprintf(", after %v", a.Pause)
	}
	if a.Limited {
		out += ", limited"
	}
	if a.Relist {
		out += ", relist"
	}
	return out
}

// TestRandomPauses holds the bounds of what is drawn.
func TestRandomPauses(t *testing.T) {
	i := informer.New(informer.List, 0)
	i.First(0)
	for n, least := range []time.Duration{800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000} {
		least *= time.Millisecond
		a := i.End(0, informer.End{How: informer.Unanswered}, 0.999)
		if a.Pause < least+least*99/100 || a.Pause >= 2*least {
			t.Errorf("pause %d is %v", n, a.Pause)
		}
	}
}
