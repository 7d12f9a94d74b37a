package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// lab is one edge without a hub: time passes when the test says so.
type lab struct {
	o      Options
	e      edge
	dice   *rand.Rand
	now    clock.Time
	timers []timer
	asked  []message.Message // requests that nobody has answered yet
	sent   []message.Message // what came of the last event
	heard  message.Message   // the last of the hub
	out    strings.Builder
}

func newLab(seed uint64) *lab {
	l := &lab{o: Default(), now: clock.Time(time.Second), dice: rand.New(rand.NewPCG(seed, 2))}
	l.e.name = "edge-0"
	return l
}

// happen lets something happen to the edge now.
func (l *lab) happen(e event) {
	out := effects{}
	e.happenTo(&step{e: &l.e, o: &l.o, dice: l.dice, now: l.now, wall: time.Unix(0, int64(l.now)).UTC(), out: &out})
	l.timers = append(l.timers, out.timers...)
	l.sent = out.messages
	for _, m := range out.messages {
		fmt.Fprintf(&l.out, "-> %s %s%s\n", m.Route.Operation, m.Route.Resource, note(&m))
		if m.Route.Source == message.SourceEdge && m.Header.ParentID == "" {
			l.asked = append(slices.DeleteFunc(l.asked, func(q message.Message) bool { return q.Header.ID == m.Header.ID }), m)
		}
	}
	for _, f := range out.facts {
		words := []string{"*", string(f.what)}
		if f.label != "" {
			words = append(words, f.label)
		}
		if f.took > 0 {
			words = append(words, f.took.Round(time.Millisecond).String())
		}
		l.out.WriteString(strings.Join(words, " ") + "\n")
	}
	for _, t := range out.timers {
		if t.event == (dial{}) {
			fmt.Fprintf(&l.out, "* dials in %v\n", t.due.Sub(l.now))
		}
	}
	if out.failure != nil {
		fmt.Fprintf(&l.out, "* the fleet ends: %v\n", out.failure)
	}
}

// note is what matters of a message's content.
func note(m *message.Message) string {
	text, _ := m.Text()
	var patch struct{ Status corev1.PodStatus }
	if json.Unmarshal([]byte(text), &patch) == nil && patch.Status.Phase != "" {
		return " " + string(patch.Status.Phase)
	}
	if m.Ack() {
		return " (acknowledgement)"
	}
	var l struct{ Metadata metav1.ObjectMeta }
	if json.Unmarshal(m.Content, &l) == nil && l.Metadata.ResourceVersion != "" {
		return fmt.Sprintf(" version %s, %d owners", l.Metadata.ResourceVersion, len(l.Metadata.OwnerReferences))
	}
	return ""
}

// pass lets time pass: what is due happens.
func (l *lab) pass(d time.Duration) {
	until := l.now.Add(d)
	for {
		next := -1
		for i, t := range l.timers {
			if t.due <= until && (next < 0 || t.due < l.timers[next].due) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		t := l.timers[next]
		l.timers = slices.Delete(l.timers, next, next+1)
		l.now = max(l.now, t.due)
		before := l.out.Len()
		l.happen(t.event)
		if l.out.Len() > before {
			said := l.out.String()
			l.out.Reset()
			fmt.Fprintf(&l.out, "%sat %v\n%s", said[:before], time.Duration(l.now).Round(time.Millisecond), said[before:])
		}
	}
	l.now = until
}

// hear lets a message of the hub come.
func (l *lab) hear(t testing.TB, m message.Message) {
	l.heard = m
	x := &received{}
	if word := x.readMessage(m.Append(nil)); word != "" {
		t.Fatalf("%s: %s", m.Route.Resource, word)
	}
	l.happen(x)
}

// down is a message from the hub about an object.
func down(operation, kind string, o metav1.Object) message.Message {
	m := message.New(1, message.Route{Source: message.SourceCloud, Group: message.GroupCloud, Operation: operation,
		Resource: message.Resource{Namespace: "default", Type: kind, Name: o.GetName()}.String()}, encodeContent(o))
	m.Header.ResourceVersion = o.GetResourceVersion()
	return m
}

// answer answers the oldest request for something.
func (l *lab) answer(t testing.TB, operation, resource string, content []byte) {
	i := slices.IndexFunc(l.asked, func(q message.Message) bool { return q.Route.Operation == operation && q.Route.Resource == resource })
	if i < 0 {
		t.Fatalf("nobody asked for %s %s", operation, resource)
	}
	q := l.asked[i]
	l.asked = slices.Delete(l.asked, i, i+1)
	a := q.Reply(1, message.SourceCloud, content)
	l.hear(t, a)
}

// missing is how a hub answers a query for a ConfigMap that there is none of: with an error
// object in place of the ConfigMap, which is no answer of the operation error.
const missing = `{"ErrStatus":{"status":"Failure","reason":"NotFound","code":404}}`

// contentOf makes the content of an answer: ok, a ConfigMap, an object of a version, or an error.
func contentOf(args map[string]string, words []string) []byte {
	switch {
	case slices.Contains(words, "OK"):
		return []byte(message.OK)
	case slices.Contains(words, "ConfigMap"):
		return encodeContent(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", UID: "c"}})
	case slices.Contains(words, "bare"):
		return encodeContent(map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": args["version"]}})
	case slices.Contains(words, "missing"):
		return []byte(missing)
	case slices.Contains(words, "failure"): // an error without a reason
		return encodeContent(map[string]any{"Err": map[string]any{"ErrStatus": metav1.Status{Status: metav1.StatusFailure}}})
	case args["error"] != "":
		return encodeContent(map[string]any{"Err": map[string]any{"ErrStatus": metav1.Status{Reason: metav1.StatusReason(args["error"])}}})
	}
	return encodeContent(map[string]any{"Object": map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": args["version"], "ownerReferences": []any{map[string]any{"name": "edge-0"}}}}})
}

func testPod(name string, phase corev1.PodPhase, uses string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{Phase: phase}}
	p.Spec.Containers = []corev1.Container{{Name: "app"}}
	if uses != "" {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: uses}}}}}
	}
	return p
}

