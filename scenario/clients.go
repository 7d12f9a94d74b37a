package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Clients are many independent clients, such as the agents of a DaemonSet, that send the
// requests of a step. Request i is sent by client i modulo count, at the time that the step's
// pace says; a request waits longer only for the rate limiter of its own client. Connections
// open before the step's first request. In texts with {{.Client}} the number of the client is
// filled in, from 0.
type Clients struct {
	Name        string   `yaml:"name"`        // label clients of objectives; several steps may have the same; default: the step's name
	Count       int      `yaml:"count"`       // number of clients
	As          *As      `yaml:"as"`          // the user that each client acts as; default: windtunnel's own
	Connections int      `yaml:"connections"` // number of connections, which the clients share evenly; default: one for each client
	Limiter     *Limiter `yaml:"limiter"`     // rate limiter of each client; default: none
	Reader      *Reader  `yaml:"reader"`      // how each client reads its watches; default: at once
	ContentType string   `yaml:"contentType"` // protobuf (default): answers, and bodies of created objects, where the resource has it; json: all in JSON
	UserAgent   string   `yaml:"userAgent"`   // may contain {{.Client}}; default: windtunnel's own
}

// As is the identity of a client, by which API priority and fairness sorts and queues requests.
type As struct {
	User   string   `yaml:"user"`   // such as system:node:node-{{.Client}}
	Groups []string `yaml:"groups"` // may contain {{.Client}}; the API server adds system:authenticated
	Method string   `yaml:"method"` // impersonation (default): windtunnel's own user needs the right to impersonate the client; certificate: each client has a client certificate and a connection of its own, at a control plane that windtunnel starts
}

// Limiter is a token bucket as in client-go. A request that waits for it is not late by the
// load generator: the records have the time.
type Limiter struct {
	QPS   float64 `yaml:"qps"`   // requests per second, on average; retries, pages and the GET of an update count
	Burst int     `yaml:"burst"` // requests at once after a rest; default twice qps
}

// Reader is a client that reads its watches slowly or stops reading: what has come waits in the
// client, and once 4 MiB of a watch wait, the API server has to hold back the rest, as with
// client-go.
type Reader struct {
	Rate  unit.Bytes `yaml:"rate"`  // bytes per second, such as 64Ki; default: all that has come
	Stall *Stall     `yaml:"stall"` // the client stops reading once; default: never
}

// Stall is a time in which a client reads nothing and its connections stay open.
type Stall struct {
	After unit.Duration `yaml:"after"` // counted from the opening of the first watch of the client
	For   unit.Duration `yaml:"for"`   // default: to the end of the step
}

// What answers and bodies are written in: the values of clients.contentType.
const (
	ProtobufClients = "protobuf"
	JSONClients     = "json"
)

// How clients show who they are: the values of as.method.
const (
	ImpersonationMethod = "impersonation"
	CertificateMethod   = "certificate"
)

// HasCertificates tells whether each client has a client certificate.
func (c *Clients) HasCertificates() bool { return c.As != nil && c.As.Method == CertificateMethod }

// How an informer gets what exists: the values of call.informer.
const (
	ListInformer      = "list"
	WatchListInformer = "watchList"
)

// ClientMark stands for the number of a client.
const ClientMark = "{{.Client}}"

const maxClients = 50_000

// NamesClient tells whether a call is another one for each client.
func (x *Call) NamesClient() bool {
	return strings.Contains(x.Selector+x.FieldSelector, ClientMark)
}

// ForClient returns a text of clients with the number of a client filled in.
func ForClient(text string, client int) string {
	return strings.ReplaceAll(text, ClientMark, strconv.Itoa(client))
}

func (c *Clients) setDefaults() { c.ContentType = ProtobufClients }

func (a *As) setDefaults() { a.Method = ImpersonationMethod }

// fillDerived fills what follows from other fields.
func (c *Clients) fillDerived(step string) {
	if c.Name == "" {
		c.Name = step
	}
	if c.Connections == 0 {
		c.Connections = c.Count
	}
	if l := c.Limiter; l != nil && l.Burst == 0 && l.QPS > 0 {
		l.Burst = int(math.Min(math.Ceil(2*l.QPS), math.MaxInt32))
	}
}

