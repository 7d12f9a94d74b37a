package edge_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
)

// stranger is a peer of a hub that a test plays.
type stranger struct {
	mu    sync.Mutex
	got   []message.Message
	ended bool
}

func (s *stranger) Message(raw []byte) error {
	m, err := message.Decode(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, m)
	return err
}

func (s *stranger) Ended(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *stranger) isEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// longest returns the size of the largest content that came.
func (s *stranger) longest() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.got {
		n = max(n, len(m.Content))
	}
	return n
}

// answer returns what answers a message.
func (s *stranger) answer(id string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.got {
		if m.Header.ParentID == id {
			return string(m.Content), true
		}
	}
	return "", false
}

// gate is a hub with what a peer needs to reach it.
type gate struct {
	*rig
	registry  *instrument.Registry
	where     api.Hub
	authority *trust.Authority
	poller    *link.Poller
}

func newGate(t *testing.T, change func(*hub.Options)) *gate {
	g := &gate{rig: deviceRig(t), registry: instrument.New("")}
	g.settings("info")
	g.rig.hub(func(o *hub.Options) {
		o.Registry = g.registry
		if change != nil {
			change(o)
		}
	})
	repotest.Eventually(t, "the hub says where it is", func() bool {
		o := g.server.Get("/api/v1/namespaces/kubeedge/configmaps/" + api.ConfigMapHubs)
		if o == nil {
			return false
		}
		text, _ := o.Object["data"].(map[string]any)["hub"].(string)
		return json.Unmarshal([]byte(text), &g.where) == nil
	})
	var s corev1.Secret
	raw := repotest.Must(json.Marshal(g.server.Get("/api/v1/namespaces/kubeedge/secrets/" + api.SecretAuthority).Object))(t)
	repotest.NoError(t, json.Unmarshal(raw, &s))
	g.authority = repotest.Must(trust.ReadAuthority(s.Data[api.KeyAuthority], s.Data[api.KeyAuthorityKey]))(t)
	g.poller = repotest.Must(link.NewPoller(context.Background()))(t)
	t.Cleanup(g.poller.Close)
	return g
}

// dial connects as a node with a certificate of an authority.
func (g *gate) dial(node string, a *trust.Authority, header http.Header) (*link.Conn, *stranger, error) {
	return g.dialAt(time.Now(), node, a, header)
}

// dialAt dials with a certificate that was made at a time.
func (g *gate) dialAt(made time.Time, node string, a *trust.Authority, header http.Header) (*link.Conn, *stranger, error) {
	c := repotest.Must(a.Client(node, made))(g.t)
	conn, err := g.open(node, c, header)
	if err != nil {
		return nil, nil, err
	}
	s := &stranger{}
	conn.SetHandler(s)
	return conn, s, g.poller.Add(conn)
}

// connected dials as a node that is to be let in.
func (g *gate) connected(node string) (*link.Conn, *stranger) {
	g.t.Helper()
	conn, s, err := g.dial(node, g.authority, named(node))
	repotest.NoError(g.t, err)
	return conn, s
}

// connect opens a connection that nobody reads.
func (g *gate) connect(node string, a *trust.Authority, header http.Header) (*link.Conn, error) {
	c := repotest.Must(a.Client(node, time.Now()))(g.t)
	conn, err := g.open(node, c, header)
	if err == nil {
		g.t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func (g *gate) open(node string, c tls.Certificate, header http.Header) (*link.Conn, error) {
	o := link.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: g.authority.Pool(), Certificates: []tls.Certificate{c}}}
	return link.Dial(g.t.Context(), net.JoinHostPort(g.where.Address, strconv.Itoa(g.where.Websocket)), "/p/"+node+"/events", header, o)
}

func named(node string) http.Header {
	return http.Header{"node_id": {node}, "ConnectionUse": {"msg"}}
}

// counter reads a counter of the hub, of the series that have all labels, NAME=VALUE.
func (g *gate) counter(name string, labels ...string) float64 {
	g.t.Helper()
	return instrumenttest.Measured(g.t, g.registry, name, labels...).Value
}

// query asks a hub for the ConfigMap that is there, and waits for it: whoever gets
// it is served.
func (g *gate) query(c interface{ Send([]byte) error }, s *stranger) {
	g.t.Helper()
	m := message.New(1, message.Route{Source: message.SourceEdge, Group: message.GroupMeta, Operation: message.Query, Resource: "default/configmap/settings"}, nil)
	repotest.NoError(g.t, c.Send(m.Append(nil)))
	repotest.Eventually(g.t, "the hub answers", func() bool { text, ok := s.answer(m.Header.ID); return ok && strings.Contains(text, "info") })
}

