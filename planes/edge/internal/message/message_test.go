package message_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// TestTranscript holds, byte for byte, how a conversation between an edge and its
// hub is written: the edge joins, gets a pod, asks for its ConfigMap, says that the
// pod runs, and sees it go.
func TestTranscript(t *testing.T) {
	n := 0
	var out []byte
	say := func(route message.Route, content string, change func(*message.Header)) message.Message {
		n++
		m := message.New(1650000000000+int64(n), route, []byte(content))
		m.Header.ID = "00000000-0000-4000-8000-00000000000" + string("0123456789abcdef"[n])
		if change != nil {
			change(&m.Header)
		}
		out = m.Append(out)
		return m
	}
	wait := func(h *message.Header) { h.Sync = true }
	answers := func(m message.Message) func(*message.Header) {
		return func(h *message.Header) { h.ParentID = m.Header.ID }
	}
	up := func(operation, resource string) message.Route {
		return message.Route{Source: message.SourceEdge, Group: message.GroupMeta, Operation: operation, Resource: resource}
	}
	down := func(operation, resource string) message.Route {
		return message.Route{Source: message.SourceCloud, Group: message.GroupCloud, Operation: operation, Resource: resource}
	}
	say(message.Route{Source: message.SourceWS, Group: message.GroupCloud, Operation: message.Keepalive, Resource: "node"}, `"ping"`, nil)
	join := say(up(message.Insert, "default/node/edge-0"), `{"kind":"Node","apiVersion":"v1","metadata":{"name":"edge-0"}}`, wait)
	say(down(message.Response, join.Route.Resource), `{"Object":{"metadata":{"name":"edge-0"}},"Err":null}`, answers(join))
	pod := say(down(message.Insert, "default/pod/p"), `{"metadata":{"name":"p","uid":"u","resourceVersion":"7"}}`, func(h *message.Header) { h.ResourceVersion = "7" })
	say(message.Route{Source: message.SourceCloud, Group: message.GroupCloud, Operation: message.Response, Resource: pod.Route.Resource}, message.OK, answers(pod))
	query := say(up(message.Query, "default/configmap/c"), "", wait)
	config := say(down(message.Response, query.Route.Resource), `{"data":{"a":"<b> & \"c\""}}`, answers(query))
	say(message.Route{Source: message.SourceCloud, Group: message.GroupCloud, Operation: message.Response, Resource: config.Route.Resource}, message.OK, answers(config))
	say(up(message.Patch, "default/podpatch/p"), `"{\"status\":{\"phase\":\"Running\"}}"`, wait)
	say(down(message.Delete, "default/pod/p"), `{"metadata":{"name":"p","uid":"u"}}`, nil)
	say(message.Route{Source: "edge \"\u00e9", Operation: message.Query}, "", nil)
	repotest.Golden(t, "testdata/transcript.jsonl", out)
	for line := range strings.Lines(string(out)) {
		m := repotest.Must(message.Decode([]byte(line)))(t)
		if again := string(m.Append(nil)); again != line {
			t.Errorf("read and written again:\n%swas\n%s", again, line)
		}
		var a, b any
		if err := errors.Join(json.Unmarshal([]byte(line), &a), json.Unmarshal(m.Content, &b)); err != nil {
			t.Error(err)
		}
	}
}

