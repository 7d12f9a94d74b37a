package load

import (
	"fmt"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestFollowUps plays ends of an informer's requests, and holds what is recorded of each and
// when the next one is sent.
func TestFollowUps(t *testing.T) {
	var n *informing
	c := call{}
	ends := map[string]informer.How{
		"page": informer.Answered, "closed": informer.Closed, "error": informer.Failed, "refused": informer.Refused, "unreachable": informer.Unreachable,
	}
	outcomes := map[record.Outcome]string{record.OK: "ok", record.Failed: "failed", record.Unknown: "unknown"}
	repotest.Trace(t, "testdata/followup.trace", func(t *testing.T, s repotest.Step) string {
		duration := func(name string) time.Duration {
			d, err := time.ParseDuration(s.Args[name])
			if s.Args[name] != "" && err != nil {
				t.Fatalf("%s: %v", s.Line, err)
			}
			return d
		}
		is := map[string]bool{}
		for _, word := range s.Words {
			is[word] = true
		}
		if s.Name == "informer" {
			form := map[string]informer.Form{"list": informer.List, "watchList": informer.WatchList}[s.Args["form"]]
			req := Request{Informer: form}
			req.Hold = duration("for")
			n, c = newInforming(0, &req, 1), call{}
			return ""
		}
		how, known := ends[s.Name]
		if !known {
			t.Fatalf("%s: no such command", s.Line)
		}
		e := requestEnd{
			End: informer.End{How: how, Version: s.Args["version"], Continue: s.Args["continue"], Lasted: duration("lasted"), RetryAfter: duration("after")},
			at:  clock.Time(duration("at")), watch: is["watch"] || is["open"], open: is["open"], stopped: is["stopped"],
		}
		_, _ = fmt.Sscan(s.Args["code"], &e.Code) // most have none
		if how == informer.Refused || how == informer.Unreachable {
			e.outcome = record.Failed
		}
		f := n.follow(e)
		out := outcomes[f.outcome]
		if f.lost {
			out += ", lost"
		}
		if f.over {
			return out + ", over"
		}
		c = c.callAfter(f)
		out += fmt.Sprintf("; attempt %d", c.attempt)
		if f.due == e.at {
			out += " at once"
		} else {
			out += " later" // how much later is drawn
		}
		if !f.charged {
			out += ", limited"
		}
		return out
	})
}