// refuses holds that a hub of one edge, which is connected, lets nobody else in and counts why.
// named returns the header of a node.
func (g *gate) refuses(named func(node string) http.Header, dial func(node string, a *trust.Authority, header http.Header) error) {
	g.t.Helper()
	other := repotest.Must(trust.NewAuthority(time.Now()))(g.t)
	without := func(name string) http.Header {
		header := named("edge-0")
		maps.DeleteFunc(header, func(key string, _ []string) bool { return strings.EqualFold(key, name) })
		return header
	}
	for _, c := range []struct {
		node   string
		a      *trust.Authority
		header http.Header
		reason string
	}{
		{"edge-0", g.authority, without("node_id"), "no name"},
		{"edge-0", g.authority, without("ConnectionUse"), "no ConnectionUse"},
		{"edge-1", g.authority, named("edge-0"), "name of another"},
		{"edge-1", g.authority, named("edge-1"), "limit"},
		{"edge-0", other, named("edge-0"), "unknown authority"},
	} {
		if dial(c.node, c.a, c.header) == nil {
			g.t.Errorf("%s: let in", c.reason)
		}
		repotest.Eventually(g.t, c.reason+" is counted", func() bool { return g.counter("edge_hub_connects_total", "result="+c.reason) == 1 })
	}
}

// TestNotLetIn holds who is refused, that each is counted by its reason, and that
// an edge that is connected is served all the while.
func TestNotLetIn(t *testing.T) {
	g := newGate(t, func(o *hub.Options) { o.LimitAnswer, o.NodeLimit, o.Authorize = hub.LimitClose, 1, true })
	conn, good := g.connected("edge-0")
	g.refuses(named, func(node string, a *trust.Authority, header http.Header) error {
		_, _, err := g.dial(node, a, header)
		return err
	})
	if _, _, err := g.dialAt(time.Now().Add(-2*trust.CertificateLasts), "edge-0", g.authority, named("edge-0")); err == nil {
		t.Error("a certificate that has expired: let in")
	}
	repotest.Eventually(t, "an expired certificate is counted", func() bool { return g.counter("edge_hub_connects_total", "result=certificate expired") == 1 })
	g.query(conn, good)
}

// TestNoHandshake holds that a peer that connects and says nothing, or begins a
// handshake and stops, is given up, and that it keeps nobody waiting.
func TestNoHandshake(t *testing.T) {
	g := newGate(t, func(o *hub.Options) { o.HandshakeTimeout = 2 * time.Second })
	for _, said := range []string{"", "\x16\x03\x01\x02\x00\x01", "GET / HTTP/1.1\r\n\r\n"} {
		raw := repotest.Must(net.Dial("tcp", net.JoinHostPort(g.where.Address, strconv.Itoa(g.where.Websocket))))(t)
		t.Cleanup(func() { _ = raw.Close() })
		repotest.Must(raw.Write([]byte(said)))(t)
	}
	conn, good := g.connected("edge-0")
	g.query(conn, good)
	repotest.Eventually(t, "all three are counted", func() bool {
		return g.counter("edge_hub_connects_total", "result=handshake timeout") == 2 && g.counter("edge_hub_connects_total", "result=handshake failed") == 1
	})
}

// TestSlowReader holds that an edge that does not read is given up, and why, and that
// others are served meanwhile.
func TestSlowReader(t *testing.T) {
	g := newGate(t, func(o *hub.Options) {
		o.Answers = hub.AnswersDirect                                   // or an answer waits for the acknowledgement of the one before
		o.WriteTimeout, o.ResendAfter = 300*time.Millisecond, time.Hour // resends of the large one, which nobody acknowledges, would make the other edge slow, too
	})
	g.settings("info" + strings.Repeat("x", 900<<10))
	conn, good := g.connected("edge-0")
	repotest.Eventually(t, "the hub has seen the large one", func() bool { g.query(conn, good); return good.longest() > 900<<10 })
	slow := repotest.Must(g.connect("edge-1", g.authority, named("edge-1")))(t)
	for range 64 { // 58 MB, more than any two sockets hold
		m := message.New(1, message.Route{Source: message.SourceEdge, Operation: message.Query, Resource: "default/configmap/settings"}, nil)
		if slow.Send(m.Append(nil)) != nil {
			break // it is given up already
		}
	}
	g.query(conn, good)
	repotest.Eventually(t, "it is given up", func() bool { return g.counter("edge_hub_sessions_ended_total", "reason=does not read") == 1 })
	g.query(conn, good)
}

// TestSilentLimit holds KubeEdge's answer to edges beyond the limit: one more is served, the
// next one stays connected, its node is made, and nothing is answered.
func TestSilentLimit(t *testing.T) {
	g := newGate(t, func(o *hub.Options) { o.NodeLimit = 1 })
	g.query(g.connected("edge-0")) // a connection is opened before the hub has it: only then is the next one the next
	conn, good := g.connected("edge-1")
	g.query(conn, good)
	unserved, s := g.connected("edge-2")
	m := message.New(1, message.Route{Source: message.SourceEdge, Operation: message.Insert, Resource: "default/node/edge-2"}, []byte(`{"metadata":{"name":"edge-2"}}`))
	repotest.NoError(t, unserved.Send(m.Append(nil)))
	repotest.Eventually(t, "the node of an edge too many is made", func() bool { return len(g.server.Nodes()) == 1 })
	g.query(conn, good)
	if _, ok := s.answer(m.Header.ID); ok || s.isEnded() {
		t.Errorf("an edge too many was answered %v, ended %v", ok, s.isEnded())
	}
}

