package run

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// Names of the samples that are counted from audit logs: by client (with version and user),
// verb, resource, subresource and code, as package audit writes them.
const (
	ClientFamilies  = "windtunnel_client_" // what the next three begin with
	ClientRequests  = "windtunnel_client_requests_total"
	ClientSeconds   = "windtunnel_client_request_seconds_total" // from receipt to answer; without long-running requests
	ClientWatches   = "windtunnel_client_watches_total"         // watches that began
	AuditBytes      = "windtunnel_audit_bytes_total"            // read of the audit log of a server
	AuditUnreadable = "windtunnel_audit_unreadable_total"       // lines that are no events
)

// What the server counts of its own; each Go program counts what it allocates.
const (
	servedRequests = "apiserver_request_total"
	AllocatedBytes = "go_memstats_alloc_bytes_total"
)

// EnoughAttributed is the share of the server's own count of requests that must be
// attributed to clients. Below it, what a client asked for is not known.
const EnoughAttributed = 0.98

// RequestKey is a kind of request.
type RequestKey struct{ Verb, Resource, Subresource string }

// String is "update deployments.apps/status".
func (k RequestKey) String() string {
	if k.Subresource != "" {
		return k.Verb + " " + k.Resource + "/" + k.Subresource
	}
	return strings.TrimSpace(k.Verb + " " + cmp.Or(k.Resource, "(no resource)"))
}

// Client is what one client asked of the API servers between the run's begin and its end.
type Client struct {
	Name     string // first product of its user agent
	Version  string // of that product; those of several, with commas
	User     string // empty where clients of several users are put together
	Requests float64
	Failed   float64 // of these, with a status of 400 and above
	Watches  float64 // that began
	Seconds  float64 // of requests from receipt to answer, all together; without long-running requests
	Kinds    map[RequestKey]float64
	// Share is its part of all clients' Seconds, CPU and Allocated that share of what
	// the API servers used: a model, for no server says what a request costs it.
	Share, CPU, Allocated float64 // CPU in seconds, Allocated in bytes; 0 where nothing is known
}

// Attribution is who asked what of the API servers.
type Attribution struct {
	From, To   clock.Time // scrapes of the API server between which it counted: the last one before the run's begin, and the last one in it
	Clients    []Client   // by name and user, the greatest share first
	Attributed float64    // of Served, those that the audit log has
	Served     float64    // requests for resources by the servers' own counters; 0: they were not read
	Bytes      float64    // of audit log that were read
	Unreadable float64    // lines of it that are no events
	Kinds      map[RequestKey]Counted
}

// Counted is one kind of request by the audit log and by the server's own counter. The log is
// read right before and right after the server's counters, so that there are two counts of it;
// requests that ended in between may be in the server's or not.
type Counted struct{ Least, Most, Served float64 }

// Attributed is how many of the requests that the server counted are in the audit log.
func (c Counted) Attributed() float64 { return min(c.Served, c.Most) }

// Agree tells whether the audit log has as many requests as the server counted.
func (c Counted) Agree() bool { return c.Least <= c.Served && c.Served <= c.Most }

// CoveredShare is the share of the servers' own count of requests that is attributed; false where
// the servers' count is not known.
func (a *Attribution) CoveredShare() (share float64, known bool) {
	if a.Served == 0 {
		return 0, false
	}
	return a.Attributed / a.Served, true
}

// Enough tells whether what clients asked for is known.
func (a *Attribution) Enough() bool {
	share, known := a.CoveredShare()
	return known && share >= EnoughAttributed
}

// Attribute counts the requests of each client in a run; nil where no audit log was read.
func (f *Facts) Attribute() *Attribution {
	if len(f.Series.Named(AuditBytes)) == 0 || !f.Began() {
		return nil
	}
	a := &Attribution{From: f.Begin, To: f.End, Kinds: map[RequestKey]Counted{}}
	for _, at := range f.Series.Scrapes(component.APIServer) {
		if at <= f.Begin {
			a.From = at
		}
		if at <= f.End {
			a.To = max(a.From, at)
		}
	}
	a.Bytes, a.Unreadable = f.sumIncreases(f.Series.Named(AuditBytes)), f.sumIncreases(f.Series.Named(AuditUnreadable))
	a.countServed(f)
	a.countLogged(f)
	for _, c := range a.Kinds {
		a.Served, a.Attributed = a.Served+c.Served, a.Attributed+c.Attributed()
	}
	a.countClients(f)
	cpu, _ := f.CPUSeconds(component.APIServer)
	a.shareOut(cpu, f.sumIncreases(f.Series.Select(component.APIServer, AllocatedBytes, nil)))
	return a
}

func (f *Facts) sumIncreases(all []*series.Series) (sum float64) {
	for _, s := range all {
		if rise, ok := s.Increase(f.Begin, f.End); ok {
			sum += rise
		}
	}
	return sum
}

