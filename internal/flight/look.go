package flight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
	"github.com/windtunnel/windtunnel/internal/plane"
)

// looker collects what the gate wants to know of the plane. What is a rate is
// that since the look before.
type looker struct {
	r  *run
	at clock.Time // when CPU was read

	used    map[string]float64 // CPU seconds, by component; "" is windtunnel
	host    map[string]float64 // seconds of all cores, by what they did
	machine preflight.State    // what the last look at CPU gave

	retries map[string]retried // by component
	renewed renewed
	stored  map[string]float64 // objects, by resource
	served  []discovery.Resource
}

// retried is what the queues of a component said last of what came back to them.
type retried struct {
	at     clock.Time
	counts map[string]float64 // by queue, since the component's start
	rates  map[string]float64 // by queue, per second; nil: not known yet
}

// shortest is over how long a mean of CPU or of retries is worth anything.
const shortest = 300 * time.Millisecond

// newLooker returns a looker that counts from now on. Where the plane was not
// started yet, all of its CPU counts.
func (r *run) newLooker() *looker {
	return &looker{r: r, at: r.clock.Now(), used: r.cpuSeconds(), host: usage.HostTimes(), retries: map[string]retried{}}
}

// begin lets retries, too, count from now on: the next look knows their rates.
func (l *looker) begin(ctx context.Context) {
	l.metrics(ctx, &preflight.State{})
	l.again()
}

// cpuSeconds is what windtunnel and the components have used until now.
func (r *run) cpuSeconds() map[string]float64 {
	out := map[string]float64{}
	add := func(name string, pid int) {
		if u, err := usage.Of(pid); err == nil {
			out[name] = u.CPUSeconds
		}
	}
	add("", os.Getpid())
	if r.plane != nil {
		for _, c := range r.plane.Components() {
			if c.PID > 0 {
				add(c.Name, c.PID)
			}
		}
	}
	return out
}

// state looks at CPU and metrics; residue and canaries add the rest.
func (l *looker) state(ctx context.Context) preflight.State {
	l.processes()
	s := l.machine
	l.metrics(ctx, &s)
	return s
}

// processes measures CPU, unless it did so a moment ago.
func (l *looker) processes() {
	now := l.r.clock.Now()
	took := now.Sub(l.at)
	if took < shortest {
		return
	}
	used, host := l.r.cpuSeconds(), usage.HostTimes()
	s := preflight.State{CPU: map[string]float64{}}
	known := 0.0
	for name, seconds := range used {
		rise := seconds - l.used[name]
		if rise < 0 {
			rise = seconds // started again
		}
		if known += rise; name != "" {
			s.CPU[name] = rise / took.Seconds()
		}
	}
	total, busy := 0.0, 0.0
	for mode, seconds := range host {
		rise := seconds - l.host[mode]
		total += rise
		if mode != "idle" && mode != "iowait" && mode != "steal" {
			busy += rise
		}
	}
	if total > 0 {
		s.Steal = (host["steal"] - l.host["steal"]) / total
		if l.r.own() { // of another plane it is not known whether it runs here
			s.Others = max(0, busy-known) / total
		}
	}
	l.at, l.used, l.host, l.machine = now, used, host, s
}

// again lets CPU count from now on.
func (l *looker) again() { l.at, l.used, l.host = l.r.clock.Now(), l.r.cpuSeconds(), usage.HostTimes() }

// metrics reads what components say of themselves. Those of a plane of
// somebody else's may not be for us to read, which the scraper says.
func (l *looker) metrics(ctx context.Context, s *preflight.State) {
	s.Queues, s.Heap = map[string]preflight.Work{}, map[string]float64{}
	if l.r.plane == nil {
		return
	}
	for _, c := range l.r.plane.Components() {
		if c.MetricsURL == "" {
			continue
		}
		text, err := metricsOf(ctx, c)
		if err != nil {
			if c.PID > 0 {
				s.Unread = append(s.Unread, fmt.Sprintf("the metrics of %s could not be read: %v", c.Name, err))
			}
			continue
		}
		found := preflight.Read(text)
		rates := l.rates(c.Name, found.Retries)
		if rates == nil && len(found.Depth) > 0 {
			s.Unrated = append(s.Unrated, c.Name)
		}
		for queue, depth := range found.Depth {
			s.Queues[c.Name+" "+queue] = preflight.Work{Depth: depth, Longest: found.Longest[queue], Retries: rates[queue]}
		}
		if found.Heap > 0 {
			s.Heap[c.Name] = found.Heap
		}
		s.Store = max(s.Store, found.Store)
		if len(found.Objects) > 0 {
			l.stored = found.Objects
		}
	}
}

// rates returns how often items come back to a component's queues, per second,
// since it was read before; nil when it was not. A component that could not be
// read in between has a longer interval, not another rate.
func (l *looker) rates(component string, counts map[string]float64) map[string]float64 {
	now := l.r.clock.Now()
	before, known := l.retries[component]
	took := now.Sub(before.at)
	if known && took < shortest {
		return before.rates
	}
	var rates map[string]float64
	if known {
		rates = map[string]float64{}
		for queue, n := range counts {
			rise := n - before.counts[queue]
			if rise < 0 {
				rise = n // started again
			}
			rates[queue] = rise / took.Seconds()
		}
	}
	l.retries[component] = retried{now, counts, rates}
	return rates
}

