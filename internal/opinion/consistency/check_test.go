package consistency_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/record"
)

// parseTrace reads accesses of the object k, one a word:
//
//	VERB:VALUE@SENT-DONE=CODE,UID,VERSION   a call; code 0: no answer
//	list:SERVER@SENT-DONE=VALUE,UID,VERSION a final list that has the object, or without =: it has none
//	watch:SERVER@FROM                       a watch begins with a list of version FROM
//	+VALUE,UID,VERSION -VALUE,UID,VERSION   it brings a change, a deletion
//	end                                     it has come to the last write
func parseTrace(t *testing.T, trace string) (all []consistency.Access) {
	t.Helper()
	server := ""
	for _, word := range strings.Fields(trace) {
		verb, rest, _ := strings.Cut(word, ":")
		what, answer, _ := strings.Cut(rest, "=")
		name, times, _ := strings.Cut(what, "@")
		var a record.Access
		var code int
		seen := func(from string) {
			parts := strings.Split(from, ",")
			a.Value, a.UID = parts[0], parts[1]
			fmt.Sscan(parts[2], &a.Version)
		}
		add := func(verb string) { all = append(all, consistency.Access{Verb: verb, Access: a}) }
		if verb != "watch" {
			fmt.Sscanf(times, "%d-%d", &a.Sent, &a.Done)
		}
		switch {
		case verb == "watch":
			server = name
			a.Event, a.Server = record.AccessList, server
			fmt.Sscan(times, &a.Version)
			add("watch")
		case word == "end":
			a.Event, a.Server = record.AccessEnd, server
			add("watch")
		case word[0] == '+', word[0] == '-':
			a.Event, a.Server, a.Key, a.Done = record.AccessChanged, server, "k", clock.Time(1<<40)
			if word[0] == '-' {
				a.Event = record.AccessDeleted
			}
			seen(word[1:])
			add("watch")
		case verb == "list":
			end := record.Access{Event: record.AccessList, Server: name, Sent: a.Sent, Done: a.Done}
			if answer != "" {
				a.Event, a.Server, a.Key = record.AccessListed, name, "k"
				seen(answer)
				add("list")
			}
			a = end
			add("list")
		default:
			a.Key = "k"
			parts := strings.SplitN(answer, ",", 2)
			fmt.Sscan(parts[0], &code)
			if len(parts) == 2 {
				seen("," + parts[1])
			}
			a.Value, a.Code = name, uint16(code)
			a.Outcome = map[bool]record.Outcome{true: record.OK, false: record.Failed}[code < 400]
			if code == 0 {
				a.Outcome = record.Unknown
			}
			add(verb)
		}
	}
	return all
}