// countServed takes the servers' own counts of requests for resources.
func (a *Attribution) countServed(f *Facts) {
	for _, s := range f.Series.Select(component.APIServer, servedRequests, nil) {
		if rise, ok := s.Increase(a.From, a.To); ok && rise > 0 && s.Label("resource") != "" {
			key := RequestKey{ServedVerb(s.Label("verb")), s.Label("resource"), s.Label("subresource")}
			if g := s.Label("group"); g != "" {
				key.Resource += "." + g
			}
			c := a.Kinds[key]
			c.Served += rise
			a.Kinds[key] = c
		}
	}
}

// countLogged takes the audit logs' counts of requests for resources.
func (a *Attribution) countLogged(f *Facts) {
	for _, s := range f.Series.Named(ClientRequests) {
		key := RequestKey{s.Label("verb"), s.Label("resource"), s.Label("subresource")}
		if key.Resource == "" {
			continue
		}
		least, _ := s.Increase(f.Begin, a.To)
		most, _ := s.Increase(a.From, f.End)
		if c := a.Kinds[key]; most > 0 {
			c.Least, c.Most = c.Least+least, c.Most+most
			a.Kinds[key] = c
		}
	}
}

// ServedVerb is the API verb that the server's metrics know by another name.
func ServedVerb(verb string) string {
	switch verb {
	case "POST":
		return "create"
	case "PUT":
		return "update"
	case "APPLY":
		return "patch"
	}
	return strings.ToLower(verb)
}

// countClients takes what the audit logs said.
func (a *Attribution) countClients(f *Facts) {
	all := map[[2]string]*Client{}
	each := func(metric string, add func(c *Client, s *series.Series, rise float64)) {
		for _, s := range f.Series.Named(metric) {
			rise, ok := s.Increase(f.Begin, f.End)
			if !ok || rise == 0 {
				continue
			}
			key := [2]string{s.Label("client"), s.Label("user")}
			if all[key] == nil {
				all[key] = &Client{Name: key[0], User: key[1], Kinds: map[RequestKey]float64{}}
			}
			all[key].addVersion(s.Label("version"))
			add(all[key], s, rise)
		}
	}
	each(ClientRequests, func(c *Client, s *series.Series, rise float64) {
		key := RequestKey{s.Label("verb"), s.Label("resource"), s.Label("subresource")}
		c.Requests += rise
		c.Kinds[key] += rise
		if s.Label("code") >= "400" {
			c.Failed += rise
		}
	})
	each(ClientSeconds, func(c *Client, _ *series.Series, rise float64) { c.Seconds += rise })
	each(ClientWatches, func(c *Client, _ *series.Series, rise float64) { c.Watches += rise })
	for _, c := range all {
		a.Clients = append(a.Clients, *c)
	}
}

func (c *Client) addVersion(version string) {
	if version != "" && !slices.Contains(strings.Split(c.Version, ", "), version) {
		c.Version = strings.TrimPrefix(c.Version+", "+version, ", ")
	}
}

// shareOut gives each client its part of what the API servers used, and sorts them.
func (a *Attribution) shareOut(cpu, allocated float64) {
	sum := 0.0
	for _, c := range a.Clients {
		sum += c.Seconds
	}
	for i := range a.Clients {
		c := &a.Clients[i]
		if sum > 0 {
			c.Share = c.Seconds / sum
		}
		c.CPU, c.Allocated = c.Share*cpu, c.Share*allocated
	}
	sortClients(a.Clients)
}

func sortClients(all []Client) {
	slices.SortFunc(all, func(a, b Client) int {
		return cmp.Or(-cmp.Compare(a.Share, b.Share), -cmp.Compare(a.Requests, b.Requests), cmp.Compare(a.Name, b.Name), cmp.Compare(a.User, b.User))
	})
}

// ByName puts the clients of all users of one name together, the greatest share first.
func (a *Attribution) ByName() []Client {
	all := map[string]*Client{}
	for _, c := range a.Clients {
		sum := all[c.Name]
		if sum == nil {
			sum = &Client{Name: c.Name, Kinds: map[RequestKey]float64{}}
			all[c.Name] = sum
		}
		for version := range strings.SplitSeq(c.Version, ", ") {
			sum.addVersion(version)
		}
		sum.Add(c)
	}
	var out []Client
	for _, c := range all {
		out = append(out, *c)
	}
	sortClients(out)
	return out
}

// Add adds what another client asked for.
func (c *Client) Add(o Client) {
	c.Requests, c.Failed, c.Watches, c.Seconds = c.Requests+o.Requests, c.Failed+o.Failed, c.Watches+o.Watches, c.Seconds+o.Seconds
	c.Share, c.CPU, c.Allocated = c.Share+o.Share, c.CPU+o.CPU, c.Allocated+o.Allocated
	for key, n := range o.Kinds {
		c.Kinds[key] += n
	}
}

// Busiest returns the kinds of request that a client sent most, at most n.
func (c Client) Busiest(n int) []RequestKey {
	out := slices.SortedFunc(maps.Keys(c.Kinds), func(a, b RequestKey) int {
		return cmp.Or(-cmp.Compare(c.Kinds[a], c.Kinds[b]), cmp.Compare(a.String(), b.String()))
	})
	return out[:min(n, len(out))]
}
