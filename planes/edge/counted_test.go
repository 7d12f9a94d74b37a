package edge_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// situation is one of testdata/counted.txt: what happens, and which calls follow.
type situation struct {
	name  string
	calls []string
	also  string // a call of any number
}

func readCounted(t *testing.T) (out []situation) {
	raw := repotest.Must(os.ReadFile("testdata/counted.txt"))(t)
	for line := range strings.Lines(string(raw)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case !strings.HasPrefix(line, " "):
			out = append(out, situation{name: text})
		default:
			last := &out[len(out)-1]
			if also, ok := strings.CutPrefix(text, "also "); ok {
				last.also = also
			} else {
				last.calls = append(last.calls, text)
			}
		}
	}
	return out
}

// counted is a hub whose only edge the test plays, step by step, and what the hub calls.
type counted struct {
	*gate
	t     *testing.T
	conn  *link.Conn
	s     *stranger
	calls planetest.Calls
	asked int
	seen  map[string]bool // messages of the hub that were acknowledged
	late  int             // of them, those that came before a deletion
}

// ask sends a request of the edge and waits for its answer.
func (c *counted) ask(operation, resource string, content any) {
	raw := repotest.Must(json.Marshal(content))(c.t)
	c.asked++
	m := message.Message{Header: message.Header{ID: strconv.Itoa(c.asked), Timestamp: 1}, Content: raw,
		Route: message.Route{Source: message.SourceEdge, Group: message.GroupMeta, Operation: operation, Resource: resource}}
	repotest.NoError(c.t, c.conn.Send(m.Append(nil)))
	repotest.Eventually(c.t, operation+" "+resource+" is answered", func() bool { _, ok := c.s.answer(m.Header.ID); return ok })
}

// acknowledge waits for a message about a resource, acknowledges it and returns its operation.
func (c *counted) acknowledge(resource string) string {
	var m message.Message
	repotest.Eventually(c.t, fmt.Sprintf("%s comes after %d messages", resource, len(c.seen)), func() bool {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		i := slices.IndexFunc(c.s.got, func(m message.Message) bool {
			return m.Route.Resource == resource && !c.seen[m.Header.ID] && string(m.Content) != message.OK
		})
		if i >= 0 {
			m = c.s.got[i]
		}
		return i >= 0
	})
	c.seen[m.Header.ID] = true
	ack := m.Reply(1, m.Route.Source, []byte(message.OK))
	repotest.NoError(c.t, c.conn.Send(ack.Append(nil)))
	return m.Route.Operation
}

const podPath, podResource, nodeResource = "/api/v1/namespaces/default/pods/web", "default/pod/web", "null/node/edge-0"

// patchPod reports a phase of the pod.
func (c *counted) patchPod(phase corev1.PodPhase) {
	c.ask(message.Patch, "default/podpatch/web", fmt.Sprintf(`{"status":{"phase":%q}}`, phase))
	// A real API server writes into the metadata who wrote the status, in the same write.
	apitest.Change(c.server, podPath, func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, "reported", string(phase)) })
}