func TestAck(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"header":{"msg_id":"a","parent_msg_id":"b"},"route":{"operation":"response"},"content":"OK"}`: true,
		`{"header":{"msg_id":"a","parent_msg_id":"b"},"route":{"operation":"error"},"content":"OK"}`:    false,
		`{"header":{"msg_id":"a"},"route":{"operation":"response"},"content":"OK"}`:                     false,
		`{"header":{"msg_id":"a","parent_msg_id":"b"},"route":{"operation":"response"},"content":{}}`:   false,
	} {
		m, err := message.Decode([]byte(raw))
		if err != nil || m.Ack() != want {
			t.Errorf("%s: acknowledges %v (%v), want %v", raw, m.Ack(), err, want)
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, raw := range []string{
		"", "{", "null", "[]", `"text"`, `{} {}`, `{"header":{"msg_id":"a"}}`, `{"route":{"operation":"insert"}}`,
		`{"header":{"msg_id":7},"route":{"operation":"insert"}}`, `{"header":"h","route":{"operation":"insert"}}`,
	} {
		if m, err := message.Decode([]byte(raw)); !errors.Is(err, message.ErrMalformed) {
			t.Errorf("%q became %+v, %v", raw, m, err)
		}
	}
	for _, resource := range []string{"", "a", "a/b", "a//c", "a/b/", "node/n/a/b", "x/n/a/b/c", "node/n/a/b/c/d"} {
		if r, err := message.ParseResource(resource); !errors.Is(err, message.ErrMalformed) {
			t.Errorf("%q became %v, %v", resource, r, err)
		}
	}
}

func TestResource(t *testing.T) {
	want := message.Resource{Namespace: "default", Type: message.TypePod, Name: "p"}
	for _, text := range []string{"default/pod/p", "node/edge-0/default/pod/p"} {
		if got, err := message.ParseResource(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

// FuzzDecode holds that no document breaks the reader, that it reads what package json
// reads, and that what it read is read the same when it is written again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"header":{"msg_id":"a","timestamp":1,"sync":true},"route":{"operation":"insert","resource":"a/b/c"},"content":{"a":[1,null]}}`))
	f.Add([]byte(`{"header":{"msg_id":"\u00e9\n"},"route":{"operation":"query"}}`))
	for _, end := range []string{`"ping"}` + "\n", `"a"},"x":1}`, `"a"}}`, ` 1}`, `1 }`, `}`, ``, `null}`, `{"a":"\u00e9"}}`, `1}{}`} {
		f.Add([]byte(`{"header":{"msg_id":"a","parent_msg_id":"b","timestamp":17,"resourceversion":"7","sync":true,"type":"t"},` +
			`"route":{"source":"websocket","group":"resource","operation":"keepalive","resource":"node"},"content":` + end))
	}
	for _, head := range []string{`"msg_id":"a","timestamp":01`, `"msg_id":"a","timestamp":`, `"msg_id":"a","timestamp":99999999999999999999`, `"msg_id":"a\\","timestamp":1`} {
		f.Add([]byte(`{"header":{` + head + `},"route":{"destination":"d","operation":"o"},"content":1}`))
	}
	f.Add([]byte(`{"header":{"msg_id":"a","timestamp":1},"route":{"source":"s","operation":"o",},"content":1}`))
	f.Add([]byte(`{"header":{"msg_id":"a","timestamp":1},"route":{,"operation":"o"},"content":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var plain message.Message
		wrong := json.Unmarshal(raw, &plain) != nil || plain.Header.ID == "" || plain.Route.Operation == ""
		m, err := message.Decode(raw)
		if (err != nil) != wrong || !wrong && !reflect.DeepEqual(m, plain) {
			t.Fatalf("%q became %+v (%v), by package json %+v", raw, m, err, plain)
		}
		if err != nil {
			return
		}
		once := m.Append(nil)
		again, err := message.Decode(once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice := again.Append(nil); string(twice) != string(once) {
			t.Errorf("%s became %s", once, twice)
		}
		_, _ = message.ParseResource(m.Route.Resource)
		_, _ = m.Text()
	})
}

// BenchmarkDecode reads a keepalive, as it is written here and otherwise.
func BenchmarkDecode(b *testing.B) {
	m := message.New(1650000000000, message.Route{Source: message.SourceWS, Group: message.GroupCloud, Operation: message.Keepalive, Resource: "node"}, []byte(`"ping"`))
	own := m.Append(nil)
	for name, raw := range map[string][]byte{"own": own, "other": append([]byte(" "), own...)} {
		b.Run("writer="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				repotest.Must(message.Decode(raw))(b)
			}
		})
	}
}