// TestHostileMessages holds that what is no message, and what is one and makes no
// sense, is counted and harms nobody; what breaks the protocol ends the connection.
func TestHostileMessages(t *testing.T) {
	g := newGate(t, nil)
	conn, good := g.connected("edge-0")
	bad, s := g.connected("edge-1")
	const head = `{"header":{"msg_id":"1","timestamp":1},"route":{"source":"edged","operation":`
	for _, raw := range []string{
		"", "{", "[]", `"text"`, head + `"insert"},"content":null}`,
		head + `"insert","resource":"default/node/edge-1"},"content":"a string for an object"}`,
		head + `"patch","resource":"default/podpatch/p"},"content":{"no":"string"}}`,
		head + `"patch","resource":"default/podpatch/p"},"content":"{no patch"}`,
		head + `"delete","resource":"default/pod/p"},"content":7}`,
		head + `"dance","resource":"default/pod/p"},"content":null}`,
		head + `"query","resource":"default/configmap/none"},"content":null}`,
		head + `"query","resource":"../../secrets"},"content":null}`,
		`{"header":{"msg_id":"1","parent_msg_id":"nothing"},"route":{"operation":"response","resource":"a/pod/b"},"content":"OK"}`,
		`{"header":{"msg_id":"1"},"route":{"source":"edgecontroller","operation":"delete","resource":"default/pod/p"},"content":null}`,
	} {
		if err := bad.Send([]byte(raw)); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	}
	g.query(bad, s)
	for reason, want := range map[string]float64{"malformed": 4, "unknown resource": 2, "source is the cloud": 1} {
		repotest.Equal(t, g.counter("edge_hub_dropped_total", "reason="+reason), want, "%s: messages counted", reason)
	}
	if err := bad.Send(make([]byte, link.DefaultLimit+1)); err == nil {
		repotest.Eventually(t, "an oversized message ends it", s.isEnded)
	}
	repotest.Eventually(t, "that is counted", func() bool {
		return g.counter("edge_hub_sessions_ended_total", "reason=protocol broken")+g.counter("edge_hub_sessions_ended_total", "reason=connection lost") == 1
	})
	g.query(conn, good)
}

// TestTwins holds that of two connections of one name the newer one is served, and
// that the end of the older one does not end it.
func TestTwins(t *testing.T) {
	g := newGate(t, nil)
	older, first := g.connected("edge-0")
	g.query(older, first) // a connection is opened before the hub has it: only then is it the older one
	conn, second := g.connected("edge-0")
	repotest.Eventually(t, "the older one ends", first.isEnded)
	g.query(conn, second)
	repotest.Equal(t, g.counter("edge_hub_sessions_ended_total", "reason=a newer connection of the node"), 1, "ends are counted")
}

// TestSilence holds that an edge whose keepalives stay away is given up, and why.
func TestSilence(t *testing.T) {
	g := newGate(t, func(o *hub.Options) { o.Keepalive = 300 * time.Millisecond })
	_, s := g.connected("edge-0")
	repotest.Eventually(t, "it ends", s.isEnded)
	repotest.Eventually(t, "that is counted", func() bool { return g.counter("edge_hub_sessions_ended_total", "reason=no keepalive") == 1 })
}

// pods returns how many messages about pods came.
func (s *stranger) pods() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.got {
		if r, err := message.ParseResource(m.Route.Resource); err == nil && r.Type == message.TypePod {
			n++
		}
	}
	return n
}

// TestQueuesOfConnections holds that what an edge has not acknowledged goes with its
// connection and is left to the rounds, or as in v1.11 is sent when it is back.
func TestQueuesOfConnections(t *testing.T) {
	for _, words := range []string{hub.QueuesHead, hub.QueuesV111} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, func(o *hub.Options) {
				o.Queues, o.Round, o.ResendAfter = words, time.Hour, time.Hour
				o.Window = 4 // nothing is acknowledged: node, answer and pod are sent at once, in any order
			})
			g.server.AddNode(edgeNode("edge-0"))
			conn, s := g.connected("edge-0")
			g.query(conn, s) // a pod that comes before the session is left to the round
			g.pods(0, 1, 1)
			repotest.Eventually(t, "the pod is sent", func() bool { return s.pods() == 1 })
			_ = conn.Close()
			repotest.Eventually(t, "the session ends", func() bool { return g.counter("edge_hub_sessions_ended_total") == 1 })
			again, s := g.connected("edge-0")
			if words == hub.QueuesV111 {
				repotest.Eventually(t, "the pod is sent again", func() bool { return s.pods() == 1 })
				return // all else waits behind it
			}
			g.query(again, s)
			repotest.Equal(t, s.pods(), 0, "messages about the pod")
		})
	}
}