// happen lets a situation happen.
func (c *counted) happen(name string) {
	lease := map[string]any{"metadata": map[string]any{"name": "edge-0", "namespace": message.NamespaceLeases}}
	switch name {
	case "connect":
		c.conn, c.s = c.connected("edge-0")
	case "insert the node":
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Labels: map[string]string{"node-role.kubernetes.io/edge": ""}}}
		c.ask(message.Insert, "default/node/edge-0", n)
	case "acknowledge the node":
		c.acknowledge(nodeResource)
	case "query the lease":
		c.ask(message.Query, "kube-node-lease/lease/edge-0", nil)
	case "insert the lease":
		c.ask(message.Insert, "kube-node-lease/lease/edge-0", lease)
	case "renew the lease":
		c.ask(message.Update, "kube-node-lease/lease/edge-0", c.server.Get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/edge-0").Object)
	case "report the node's status":
		c.ask(message.Patch, "default/nodepatch/edge-0", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	case "bind a pod":
		p := apitest.Pod("web", "edge-0")
		p.Spec.Containers = []corev1.Container{{Name: "app"}}
		c.server.AddPod(p)
	case "acknowledge the pod":
		c.acknowledge(podResource)
	case "acknowledge the deletion":
		// A pod that is deleted at once changes before it goes. Which of the two an edge is sent,
		// or both, is a matter of time: with CloudCore as well, hence 6.24 to 6.47 GETs.
		for c.late = 0; c.acknowledge(podResource) != message.Delete; c.late++ {
		}
	case "query a ConfigMap":
		c.ask(message.Query, "default/configmap/settings", nil)
	case "acknowledge the ConfigMap for the first time", "acknowledge the ConfigMap":
		c.acknowledge("default/configmap/settings")
	case "mark the pod for deletion":
		apitest.Change(c.server, podPath, func(p *corev1.Pod) { // it has its time to end, and stays until it is deleted
			now := metav1.Now()
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, new(int64(30))
		})
	case "delete the pod":
		zero := int64(0)
		c.ask(message.Delete, podResource, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	default:
		c.patchPod(corev1.PodPhase(strings.TrimPrefix(name, "report ")))
	}
}

// TestCallsAreKubeEdges holds the calls of the default hub to those that were counted on
// CloudCore: in each situation the same ones in the same order, and over a pod's life as many.
func TestCallsAreKubeEdges(t *testing.T) {
	c := &counted{t: t, seen: map[string]bool{}}
	c.gate = newGate(t, func(o *hub.Options) {
		o.Round, o.ResendAfter = time.Hour, time.Hour // what they bring is counted on top
		c.calls.Count(o.Config, nil)
	})
	c.calls.Take()
	life, living := map[string]int{}, false
	for _, s := range readCounted(t) {
		if s.name == "counted" {
			checkLife(t, s.calls, life)
			continue
		}
		living = living || s.name == "bind a pod"
		c.happen(s.name)
		var got []string
		repotest.Eventually(t, fmt.Sprintf("after %q the hub calls %v", s.name, s.calls), func() bool {
			for _, call := range c.calls.TakeInOrder() {
				if call != s.also && call != "GET nodes" { // the hub still looks for the node that has come
					got = append(got, call)
				}
			}
			return len(got) >= len(s.calls) && (c.late == 0 || slices.Contains(got, "DELETE objectsyncs"))
		}, func() any {
			c.s.mu.Lock()
			defer c.s.mu.Unlock()
			var text []string
			for _, m := range c.s.got {
				text = append(text, fmt.Sprintf("%s %s %s v%s seen=%v %.60s", m.Header.ID, m.Route.Operation, m.Route.Resource, m.Header.ResourceVersion, c.seen[m.Header.ID], m.Content))
			}
			return strings.Join(append(text, fmt.Sprint(got)), "\n")
		})
		if c.late > 0 {
			got = got[max(0, len(got)-len(s.calls)):]
		}
		if !slices.Equal(got, s.calls) {
			t.Errorf("after %q the hub calls %v, and CloudCore %v", s.name, got, s.calls)
		}
		if s.name == "acknowledge the ConfigMap for the first time" || !living {
			continue // of a life there is one ConfigMap
		}
		for _, call := range got {
			life[call]++
		}
	}
}

// checkLife holds what was counted a pod to the calls of one life. What is counted on top is the
// first ConfigMap of each edge, and what the rounds send once more.
func checkLife(t *testing.T, counted []string, life map[string]int) {
	for _, line := range counted {
		f := strings.Fields(line)
		low, err := strconv.ParseFloat(f[2], 64)
		high, err2 := strconv.ParseFloat(f[3], 64)
		if err != nil || err2 != nil {
			t.Fatal(line)
		}
		call := f[0] + " " + f[1]
		if n := float64(life[call]); low < n || high > n+0.5 {
			t.Errorf("%s: %v in a life, and CloudCore %v to %v", call, n, low, high)
		}
		delete(life, call)
	}
	if len(life) > 0 {
		t.Errorf("CloudCore makes no such calls: %v", life)
	}
}
