// Package plan says what a scenario would send before anything is sent: how
// many calls of which kind, how fast, for how long, how much etcd would hold of
// it, and which limits of the machine stand in the way.
//
// It is pure arithmetic over the scenario and one rendered object of each body:
// it starts nothing and measures nothing.
package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/component/skew"
	"github.com/windtunnel/windtunnel/scenario"
)

// Sources give what does not stand in the scenario itself.
type Sources struct {
	// Render returns, in JSON, the first object that a body gives.
	Render func(body, name, group string, with map[string]any) ([]byte, error)
	// Times returns the due times of a replay.
	Times func(file string) ([]time.Duration, error)
}

// Estimate is what a scenario would send. Waits, hooks and closed pools take
// nobody knows how long: they count nothing, and Open says that there are some.
type Estimate struct {
	Steps     []Step
	Calls     []Count       // by verb and resource, in alphabetical order
	Total     int           // calls
	Unbounded bool          // a closed pool that only time ends: its calls are not in Total
	AtLeast   bool          // there are more calls than Total by what is known only when it is found, or made again
	Duration  time.Duration // at least
	Open      bool          // longer by what cannot be known
	PeakRate  float64       // calls per second that are due at the busiest time, bursts apart
	Burst     int           // most calls due in one moment
	Objects   int           // most that exist at once, pods of workloads included
	Pods      int           // of those, the pods
	EtcdBytes int64         // most that etcd holds at once, by the factors below
	Watches   int           // most held at once by the steps
	Clients   []Population  // in the order of their steps
	OpenFiles int           // that this process needs
	Processes Processes     // of the plane
	Upgrades  []string      // what each upgrade step changes, in which order
	Members   Members
	Subjects  Subjects
	Audit     bool     // requests are counted by client
	LeftOut   []string // what the scenario has under conditions that do not hold
}

// Count is a number of calls of one kind.
type Count struct {
	Verb, Resource string
	Calls          int
}

// Step is the part of one step; steps that hold others are not among them.
type Step struct {
	Name, Verb string
	Begin      time.Duration // earliest, from the first step on
	Duration   time.Duration // at least
	Open       bool          // it ends when something else does
	Calls      int
	Rate       float64 // calls per second at its highest; +Inf for a burst; 0 when it cannot be said
}

// What etcd holds of an object is larger than the object that is sent: by its
// metadata (uid, timestamps, managedFields, the key) and by pages that are not
// full. Superseded revisions stay until kube-apiserver has compacted them,
// which it does every 5 minutes for what is older than 5 minutes.
const (
	MetadataBytes = 700              // of each object
	PageFactor    = 1.25             // bytes of pages for bytes of values
	Uncompacted   = 10 * time.Minute // how long a superseded revision may stay
	PodBytes      = 3000             // of a pod that a workload makes, without what its template says
	PodRevisions  = 3                // superseded ones while it comes to run, and again while it goes
)

// ErrBody says that a body gives no object.
var ErrBody = errors.New("no object to plan with")

// Of estimates a scenario. The errors are those of its sources, and ErrBody.
func Of(s *scenario.Scenario, from Sources) (Estimate, error) {
	e := &estimator{s: s, from: from, made: map[string]*made{}, calls: map[[2]string]int{}, releases: s.ReleasesOf()}
	span, err := e.estimateSequence(s.Steps, 0)
	if err != nil {
		return Estimate{}, err
	}
	out := e.out
	out.Duration, out.Open, out.PeakRate = span.length, span.open, span.rate
	for k, n := range e.calls {
		out.Calls = append(out.Calls, Count{k[0], k[1], n})
		out.Total += n
	}
	slices.SortFunc(out.Calls, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Resource, b.Resource))
	})
	out.Objects, out.Pods, out.Watches = e.top.objects, e.top.pods, e.top.watches
	out.EtcdBytes = int64(PageFactor * (float64(e.top.bytes) + peakGarbage(e.writes)))
	out.Audit, out.LeftOut = s.Plane.Audit, s.LeftOut()
	out.Processes, out.Members, out.Subjects = processesOf(s.Plane), membersOf(s), subjectsOf(s)
	out.OpenFiles = ownFiles + out.Watches/watchesPerConnection + e.top.connections + out.Members.OpenFiles
	return out, nil
}

const (
	ownFiles             = 300 // connections, pipes, logs, records and what the runtime has
	watchesPerConnection = 100
)

// span is a stretch of the scenario.
type span struct {
	length time.Duration
	open   bool
	rate   float64 // at its highest
}

// level is what there is at one time.
type level struct {
	objects, pods, watches int
	connections            int // of clients
	bytes                  int64
}

func (l level) plus(o level) level {
	return level{l.objects + o.objects, l.pods + o.pods, l.watches + o.watches, l.connections + o.connections, l.bytes + o.bytes}
}

func (l level) minus(o level) level {
	return level{l.objects - o.objects, l.pods - o.pods, l.watches - o.watches, l.connections - o.connections, l.bytes - o.bytes}
}

func (l level) max(o level) level {
	return level{max(l.objects, o.objects), max(l.pods, o.pods), max(l.watches, o.watches), max(l.connections, o.connections), max(l.bytes, o.bytes)}
}

// estimator walks through a scenario.
type estimator struct {
	s      *scenario.Scenario
	from   Sources
	out    Estimate
	made   map[string]*made
	calls  map[[2]string]int
	now    level
	top    level
	writes []write

	releases skew.State // of the plane's parts
	members  int        // in which the step is done; 0: on the plane
}

