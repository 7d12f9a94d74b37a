package audit

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// event is an event of an audit log in the form in which an API server writes it.
func event(stage, verb, agent, user, object, code, received, ended string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"` + stage + `","requestURI":"/x","verb":"` + verb +
		`","user":{"username":"` + user + `","groups":["g"],"extra":{"a":["b"]}},"userAgent":"` + agent + `"` + object +
		`,"responseStatus":{"metadata":{},"code":` + code + `},"requestReceivedTimestamp":"` + received + `","stageTimestamp":"` + ended + `","annotations":{"a":"b"}}`
}

const (
	at0 = "2026-11-27T12:00:00.000000Z"
	at5 = "2026-11-27T12:00:00.005000Z"
)

func TestParseEvent(t *testing.T) {
	const account = "system:serviceaccount:default:manager"
	pod := `,"objectRef":{"resource":"pods","namespace":"n","name":"p","apiVersion":"v1"}`
	scale := `,"objectRef":{"resource":"deployments","apiGroup":"apps","subresource":"scale"}`
	exec := `,"objectRef":{"resource":"pods","subresource":"exec"}`
	manager := Client{Name: "manager", Version: "v0.1", User: account}
	for name, c := range map[string]struct {
		text string
		want Event
	}{
		"a request": {
			event("ResponseComplete", "create", "manager/v0.1 (linux/amd64) kubernetes/abc/leader-election", account, pod, "201", at0, at5),
			Event{manager, Request{"create", "pods", "", 201}, Ended, 5 * time.Millisecond, false},
		},
		"a group and a subresource": {
			event("ResponseComplete", "patch", "manager/v0.1", account, scale, "409", at0, at5),
			Event{manager, Request{"patch", "deployments.apps", "scale", 409}, Ended, 5 * time.Millisecond, false},
		},
		"a watch that begins": {
			event("ResponseStarted", "watch", "manager/v0.1", account, pod, "200", at0, at0),
			Event{manager, Request{"watch", "pods", "", 200}, Started, 0, true},
		},
		"a stream": {
			event("ResponseComplete", "get", "kubectl/v1.37.0", "admin", exec, "101", at0, at5),
			Event{Client{"kubectl", "v1.37.0", "admin"}, Request{"connect", "pods", "exec", 101}, Ended, 5 * time.Millisecond, true},
		},
		"no resource": {
			event("ResponseComplete", "get", "curl", "u", "", "200", at0, at5),
			Event{Client{"curl", "", "u"}, Request{"get", "", "", 200}, Ended, 5 * time.Millisecond, false},
		},
		"a panic without an agent, and a clock that went back": {
			event("Panic", "update", "", "u", pod, "500", at5, at0),
			Event{Client{"u", "", "u"}, Request{"update", "pods", "", 500}, Ended, 0, false},
		},
		"nobody, an unknown verb and no code": {
			event("ResponseComplete", "brew", " / ", "", pod, "7", at0, at0),
			Event{Client{"unknown", "", ""}, Request{"other", "pods", "", 0}, Ended, 0, false},
		},
		"an agent that is no name": {
			event("ResponseComplete", "get", `\u001b[31m`+strings.Repeat("ä", 200)+`\u0000/`+strings.Repeat("v", 200), "u", pod, "200", at0, at0),
			Event{Client{"[31m" + strings.Repeat("ä", 48), strings.Repeat("v", 100), "u"}, Request{"get", "pods", "", 200}, Ended, 0, false},
		},
		"fields that are not known": {
			`{"stage":"ResponseComplete","verb":"get","new":[{"a":1}]}`,
			Event{Client{"unknown", "", ""}, Request{"get", "", "", 0}, Ended, 0, false},
		},
	} {
		if got, err := ParseEvent([]byte(c.text)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"empty":           "",
		"cut off":         `{"kind":"Event","stage":"Resp`,
		"no object":       `[1, 2]`,
		"another object":  `{"kind":"Pod"}`,
		"another type":    `{"stage":"ResponseComplete","verb":{"a":1}}`,
		"no time":         `{"stage":"ResponseComplete","verb":"get","stageTimestamp":"yesterday"}`,
		"a request begun": event("RequestReceived", "get", "a", "u", pod, "0", at0, at0),
	} {
		if got, err := ParseEvent([]byte(text)); !errors.Is(err, ErrNoEvent) {
			t.Errorf("%s: %+v, %v, want ErrNoEvent", name, got, err)
		}
	}
}

func TestTally(t *testing.T) {
	one := func(agent, verb, object, code string) string {
		return event("ResponseComplete", verb, agent, "u", object, code, at0, at5)
	}
	pods := `,"objectRef":{"resource":"pods"}`
	tally := NewTally(2, 4)
	for _, text := range []string{
		one("a", "get", pods, "200"), one("a", "get", pods, "200"), one("a", "get", pods, "404"), one("b", "get", pods, "200"),
		event("ResponseStarted", "watch", "a", "u", pods, "200", at0, at0), // the fourth count
		event("ResponseStarted", "get", "a", "u", `,"objectRef":{"resource":"pods","subresource":"exec"}`, "101", at0, at0),
		one("c", "get", pods, "200"), one("d", "list", pods, "200"), // beyond both bounds
		one("a", "watch", pods, "200"),
		strings.ReplaceAll(one("a", "get", pods, "200"), `"username":"u"`, `"username":"v"`), strings.ReplaceAll(one("a", "get", pods, "200"), `"username":"u"`, `"username":"w"`),
		event("RequestReceived", "get", "a", "u", pods, "0", at0, at0),
		"", "not JSON", "{}",
	} {
		tally.AddLine([]byte(text))
	}
	a, b, others := Client{"a", "", "u"}, Client{"b", "", "u"}, Client{Name: Others}
	get, beyond := Request{"get", "pods", "", 200}, func(verb string) Request { return Request{Verb: verb, Resource: Others} }
	want := []struct {
		Key
		Count
	}{
		{Key{a, get, Ended}, Count{2, 10 * time.Millisecond}},
		{Key{a, Request{"get", "pods", "", 404}, Ended}, Count{1, 5 * time.Millisecond}},
		{Key{b, get, Ended}, Count{1, 5 * time.Millisecond}},
		{Key{a, Request{"watch", "pods", "", 0}, Started}, Count{1, 0}},
		{Key{others, beyond("get"), Ended}, Count{1, 5 * time.Millisecond}},
		{Key{others, beyond("list"), Ended}, Count{1, 5 * time.Millisecond}},
		{Key{a, beyond("watch"), Ended}, Count{1, 0}}, // as long as the client likes: no time
		{Key{Client{"a", "", "v"}, beyond("get"), Ended}, Count{1, 5 * time.Millisecond}},
		{Key{Client{"a", "", Others}, beyond("get"), Ended}, Count{1, 5 * time.Millisecond}},
	}
	got := tally.Take()
	for i, w := range want {
		if i >= len(got) || got[i] != w.Key || tally.Count(w.Key) != w.Count {
			t.Fatalf("count %d: %+v of %+v\nwant %+v", i, tally.Count(w.Key), got, w)
		}
	}
	if len(got) != len(want) || tally.Unreadable != 2 {
		t.Errorf("%d counts, want %d; %d lines unreadable, want 2", len(got), len(want), tally.Unreadable)
	}
	if again := tally.Take(); again != nil {
		t.Errorf("nothing has changed since, and %v are given", again)
	}
	tally.AddLine([]byte(one("b", "get", pods, "200")))
	if changed := tally.Take(); len(changed) != 1 || tally.Count(changed[0]).Number != 2 {
		t.Errorf("one count has changed, and %v are given", changed)
	}
}

// A request that lasts as long as its client likes is counted, but its time is not taken for
// a cost.
func TestLongRunning(t *testing.T) {
	object := func(resource, subresource string) string {
		return `,"objectRef":{"resource":"` + resource + `","subresource":"` + subresource + `"}`
	}
	for _, c := range []struct {
		verb, uri, object string
		want              bool
	}{
		{"get", "/debug/pprof/profile?seconds=10", "", true},
		{"get", "/debug/pprof/trace?seconds=1", "", true},
		{"get", "/metrics", "", false},
		{"get", "/apis?x=/debug/pprof/", "", false},
		{"get", "/debug/pprof/", object("pods", ""), false}, // a resource has no such path
		{"watch", "/api/v1/pods?watch=true", object("pods", ""), true},
		{"list", "/api/v1/pods", object("pods", ""), false},
		{"get", "/api/v1/namespaces/n/pods/p/log?follow=true", object("pods", "log"), true},
		{"create", "/api/v1/namespaces/n/pods/p/exec", object("pods", "exec"), true},
		{"get", "/api/v1/nodes/n/proxy/stats", object("nodes", "proxy"), true},
		{"create", "/api/v1/namespaces/n/pods/p/binding", object("pods", "binding"), false},
	} {
		text := strings.Replace(event("ResponseComplete", c.verb, "a", "u", c.object, "200", at0, at5), `"requestURI":"/x"`, `"requestURI":"`+c.uri+`"`, 1)
		var tally Tally
		tally.AddLine([]byte(text))
		want := Count{1, 5 * time.Millisecond}
		if c.want {
			want.Time = 0
		}
		if keys := tally.Take(); len(keys) != 1 || tally.Count(keys[0]) != want {
			t.Errorf("%s %s: %+v, want %+v", c.verb, c.uri, keys, want)
		}
	}
}

// Whatever stands in a log, the counts are bounded, and so are the names.
func FuzzTally(f *testing.F) {
	pods := `,"objectRef":{"resource":"pods","subresource":"exec"}`
	f.Add([]byte(event("ResponseComplete", "get", "a/b", "u", pods, "200", at0, at5)+"\n"+event("ResponseStarted", "watch", "c", "u", pods, "200", at0, at5)), 7)
	f.Add([]byte("{\"stage\":\"Panic\",\"verb\":\"\xff\"}\n\n[]\n{"), 1)
	f.Fuzz(func(t *testing.T, text []byte, chunk int) {
		whole, parts := NewTally(2, 3), NewTally(2, 3)
		var a, b splitter
		a.split(append(text, '\n'), whole.AddLine, func() { whole.Unreadable++ })
		chunk = max(1, chunk%64)
		for rest := append(text, '\n'); len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			b.split(rest[:min(chunk, len(rest))], parts.AddLine, func() { parts.Unreadable++ })
		}
		if whole.Unreadable != parts.Unreadable || len(whole.counts) != len(parts.counts) {
			t.Errorf("%d and %d lines are unreadable, %d and %d counts", whole.Unreadable, parts.Unreadable, len(whole.counts), len(parts.counts))
		}
		if most := 3 + (1+2*3)*11; len(whole.counts) > most { // beyond the bound, a client has a count for each verb
			t.Errorf("%d counts, at most %d", len(whole.counts), most)
		}
		for _, key := range whole.Take() {
			if parts.Count(key) != whole.Count(key) {
				t.Errorf("%+v: %+v and %+v", key, whole.Count(key), parts.Count(key))
			}
			for _, l := range key.labels() {
				if len(l.Value) > maxName || strings.ToValidUTF8(l.Value, "") != l.Value {
					t.Errorf("label %s: %q", l.Name, l.Value)
				}
			}
		}
	})
}

// BenchmarkAddLine counts one line of an audit log, as long as those of an API server.
func BenchmarkAddLine(b *testing.B) {
	text := []byte(event("ResponseComplete", "patch", "manager/v0.1 (linux/amd64) kubernetes/abc", "system:serviceaccount:default:manager",
		`,"objectRef":{"resource":"deployments","namespace":"default","name":"web","apiGroup":"apps","apiVersion":"v1","subresource":"status"}`, "200", at0, at5))
	b.SetBytes(int64(len(text)))
	var tally Tally
	for b.Loop() {
		tally.AddLine(text)
	}
	if tally.Unreadable > 0 {
		b.Error("the line was not counted")
	}
}
