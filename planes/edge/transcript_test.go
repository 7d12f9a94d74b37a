package edge_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// tap stands between a fleet and a hub, and writes down what they say.
type tap struct {
	*gate
	mu    sync.Mutex
	said  map[string]string // by msg_id: what was asked or sent
	lines map[string]bool   // conversations, by what was asked and what was answered
}

// half is one direction: what it gets goes to the other.
type half struct {
	tap  *tap
	from string
	to   *link.Conn
}

func (h *half) Message(raw []byte) error {
	h.tap.write(h.from, raw)
	return h.to.Send(raw)
}

func (h *half) Ended(error) { _ = h.to.Close() }

// newTap starts a hub, and makes fleets believe that it is where the tap listens.
func newTap(t *testing.T) *tap {
	p := &tap{gate: newGate(t, nil), said: map[string]string{}, lines: map[string]bool{}}
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	own := repotest.Must(p.authority.Server([]net.IP{net.IPv4(127, 0, 0, 1)}, nil, time.Now()))(t)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: p.authority.Pool()}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			if err := p.between(raw.(*net.TCPConn), config); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() { _ = l.Close(); wait.Wait() })
	there := p.where
	there.Websocket = l.Addr().(*net.TCPAddr).Port
	text := repotest.Must(json.Marshal(there))(t)
	apitest.Change(p.server, "/api/v1/namespaces/kubeedge/configmaps/"+api.ConfigMapHubs, func(c *corev1.ConfigMap) { c.Data["hub"] = string(text) })
	return p
}

// between leads a connection on to the hub, with the same headers.
func (p *tap) between(raw *net.TCPConn, config *tls.Config) error {
	header, said, path := http.Header{}, map[string]string{}, ""
	edge, err := link.Accept(context.Background(), raw, link.Options{TLS: config}, func(q *http.Request, _ *tls.ConnectionState) error {
		path = q.URL.Path
		for _, name := range []string{"node_id", "project_id", "ConnectionUse"} {
			said[name] = q.Header.Get(name)
			header[name] = []string{said[name]} // as it is written, not as Go would
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.lines[fmt.Sprintf("edge opens %s node_id=%s project_id=%s ConnectionUse=%s", path, said["node_id"], said["project_id"], said["ConnectionUse"])] = true
	p.mu.Unlock()
	c, err := p.authority.Client(said["node_id"], time.Now())
	if err != nil {
		return err
	}
	o := link.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.authority.Pool(), Certificates: []tls.Certificate{c}}}
	hub, err := link.Dial(context.Background(), net.JoinHostPort(p.where.Address, strconv.Itoa(p.where.Websocket)), path, header, o)
	if err != nil {
		return err
	}
	edge.SetHandler(&half{p, "edge", hub})
	hub.SetHandler(&half{p, "hub", edge})
	if err := p.poller.Add(hub); err != nil {
		return err
	}
	return p.poller.Add(edge)
}

// write keeps a message, or with what it answers a conversation. What is different each
// time (IDs, times, versions) is left out; of contents it keeps which fields there are.
func (p *tap) write(from string, raw []byte) {
	m, err := message.Decode(raw)
	if err != nil {
		return
	}
	depth := 3
	if from == "hub" {
		depth = 1 // an API server's objects: their fields are not the protocol's
	}
	text := fmt.Sprintf("%s: %s %s, source %s, group %s, sync %v, version %v: %s", from, m.Route.Operation, m.Route.Resource,
		m.Route.Source, m.Route.Group, m.Header.Sync, m.Header.ResourceVersion != "", fields(m.Content, depth))
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Header.ParentID == "" {
		p.said[m.Header.ID] = text
		p.lines[text] = true
		return
	}
	asked := p.said[m.Header.ParentID]
	delete(p.lines, asked)
	p.lines[asked+"\n  "+text] = true
	p.said[m.Header.ID] = asked + "\n  " + text // an answer is answered by an acknowledgement
}

// fields says which fields a content has, some levels deep, or what it is.
func fields(content []byte, depth int) string {
	var o any
	if json.Unmarshal(content, &o) != nil {
		return "?"
	}
	if s, ok := o.(string); ok {
		var inner map[string]any
		if json.Unmarshal([]byte(s), &inner) == nil {
			return "string of " + levels(inner, depth)
		}
		return strconv.Quote(s)
	}
	return levels(o, depth)
}

func levels(o any, depth int) string {
	m, ok := o.(map[string]any)
	switch {
	case o == nil:
		return " null"
	case !ok || depth == 0:
		return ""
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch k {
		case "managedFields", "generation", "creationTimestamp": // some types of Go leave them out
			continue
		}
		out = append(out, k+levels(m[k], depth-1))
	}
	return "{" + strings.Join(out, " ") + "}"
}

// TestTranscript holds what hub and edge say to each other, field by field, when an edge
// joins, gets a pod with a ConfigMap, and lets it go. testdata/transcript.golden is ours; the
// fleet has spoken it to a real CloudCore (the page says which), the hub to no real EdgeCore.
func TestTranscript(t *testing.T) {
	p := newTap(t)
	p.fleet(1, func(o *fleet.Options) { o.Lease, o.Status = 50*time.Millisecond, 50*time.Millisecond })
	repotest.Eventually(t, "the edge joins", func() bool { return len(p.server.Nodes()) == 1 && len(p.server.Leases()) == 1 })
	p.pods(0, 1, 1)
	repotest.Eventually(t, "the pod runs", func() bool { return p.running() == 1 })
	apitest.Change(p.server, settings, func(c *corev1.ConfigMap) { c.Data["level"] = "debug" })
	p.converged()
	p.server.EndPod("default", "p0")
	repotest.Eventually(t, "the pod goes", func() bool { return len(p.server.Pods()) == 0 })
	p.converged()
	repotest.Eventually(t, "everything was said", func() bool {
		text := p.text()
		for _, want := range []string{
			"insert default/node", "query kube-node-lease", "insert kube-node-lease", "update kube-node-lease", "nodepatch", "keepalive",
			"hub: insert default/pod/p0", "query default/configmap", "podpatch", "hub: update default/pod/p0", "hub: update default/configmap",
			"hub: update null/node", "hub: delete default/pod/p0", "edge: delete default/pod/p0", // answered after the pod is gone
		} {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
	repotest.Golden(t, "testdata/transcript.golden", p.text())
}

// late says whether a conversation is one that there is only where an end hears late of
// something: what an edge asks about a pod that is gone is refused, and a round deletes
// once more what it has not heard to be gone.
func late(line string) bool {
	refused := strings.Contains(line, "default/pod") && strings.Contains(line, "{Err Object null}")
	return refused || strings.HasPrefix(line, "hub: delete") && strings.Contains(line, "version false: {")
}

// text returns the conversations that came to their end, sorted; those that are still
// under way would be there in some runs alone.
func (p *tap) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for line := range p.lines {
		answers := strings.Count(line, "\n") // an edge acknowledges what answers it
		ended := answers == 2 || answers == 1 && strings.HasPrefix(line, "hub: ") || strings.Contains(line, "keepalive") || strings.Contains(line, "opens")
		if ended && !late(line) {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n") + "\n"
}