// objectOf makes the object that a step of a trace is about.
func objectOf(s repotest.Step) (kind string, o metav1.Object) {
	name := s.Words[1]
	switch s.Words[0] {
	case "device":
		d := &api.Device{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		d.Spec.Properties = []api.DeviceProperty{{Name: "temperature"}}
		return message.TypeDevice, d
	case "configmap":
		return message.TypeConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "c"}, Data: map[string]string{"level": s.Args["level"]}}
	}
	p := testPod(name, corev1.PodPhase(s.Args["phase"]), s.Args["uses"])
	if slices.Contains(s.Words, "deleting") {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)}
	}
	if label := s.Args["label"]; label != "" {
		p.Labels = map[string]string{"label": label}
	}
	return message.TypePod, p
}

func (l *lab) do(t *testing.T, s repotest.Step) string {
	l.out.Reset()
	switch s.Name {
	case "edge":
		*l = *newLab(1)
		l.set(t, s.Args)
	case "connect":
		l.happen(connected{})
	case "disconnect":
		l.happen(disconnected{})
		l.forgetDials()
	case "dial-fails":
		l.happen(notConnected{})
		l.forgetDials()
	case "pass":
		l.pass(duration(t, s.Words[0]))
	case "insert", "update", "delete":
		kind, o := objectOf(s)
		l.hear(t, down(s.Name, kind, o))
	case "answer":
		l.answer(t, s.Words[0], s.Words[1], contentOf(s.Args, s.Words[2:]))
	case "again":
		l.hear(t, l.heard)
	case "state":
		return fmt.Sprintf("%d objects, %d requests pending, %d pods that start or end", len(l.e.held), len(l.e.pending), len(l.e.pods))
	default:
		t.Fatal(s.Line)
	}
	return l.out.String()
}

// forgetDials takes out the timers of dials: the trace says when a connection is open.
func (l *lab) forgetDials() {
	l.timers = slices.DeleteFunc(l.timers, func(t timer) bool { return t.event == (dial{}) })
}

func duration(t *testing.T, text string) time.Duration {
	return repotest.Must(time.ParseDuration(text))(t)
}

// set sets options of a trace's edge. Most periods are off, so that what they bring is
// shown where it is of interest.
func (l *lab) set(t *testing.T, args map[string]string) {
	l.o.Keepalive, l.o.Lease, l.o.Status, l.o.Nodes, l.o.Grid = time.Hour, 0, 0, false, 0
	for name, value := range args {
		switch name {
		case "keepalive":
			l.o.Keepalive = duration(t, value)
		case "lease":
			l.o.Lease = duration(t, value)
		case "status":
			l.o.Status = duration(t, value)
		case "heartbeat":
			l.o.Heartbeat = value
		case "join":
			l.o.Nodes = value == "true"
		case "delay-acks":
			l.o.DelayAcks = duration(t, value)
		case "drop-acks":
			l.o.DropAcks, _ = strconv.ParseFloat(value, 64) // all that it can be here is 1
		case "duplicate":
			l.o.Duplicate, _ = strconv.ParseFloat(value, 64)
		case "reports":
			n := repotest.Must(strconv.Atoi(value))(t)
			l.o.Reports = n
		default:
			t.Fatalf("no option %s", name)
		}
	}
}

// TestEdge plays what an edge does: testdata/edge.trace.
func TestEdge(t *testing.T) {
	l := &lab{}
	repotest.Trace(t, "testdata/edge.trace", l.do)
}