// StepError is what keeps a step from being planned.
type StepError struct {
	Step *scenario.Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %q: %v", e.Step.Name, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// object is one of the objects that a create step makes for each index.
type object struct {
	item     scenario.Item
	resource string
	labels   labels.Set // of the first of them
	bytes    int64
	pods     int   // that its controllers make
	sets     int   // ReplicaSets that its controller makes
	podBytes int64 // of each of them, and about of a ReplicaSet, which holds their template, too
}

// made is what a create step made.
type made struct {
	create  *scenario.Create
	objects []object
	indices int // as they are now
}

// kind is what a body is of.
type kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Replicas    *int            `json:"replicas"`
		Parallelism *int            `json:"parallelism"`
		Template    json.RawMessage `json:"template"`
	} `json:"spec"`
}

// sampleObject renders one object of a body and looks at what it is.
func (e *estimator) sampleObject(item scenario.Item, group string, with map[string]any) (object, error) {
	raw, err := e.from.Render(item.Body, item.Name+"-0", group, with)
	if err != nil {
		return object{}, err
	}
	var k kind
	var mismatch *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &k); errors.As(err, &mismatch) {
		return object{}, fmt.Errorf("body %q: %w: %s is a %s, want %s", item.Body, ErrBody, mismatch.Field, mismatch.Value, mismatch.Type)
	} else if err != nil || k.Kind == "" {
		return object{}, fmt.Errorf("body %q: %w", item.Body, ErrBody)
	}
	o := object{item: item, resource: guessResource(k.APIVersion, k.Kind), labels: k.Metadata.Labels, bytes: int64(len(raw)) + MetadataBytes}
	if len(k.Spec.Template) > 0 {
		o.podBytes = PodBytes + int64(len(k.Spec.Template))
		switch {
		case k.Spec.Replicas != nil:
			o.pods = *k.Spec.Replicas
		case k.Spec.Parallelism != nil:
			o.pods = *k.Spec.Parallelism
		case k.Kind == "DaemonSet":
			o.pods = e.s.Fleet.Nodes
		default:
			o.pods = 1
		}
	}
	if k.Kind == "Deployment" {
		o.sets = 1
	}
	return o, nil
}

// guessResource guesses the plural of a kind; what serves it is known only on a plane.
func guessResource(apiVersion, kind string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return kind
	}
	plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
	return plural.GroupResource().String()
}

// addCreate makes a create step known and returns what it makes.
func (e *estimator) addCreate(name string, c *scenario.Create) (*made, error) {
	items := c.Objects
	if len(items) == 0 {
		items = []scenario.Item{{Body: c.Body, Name: c.Name, Replicas: 1, Every: 1}}
	}
	m := &made{create: c}
	for _, item := range items {
		with := map[string]any{}
		for _, from := range []map[string]any{c.With, item.With} {
			maps.Copy(with, from)
		}
		o, err := e.sampleObject(item, c.Group, with)
		if err != nil {
			return nil, err
		}
		m.objects = append(m.objects, o)
	}
	e.made[name] = m
	return m, nil
}

// countNamespaces is how many namespaces a create step goes through.
func (e *estimator) countNamespaces(c *scenario.Create) int {
	switch {
	case c.Namespace != "":
		return 1
	case c.Namespaces != nil:
		return max(1, c.Namespaces.To-c.Namespaces.From+1)
	}
	return max(1, e.s.Namespaces.Count)
}

// countObjects is how many of an object there are at so many indices.
func (e *estimator) countObjects(m *made, o object, indices int) int {
	every, replicas := max(1, o.item.Every), max(1, o.item.Replicas)
	if n := e.countNamespaces(m.create); m.create.PerNamespace > 0 {
		return n * replicas * ceil(indices/n, every)
	}
	return replicas * ceil(indices, every)
}

func ceil(a, b int) int { return (a + b - 1) / b }

// perIndex is how many objects an index has on average.
func (e *estimator) perIndex(m *made) float64 {
	n := 0.0
	for _, o := range m.objects {
		n += float64(max(1, o.item.Replicas)) / float64(max(1, o.item.Every))
	}
	return n
}

// write is garbage that etcd keeps for a while.
type write struct {
	begin, end time.Duration
	bytes      int64
}

// peakGarbage is the most superseded bytes that stand uncompacted at one time.
func peakGarbage(writes []write) float64 {
	var edges []time.Duration
	for _, w := range writes {
		edges = append(edges, w.begin, w.end, w.begin-Uncompacted, w.end-Uncompacted)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	if len(edges) > maxEdges { // so many short steps: all of it, an upper bound
		edges = nil
	}
	most := 0.0
	for _, at := range edges {
		sum := 0.0
		for _, w := range writes {
			sum += w.bytesWithin(at, at+Uncompacted)
		}
		most = max(most, sum)
	}
	if edges == nil {
		for _, w := range writes {
			most += float64(w.bytes)
		}
	}
	return most
}

// maxEdges bounds the work of garbage.
const maxEdges = 4000

// bytesWithin is how much of a write falls between two times.
func (w write) bytesWithin(from, to time.Duration) float64 {
	if w.end <= w.begin {
		if w.begin >= from && w.begin <= to {
			return float64(w.bytes)
		}
		return 0
	}
	part := min(to, w.end) - max(from, w.begin)
	return float64(w.bytes) * math.Max(0, float64(part)/float64(w.end-w.begin))
}
