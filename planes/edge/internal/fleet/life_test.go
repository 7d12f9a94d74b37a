package fleet

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// life draws what a hub sends to one edge, what of it is lost and when the connection ends.
type life struct {
	*lab
	t       *testing.T
	draw    *rand.Rand
	newest  map[string]*corev1.Pod // by name; nil: deleted
	came    map[string]*corev1.Pod // as the edge has it
	phases  map[string]corev1.PodPhase
	deleted map[string]bool
	losses  int
}

func newLife(t *testing.T, seed uint64) *life {
	f := &life{
		t: t, lab: newLab(seed), draw: rand.New(rand.NewPCG(seed, 3)), losses: 30,
		newest: map[string]*corev1.Pod{}, came: map[string]*corev1.Pod{}, phases: map[string]corev1.PodPhase{}, deleted: map[string]bool{},
	}
	f.o.CompareAfter = 0
	f.happen(connected{})
	return f
}

func (f *life) lost() bool {
	if f.losses == 0 || f.draw.IntN(4) > 0 {
		return false
	}
	f.losses--
	return true
}

// change draws a new state of a pod: it is new, has another label, or is to be deleted.
func (f *life) change() {
	name := "p" + strconv.Itoa(f.draw.IntN(6))
	old := f.newest[name]
	switch {
	case old == nil:
		f.newest[name] = testPod(name, "", []string{"", "settings"}[f.draw.IntN(2)])
	case old.DeletionTimestamp != nil:
		return
	default:
		p := old.DeepCopy()
		p.Labels = map[string]string{"label": strconv.Itoa(f.draw.Int())}
		if f.draw.IntN(3) == 0 {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)}
		}
		f.newest[name] = p
	}
	f.deliver(name)
}

// deliver sends the newest state of a pod, and holds that the edge acknowledges it.
func (f *life) deliver(name string) {
	if !f.e.connected || f.lost() {
		return
	}
	m := down(message.Update, message.TypePod, f.newest[name])
	f.hear(f.t, m)
	f.came[name] = f.newest[name]
	if !slices.ContainsFunc(f.sent, func(a message.Message) bool { return a.Ack() && a.Header.ParentID == m.Header.ID }) {
		f.t.Fatalf("%s is not acknowledged", name)
	}
}

// reply answers one request, refuses it, or loses it or its answer. What the edge has given up is not
// done any more.
func (f *life) reply() {
	f.asked = slices.DeleteFunc(f.asked, func(q message.Message) bool { return f.e.pending[q.Header.ID] == nil })
	if len(f.asked) == 0 || !f.e.connected || f.lost() {
		return
	}
	q := f.asked[f.draw.IntN(len(f.asked))]
	if q.Route.Operation != message.Query && f.lost() {
		f.answer(f.t, q.Route.Operation, q.Route.Resource, contentOf(map[string]string{"error": "InternalError"}, nil))
		return
	}
	f.done(&q)
	if !f.lost() {
		f.answer(f.t, q.Route.Operation, q.Route.Resource, replyTo(&q))
	}
}

// done is what a request does at the API server. A status that is older than the one that
// stands there would undo it.
func (f *life) done(q *message.Message) {
	r, _ := message.ParseResource(q.Route.Resource) // the edge made it
	switch r.Type {
	case message.TypePodPatch:
		order := []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}
		phase := corev1.PodPhase(strings.TrimSpace(note(q)))
		if slices.Index(order, phase) < slices.Index(order, f.phases[r.Name]) {
			f.t.Fatalf("%s is %s after it was %s", r.Name, phase, f.phases[r.Name])
		}
		f.phases[r.Name] = phase
	case message.TypePod:
		f.deleted[r.Name] = true
	}
}

func replyTo(q *message.Message) []byte {
	switch {
	case q.Route.Operation == message.Delete:
		return []byte(message.OK)
	case strings.Contains(q.Route.Resource, "/configmap/"):
		return contentOf(nil, []string{"ConfigMap"})
	}
	return contentOf(map[string]string{"version": "1"}, nil)
}

func (f *life) step() {
	switch f.draw.IntN(8) {
	case 0, 1:
		f.change()
	case 2, 3, 4:
		f.reply()
	case 5, 6:
		f.pass(time.Duration(f.draw.Int64N(int64(20 * time.Second))))
	case 7:
		switch {
		case !f.e.connected:
			f.happen(connected{})
		case f.lost():
			f.happen(disconnected{})
		}
	}
}

// settle loses nothing more, delivers what was lost, and waits until all is answered.
func (f *life) settle() {
	f.losses = 0
	if !f.e.connected {
		f.happen(connected{})
	}
	for name := range f.newest {
		f.deliver(name)
	}
	for range 1000 {
		if len(f.e.pods) == 0 && len(f.e.pending) == 0 {
			return
		}
		for len(f.asked) > 0 {
			f.reply()
		}
		f.pass(5 * time.Second)
	}
	f.t.Fatalf("%d pods, %d requests do not come to their end", len(f.e.pods), len(f.e.pending))
}

// TestEdgeComesToItsEnd draws changes of pods, losses of messages and answers, and ends of
// the connection: the edge has the last state of each pod, acknowledges what comes, runs
// or deletes each pod, undoes no status by an older one, and keeps nothing of what it has
// done. The same draw again gives the same.
func TestEdgeComesToItsEnd(t *testing.T) {
	for seed := range uint64(60) {
		f, again := newLife(t, seed), newLife(t, seed)
		for range 200 {
			f.step()
			again.step()
		}
		if a, b := f.out.String(), again.out.String(); a != b {
			t.Fatalf("seed %d: the same events come to\n%s\nand\n%s", seed, a, b)
		}
		f.settle()
		for name, p := range f.newest {
			i, ok := f.e.held.findIndex(packUID(name))
			if !ok || f.e.held[i].sum != api.Sum(p) {
				t.Fatalf("seed %d: the edge does not have the last state of %s", seed, name)
			}
			want := corev1.PodRunning
			if p.DeletionTimestamp != nil {
				want = corev1.PodSucceeded
			}
			if f.phases[name] != want || f.deleted[name] != (want == corev1.PodSucceeded) {
				t.Fatalf("seed %d: %s is %s, deleted %v", seed, name, f.phases[name], f.deleted[name])
			}
		}
	}
}