// clientsChecker checks the clients of a step.
type clientsChecker struct{ *checker }

func (c clientsChecker) checkClients(path string, s *Step) {
	x := s.Clients
	if x == nil {
		c.checkNoClients(strings.TrimSuffix(path, ".clients"), s)
		return
	}
	switch {
	case !slices.Contains([]string{"create", "scale", "update", "churn", "delete", "requests"}, s.Verb()):
		c.reportAt(path, "step.clients: belongs to create, scale, update, churn, delete and requests, not to %s", s.Verb())
	case s.Cluster != "":
		c.reportAt(path, "step.clients: they are clients of the plane; a step in members has none")
	case s.Requests != nil && s.Requests.Connection == NewConnections:
		c.reportAt(path, "step.clients: clients keep their connections; connection: new opens one for each request")
	}
	c.checkLabel(path+".name", "clients.name", x.Name)
	if x.Count < 1 || x.Count > maxClients {
		c.reportAt(path+".count", "clients.count: %d is not in 1 to %d", x.Count, maxClients)
	} else if x.Connections < 1 || x.Connections > x.Count {
		c.reportAt(path+".connections", "clients.connections: %d is not in 1 to %d, the number of clients", x.Connections, x.Count)
	}
	if l := x.Limiter; l != nil {
		paceChecker(c).checkRate(path+".limiter.qps", "limiter.qps", l.QPS)
		c.checkNotNegative(path+".limiter.burst", "limiter.burst", l.Burst)
	}
	c.checkReader(path+".reader", s)
	c.checkWord(path+".contentType", "clients.contentType", x.ContentType)
	c.checkClientText(path+".userAgent", "clients.userAgent", x.UserAgent)
	if as := x.As; as != nil {
		if as.User == "" {
			c.reportAt(path+".as", "as.user: is needed: an API server refuses groups without a user")
		}
		c.checkWord(path+".as.method", "as.method", as.Method)
		if x.HasCertificates() && x.Connections != x.Count {
			c.reportAt(path+".connections", "clients.connections: a client with a certificate needs a connection of its own: leave it out, or as.method")
		}
		c.checkClientText(path+".as.user", "as.user", as.User)
		for i, group := range as.Groups {
			at := fmt.Sprintf("%s.as.groups[%d]", path, i)
			if group == "" {
				c.reportAt(at, "as.groups: an empty name")
			}
			c.checkClientText(at, "as.groups", group)
		}
	}
}

// checkReader checks how clients read their watches.
func (c clientsChecker) checkReader(path string, s *Step) {
	x := s.Clients.Reader
	if x == nil {
		return
	}
	if s.Requests == nil || !slices.ContainsFunc(s.Requests.Mix, func(x Call) bool { return x.Verb == "watch" }) {
		c.reportAt(path, "clients.reader: clients read watches by it, and the step has none")
	}
	if x.Rate == 0 && x.Stall == nil {
		c.reportAt(path, "clients.reader: needs rate, stall or both")
	}
	if x.Stall != nil {
		c.checkNotNegativeTime(path+".stall.after", "stall.after", x.Stall.After)
		c.checkNotNegativeTime(path+".stall.for", "stall.for", x.Stall.For)
	}
}

// checkNoClients refuses what only clients do in a step that has none.
func (c clientsChecker) checkNoClients(path string, s *Step) {
	if s.Requests == nil {
		return
	}
	for i := range s.Requests.Mix {
		call, at := &s.Requests.Mix[i], fmt.Sprintf("%s.requests.mix[%d]", path, i)
		if call.Informer != "" {
			c.reportAt(at+".informer", "call.informer: informers are clients: the step needs clients")
		}
		if call.NamesClient() {
			c.reportAt(at, "call: %s needs clients in its step", ClientMark)
		}
	}
}

// checkClientText checks a text that goes into a header.
func (c clientsChecker) checkClientText(path, field, text string) {
	rest := strings.ReplaceAll(text, ClientMark, "")
	switch {
	case strings.Contains(rest, "{{"):
		c.reportAt(path, "%s: %q: only %s is filled in, written like this", field, clipText(text), ClientMark)
	case strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r > '~' }):
		c.reportAt(path, "%s: %q has characters that a header cannot carry", field, clipText(text))
	}
}