// maxMetrics bounds what is read of a component's metrics.
const maxMetrics = 64 << 20

// metricsOf reads a component's metrics.
func metricsOf(ctx context.Context, c plane.Component) (string, error) {
	client, _, err := c.Scrape.Client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.MetricsURL, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMetrics))
	return string(text), err
}

// Who made an object is told by who manages its fields: windtunnel's clients
// all begin so.
const (
	ours        = "windtunnel"
	oursFleet   = "windtunnel-fleet"
	aliveWithin = time.Minute // a lease renewed so recently is that of a fleet that runs
)

// renewed is when the fleets of others renewed a lease last.
type renewed struct {
	last  time.Time  // by the server's clock; zero: there is none
	seen  clock.Time // when it was first seen, by ours
	moved bool       // from one look to another
}

// alive tells whether a fleet runs whose newest lease was renewed at last, when
// the newest time of what anybody else wrote is that. Both are times of the
// server: its clock may be far from ours. Where nobody else wrote anything, ours
// has to do.
func (l *looker) alive(last, others time.Time) bool {
	now, was := l.r.clock.Now(), &l.renewed
	if last.After(was.last) {
		*was = renewed{last, now, !was.last.IsZero()}
	}
	if others.IsZero() {
		others = l.r.clock.Wall(now)
	}
	switch {
	case last.IsZero() || now.Sub(was.seen) >= aliveWithin:
		return false
	case was.moved:
		return true
	}
	return others.Sub(last) < aliveWithin
}

// residue lists the objects of all served resources and notes those that are on
// their way out, and those that an earlier run left behind. A fleet that runs in
// the cluster by itself belongs to it.
func (l *looker) residue(ctx context.Context, s *preflight.State) {
	var left, nodes []preflight.Object
	var last, others time.Time
	l.objects(ctx, s, nil, func(resource string, o listed) {
		one := gone(resource, o, s)
		mine, fleet := false, true
		for _, f := range o.Metadata.ManagedFields {
			switch {
			case !strings.HasPrefix(f.Manager, ours):
				others = latest(others, f.Time)
				continue
			case f.Manager == oursFleet && strings.HasPrefix(resource, "leases."):
				last = latest(last, f.Time)
			}
			mine, fleet = true, fleet && f.Manager == oursFleet
		}
		switch {
		case o.Metadata.DeletionTimestamp != "" || !mine:
		case l.r.subjects.installer.Has(resource, o.Metadata.Namespace, o.Metadata.Name): // this run's
		case fleet:
			nodes = append(nodes, one)
		default:
			left = append(left, one)
		}
	})
	if !l.alive(last, others) {
		left = append(left, nodes...)
	}
	s.Leftovers = left
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// gone notes an object that is on its way out. Of others it does not matter what
// would hold them.
func gone(resource string, o listed, s *preflight.State) preflight.Object {
	one := preflight.Object{Resource: resource, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
	if o.Metadata.DeletionTimestamp != "" {
		one.Finalizers = o.Metadata.Finalizers
		s.Terminating = append(s.Terminating, one)
	}
	return one
}

// terminating notes the objects that are on their way out. In a plane of our own
// it lists only what the run has touched, and what there is more of than at
// first: its calls are among those that the run measures.
func (l *looker) terminating(ctx context.Context, s *preflight.State) {
	if !l.r.own() || l.r.stored == nil {
		l.objects(ctx, s, nil, func(resource string, o listed) { gone(resource, o, s) })
		return
	}
	touched := l.r.touched()
	some := func(resource string) bool { return touched[resource] || l.stored[resource] > l.r.stored[resource] }
	l.objects(ctx, s, some, func(resource string, o listed) { gone(resource, o, s) })
}

// touched are the resources of which the run makes objects.
func (r *run) touched() map[string]bool {
	out := map[string]bool{"namespaces": true, "pods": true}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.made {
		for _, k := range m.kinds {
			out[k.resource.Name] = true
		}
	}
	return out
}

// objects lists the objects of all served resources but events, which come and
// go by themselves, or of those that some says. What is not for us to read is
// left out.
func (l *looker) objects(ctx context.Context, s *preflight.State, some func(resource string) bool, take func(resource string, o listed)) {
	all, err := l.served, error(nil)
	if all == nil {
		all, err = discovery.New(l.r.watcher).Listable(ctx)
	}
	switch {
	case err != nil && len(all) == 0:
		s.Unread = append(s.Unread, err.Error())
	case err != nil:
		s.Down = append(s.Down, strings.ReplaceAll(err.Error(), "\n", "; "))
	default:
		l.served = all
	}
	for _, one := range all {
		if one.Plural == "events" || some != nil && !some(one.Name) {
			continue
		}
		err := listNames(ctx, l.r.watcher, one.All(), "", func(o listed) { take(one.Name, o) })
		var status *wire.StatusError
		if refused := errors.As(err, &status) && slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}, status.Code); err != nil && !refused {
			s.Unread = append(s.Unread, err.Error())
		}
	}
}
