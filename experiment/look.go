package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/discovery"
	"github.com/windtunnel/windtunnel/gate"
	"github.com/windtunnel/windtunnel/observe/usage"
	"github.com/windtunnel/windtunnel/plane"
	"github.com/windtunnel/windtunnel/wire"
)

// looker collects what the gate wants to know of the plane. What is a rate is
// that since the look before.
type looker struct {
	r  *run
	at clock.Time // when CPU was read

	used    map[string]float64 // CPU seconds, by component; "" is windtunnel
	host    map[string]float64 // seconds of all cores, by what they did
	machine gate.State         // what the last look at CPU gave

	retries map[string]float64 // by queue
	counted clock.Time         // when they were read
	stored  map[string]float64 // objects, by resource
	served  []discovery.Resource
}

// shortest is over how long a mean of CPU or of retries is worth anything.
const shortest = 300 * time.Millisecond

// newLooker returns a looker that counts from now on. Where the plane was not
// started yet, all of its CPU counts.
func (r *run) newLooker() *looker {
	return &looker{r: r, at: r.clock.Now(), used: r.cpuSeconds(), host: usage.HostTimes()}
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
func (l *looker) state(ctx context.Context) gate.State {
	l.processes()
	s := l.machine
	s.Queues, s.Heap = map[string]gate.Work{}, map[string]float64{}
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
	s := gate.State{CPU: map[string]float64{}}
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
func (l *looker) metrics(ctx context.Context, s *gate.State) {
	if l.r.plane == nil {
		return
	}
	now, retries := l.r.clock.Now(), map[string]float64{}
	since := now.Sub(l.counted)
	if l.retries == nil {
		since = 0
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
		found := gate.Read(text)
		for queue, depth := range found.Depth {
			name := c.Name + " " + queue
			w := gate.Work{Depth: depth, Longest: found.Longest[queue]}
			retries[name] = found.Retries[queue]
			if since >= shortest {
				w.Retries = max(0, retries[name]-l.retries[name]) / since.Seconds()
			}
			s.Queues[name] = w
		}
		if found.Heap > 0 {
			s.Heap[c.Name] = found.Heap
		}
		s.Store = max(s.Store, found.Store)
		if len(found.Objects) > 0 {
			l.stored = found.Objects
		}
	}
	if since == 0 || since >= shortest {
		l.retries, l.counted = retries, now
	}
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

// residue lists the objects of all served resources and notes those that are on
// their way out, and those that an earlier run left behind. A fleet that runs in
// the cluster by itself belongs to it.
func (l *looker) residue(ctx context.Context, s *gate.State) {
	var left, nodes []gate.Object
	alive := false
	l.objects(ctx, s, nil, func(resource string, o listed) {
		one := gone(resource, o, s)
		mine, fleet := false, true
		for _, f := range o.Metadata.ManagedFields {
			if strings.HasPrefix(f.Manager, ours) {
				mine, fleet = true, fleet && f.Manager == oursFleet
				alive = alive || f.Manager == oursFleet && strings.HasPrefix(resource, "leases.") && l.r.clock.Wall(l.r.clock.Now()).Sub(f.Time) < aliveWithin
			}
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
	if !alive {
		left = append(left, nodes...)
	}
	s.Leftovers = left
}

// gone notes an object that is on its way out. Of others it does not matter what
// would hold them.
func gone(resource string, o listed, s *gate.State) gate.Object {
	one := gate.Object{Resource: resource, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
	if o.Metadata.DeletionTimestamp != "" {
		one.Finalizers = o.Metadata.Finalizers
		s.Terminating = append(s.Terminating, one)
	}
	return one
}

// terminating notes the objects that are on their way out. In a plane of our own
// it lists only what the run has touched, and what there is more of than at
// first: its calls are among those that the run measures.
func (l *looker) terminating(ctx context.Context, s *gate.State) {
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
func (l *looker) objects(ctx context.Context, s *gate.State, some func(resource string) bool, take func(resource string, o listed)) {
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

// Canaries are leases: small, looked at by few, and of a resource that every
// plane writes all the time.
const (
	canaryCount = 20
	canaryPath  = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
)

// canaries makes some objects, one after another, and deletes them. Where that
// is not for us to do there are none.
func (l *looker) canaries(ctx context.Context, s *gate.State) {
	if slices.Contains(l.r.scenario.Gate.Tolerate, gate.Canary) {
		return
	}
	var took []float64
	for i := range canaryCount {
		name := "windtunnel-canary-" + strconv.FormatInt(l.r.clock.Epoch().UnixNano(), 36) + "-" + strconv.Itoa(i)
		made, err := l.r.watcher.Do(ctx, &wire.Request{Method: http.MethodPost, Path: canaryPath, ContentType: "application/json",
			Body: fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q}}`, name)})
		if err != nil || made.Code != http.StatusCreated {
			return
		}
		took = append(took, made.Done.Sub(made.Sent).Seconds())
		_, _ = l.r.watcher.Do(context.WithoutCancel(ctx), &wire.Request{Method: http.MethodDelete, Path: canaryPath + "/" + name})
	}
	s.Canaries = took
}