// Each rule by itself: what is violated, and the nearest history that is right.
func TestRules(t *testing.T) {
	const (
		create = "create:a@1-2=201,u,10 "
		update = "update:b@3-4=200,u,11 "
	)
	for trace, want := range map[string]string{
		create + "list:s@9-10=a,u,10":                                            "",
		create + "list:s@9-10":                                                   "lost",
		create + "delete:@3-4=200,u,0 list:s@9-10":                               "",
		create + "delete:@3-4=0 list:s@9-10":                                     "", // it may be done
		create + "delete:@3-4=500 list:s@9-10=a,u,10":                            "", // or not
		create + "delete:@3-4=409 list:s@9-10":                                   "lost",
		create + "delete:@3-4=200,u,0 list:s@9-10=a,u,10":                        "lost", // an acknowledged deletion
		create + update + "list:s@9-10=a,u,10":                                   "lost", // set back
		create + update + "list:s@9-10=b,u,11":                                   "",
		create + "update:b@3-4=0 list:s@9-10=b,u,11":                             "",
		create + "update:b@3-4=409 list:s@9-10=b,u,11":                           "invented",
		create + "list:s@9-10=x,u,11":                                            "invented",
		create + update + "list:s@9-10=b,u,12":                                   "doubled",
		create + "create:c@3-4=201,v,11 list:s@9-10=c,v,11":                      "doubled lost", // and nothing deleted the first
		create + "update:b@3-4=200,u,9 list:s@9-10=a,u,10":                       "unordered",
		create + "update:b@1-4=200,u,9 list:s@9-10=a,u,10":                       "", // sent before the other was answered
		create + update + "get:a@5-6=200,u,10 list:s@9-10=b,u,11":                "stale",
		create + update + "get:a@3-6=200,u,10 list:s@9-10=b,u,11":                "",
		create + "get:@3-4=404 list:s@9-10=a,u,10":                               "stale",
		create + "list:s@9-10=a,u,10 list:r@11-12":                               "lost diverged",
		create + "update:b@3-4=0 list:s@9-10=a,u,10 list:r@11-12=b,u,11":         "", // it was done between the two
		create + update + "watch:s@5 +a,u,10 +b,u,11 end list:s@9-10=b,u,11":     "",
		create + update + "watch:s@5 +b,u,11 end list:s@9-10=b,u,11":             "missed",
		create + update + "watch:s@5 +b,u,11 +a,u,10 end list:s@9-10=b,u,11":     "missed missed",
		create + update + "watch:s@5 +a,u,10 watch:s@11 end list:s@9-10=b,u,11":  "missed", // its list lacks the object
		create + "delete:@3-4=200,u,0 watch:s@5 +a,u,10 end list:s@9-10":         "missed",
		create + "delete:@3-4=200,u,0 watch:s@5 +a,u,10 -a,u,11 end list:s@9-10": "",
		create + "delete:@3-4=200,u,0 delete:@5-6=200,u,0 list:s@9-10":           "doubled",
		create + "watch:s@5 +a,u,10 list:s@9-10=a,u,10":                          "incomplete", // it did not come to the end
		create: "incomplete",
		// Without a quorum writes are answered with 500 or not at all: done or not, none is lost.
		create + "update:b@3-4=500 update:c@5-6=0 list:s@9-10=a,u,10":           "",
		create + "update:b@3-4=500 update:c@5-6=0 list:s@9-10=c,u,11":           "",
		create + "update:b@3-4=0 delete:@5-6=500 list:s@9-10":                   "",
		create + update + "update:c@5-6=500 delete:@7-8=409 list:s@9-10=a,u,10": "lost",       // but what was acknowledged before is
		"create:a@1-2=500 update:b@3-4=0 list:s@9-10":                           "incomplete", // nothing was acknowledged: nothing is shown
		"create:a@1-2=500 update:b@3-4=0 list:s@9-10=a,u,10":                    "incomplete",
	} {
		r := consistency.Check(parseTrace(t, trace))
		var got []string
		for _, v := range r.Violations {
			got = append(got, string(v.Rule))
		}
		if len(r.Incomplete) > 0 {
			got = append(got, "incomplete")
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %q, want %q: %v", trace, text, want, r.Violations)
		}
	}
}

// A trace says which writes were sent and answered: SENT-DONE with + where it was acknowledged.
func TestLongestGap(t *testing.T) {
	for trace, want := range map[string]string{
		"":                          "0-0 0",
		"1-2+ 3-4+ 5-6+":            "0-0 0", // a time without a write is no gap
		"1-2+ 3-8 9-10+":            "3-10 1",
		"1-2+ 3-8 4-9 5-30 10-11+":  "3-11 3",
		"1-2 3-4 5-6+":              "1-6 2", // from the first write on
		"1-2+ 3-4 5-9":              "3-9 2", // to the end of the last
		"1-2 3-7":                   "1-7 2",
		"1-2+ 3-4 5-6+ 7-8 20-21+":  "7-21 1",
		"1-2+ 3-30+ 4-5 6-7+ 8-9":   "8-30 1", // answers overtake each other
		"1-2+ 3-4 5-6+ 7-8+ 30-31+": "3-6 1",  // in the longest, nothing was refused
	} {
		var all []consistency.Access
		for _, word := range strings.Fields(trace) {
			a := consistency.Access{Verb: consistency.Create, Access: record.Access{Key: "k", Value: word, Outcome: record.Unknown}}
			if strings.HasSuffix(word, "+") {
				a.Outcome, a.Code = record.OK, 201
			}
			fmt.Sscanf(word, "%d-%d", &a.Sent, &a.Done)
			all = append(all, a)
		}
		g := consistency.Check(all).Gap
		if got := fmt.Sprintf("%d-%d %d", g.From, g.To, g.Writes); got != want {
			t.Errorf("%s: %s, want %s", trace, got, want)
		}
	}
}
