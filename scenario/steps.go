package scenario

import (
	"iter"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Body is a Go template of one object in YAML or JSON. Its variables are
// .Name .Namespace .Index (from 0) .Replica (from 1) .Group .Seed and what
// `with` adds.
type Body struct {
	Text    string `yaml:"text" expr:"raw"` // ${...} is left alone in it
	File    string `yaml:"file"`            // in place of text; relative to the scenario file and inside its folder
	Dialect string `yaml:"dialect"`         // whose functions and variables: windtunnel (default), clusterloader2, kube-burner
	Line    int    `yaml:"-"`               // in the scenario file: of the text's first line, or of file
}

// Group names pods by what they are, for bodies that do not carry the label
// windtunnel.dev/group. A pod belongs to the first group that selects it.
type Group struct {
	Name      string `yaml:"name"`      // as waits and objectives say it
	Namespace string `yaml:"namespace"` // default all
	Selector  string `yaml:"selector"`  // a label selector
}

// Step does one thing; the next one begins when it is finished. Exactly one of
// the fields between name and onFailure is set.
type Step struct {
	Name      string        `yaml:"name"`      // a DNS label; default: what it does and its number, such as wait-2
	Create    *Create       `yaml:"create"`    // make objects
	Scale     *Scale        `yaml:"scale"`     // bring what a create step made to another number
	Update    *Update       `yaml:"update"`    // change each object that a create step made
	Churn     *Churn        `yaml:"churn"`     // delete and make again a share of what a create step made
	Delete    *Delete       `yaml:"delete"`    // delete what a create step made
	Requests  *Requests     `yaml:"requests"`  // any calls, in a weighted mix
	Wait      *Wait         `yaml:"wait"`      // until pods or objects are as they should be
	Pause     unit.Duration `yaml:"pause"`     // do nothing for so long
	Settle    *Settle       `yaml:"settle"`    // until the plane is quiet
	Fault     *Disturbance  `yaml:"fault"`     // break something on purpose
	Exec      *Exec         `yaml:"exec"`      // run a local command
	Network   *Network      `yaml:"network"`   // measure a path between two addresses
	Parallel  []Step        `yaml:"parallel"`  // these steps at the same time; done when the last is
	Sequence  []Step        `yaml:"sequence"`  // these steps one after another: a branch of parallel
	Repeat    *Repeat       `yaml:"repeat"`    // these steps again and again
	Cluster   string        `yaml:"cluster"`   // create, scale, update, churn, delete, requests, wait and exec: done in each of these members and not on the plane: a name, a group, a selector of labels such as region=eu, or "*"; counts are for each of them, the pace is of all together
	Beside    bool          `yaml:"beside"`    // of a step in parallel: it ends when the steps beside it have ended; no more calls are sent then, and its watches are closed
	Expects   []int         `yaml:"expects"`   // of a step that sends calls: HTTP status codes of calls that fail as they should, such as 403; 0: no answer
	OnFailure string        `yaml:"onFailure"` // what a failed step does to later ones: "stop" (default) skips all but deletions, "continue" runs them; the verdict is not a pass either way
	Line      int           `yaml:"-"`
}

// All yields the step and all steps inside it, those that hold others first.
func (s *Step) All() iter.Seq[*Step] {
	return func(yield func(*Step) bool) { s.yieldAll(yield) }
}

func (s *Step) yieldAll(yield func(*Step) bool) bool {
	if !yield(s) {
		return false
	}
	for _, list := range [][]Step{s.Parallel, s.Sequence} {
		for i := range list {
			if !list[i].yieldAll(yield) {
				return false
			}
		}
	}
	return true
}

// Pace returns the pace of a step that sends calls, nil of any other.
func (s *Step) Pace() *Pace {
	switch {
	case s.Create != nil:
		return &s.Create.Pace
	case s.Scale != nil:
		return &s.Scale.Pace
	case s.Update != nil:
		return &s.Update.Pace
	case s.Churn != nil:
		return &s.Churn.Pace
	case s.Delete != nil:
		return &s.Delete.Pace
	case s.Requests != nil:
		return &s.Requests.Pace
	}
	return nil
}

// Create makes objects at due times. What is made is one object per index, or
// with `objects` one of each of them per index.
type Create struct {
	Body         string         `yaml:"body"`         // one of bodies
	Count        int            `yaml:"count"`        // indices in all, over all namespaces in turn
	PerNamespace int            `yaml:"perNamespace"` // in place of count: indices in each namespace, one namespace after another
	Name         string         `yaml:"name"`         // objects are NAME-0, NAME-1 ...; default: the step's name. With perNamespace the index begins anew in each namespace
	Group        string         `yaml:"group"`        // what these objects and their pods are counted under: the value of the label windtunnel.dev/group that they get where they have none (unless the scenario has groups, or the body is another tool's); default: the step's name
	Namespace    string         `yaml:"namespace"`    // one namespace in place of all of namespaces
	Namespaces   *Range         `yaml:"namespaces"`   // some of namespaces in place of all
	With         map[string]any `yaml:"with"`         // more template variables
	Objects      []Item         `yaml:"objects"`      // in place of body: several for each index, due at the same time, sent in this order
	Pace         Pace           `yaml:"pace"`         // of indices
	PerObject    bool           `yaml:"perObject"`    // the pace is of objects: those of one index are due one after another at it, not all at once
	Pause        unit.Duration  `yaml:"pause"`        // with perObject: between the objects of an index and those of the next one, beyond the pace
	Timeout      unit.Duration  `yaml:"timeout"`      // of each call, default 30s
	Retry        Retry          `yaml:"retry"`
}

// Item is one object of those that a create step makes for each index.
type Item struct {
	Body     string         `yaml:"body"`     // one of bodies
	Name     string         `yaml:"name"`     // objects are NAME-0, NAME-1 ...; default: the body's name
	With     map[string]any `yaml:"with"`     // wins over the step's
	Replicas int            `yaml:"replicas"` // so many of it for each index, which the body tells apart by .Replica, from 1; default 1
	Every    int            `yaml:"every"`    // only at indices that this number divides; default 1
}

// Range is namespaces PREFIX-from to PREFIX-to, both included, from 1.
type Range struct {
	From   int    `yaml:"from"`   // number of the first one
	To     int    `yaml:"to"`     // number of the last one
	Prefix string `yaml:"prefix"` // default: that of namespaces; with another one a create step before made them, and from may be 0
	Each   int    `yaml:"each"`   // with count: so many indices in each, one namespace after another; default: in turn
}

// Retry says which failed calls are sent again, and how often. Each attempt is
// a call of its own in the records, due when the one before it failed plus the
// delay; nothing is retried unless a scenario says so.
type Retry struct {
	Times int           `yaml:"times"` // attempts after the first, default 0
	Codes []int         `yaml:"codes"` // default 429 and 500 to 599
	Delay unit.Duration `yaml:"delay"` // before the first of them, doubling; a longer Retry-After wins; default 1s
}

// Scale brings what a create step made to another number of indices: it
// makes the missing ones, or deletes those of the highest index.
type Scale struct {
	Step         string        `yaml:"step"`         // name of the create step
	To           int           `yaml:"to"`           // indices, if the step said count
	PerNamespace int           `yaml:"perNamespace"` // indices in each namespace, if the step said perNamespace
	Pace         Pace          `yaml:"pace"`
	Propagation  string        `yaml:"propagation"` // of deletions
	Timeout      unit.Duration `yaml:"timeout"`     // of each call, default 30s
}

// Update changes each object that a create step made, in the order of its
// creation.
type Update struct {
	Step    string         `yaml:"step"`   // name of the create step
	Method  string         `yaml:"method"` // merge (default), strategic, json, apply: a patch of that type; put: GET, then PUT
	Body    string         `yaml:"body"`   // one of bodies: the patch, or the whole object for put and apply; default: the created object's
	With    map[string]any `yaml:"with"`   // wins over the create step's
	Object  string         `yaml:"object"` // of several for each index only the one of this body; needed when they are several and body is set
	First   int            `yaml:"first"`  // only so many indices; default all
	Pace    Pace           `yaml:"pace"`
	Timeout unit.Duration  `yaml:"timeout"` // of each call, default 30s
	Retry   Retry          `yaml:"retry"`
}

// Churn deletes a share of what a create step made and makes it again when it is gone.
type Churn struct {
	Step    string        `yaml:"step"`    // name of the create step
	Percent float64       `yaml:"percent"` // of the indices in each cycle, chosen by the seed; above 0, at most 100
	Cycles  int           `yaml:"cycles"`  // how often; 0: until `for` has passed
	For     unit.Duration `yaml:"for"`     // no cycle begins later than this
	Delay   unit.Duration `yaml:"delay"`   // between deletion and creation, at least, and between cycles
	Rest    unit.Duration `yaml:"rest"`    // between cycles, in place of delay
	Objects []string      `yaml:"objects"` // of several for each index only those of these bodies; default all
	// Namespaces is the name of the create step that made the namespaces of
	// step's objects. Percent is then of the namespaces, neighbours: they are
	// deleted with all that is in them, and when they are gone they and their
	// objects are made again.
	Namespaces string        `yaml:"namespaces"`
	PerObject  bool          `yaml:"perObject"` // the pace is of objects, and without namespaces percent is too: of the objects of each body, rounded down, but at least one
	Wait       []Wait        `yaml:"wait"`      // until these hold, after each creation
	Pace       Pace          `yaml:"pace"`      // of deletions and of creations
	Timeout    unit.Duration `yaml:"timeout"`   // of each call, default 30s
}

// ChurnedObjects is how many of n objects of a body a cycle with perObject takes.
func ChurnedObjects(n int, percent float64) int {
	return min(n, max(1, int(float64(n)*percent/100+1e-6)))
}

// Delete deletes what a create step made, in the order of its creation.
type Delete struct {
	Step        string        `yaml:"step"` // name of the create step
	Pace        Pace          `yaml:"pace"`
	Propagation string        `yaml:"propagation"` // background (default), foreground or orphan
	Timeout     unit.Duration `yaml:"timeout"`     // of each call, default 30s
}

// Requests sends calls of any kind. Which of the mix the i-th call is follows
// from the weights and the seed.
type Requests struct {
	Count   int           `yaml:"count"`  // calls in all; 0: until `for` has passed
	For     unit.Duration `yaml:"for"`    // no call is due later than this
	Rounds  int           `yaml:"rounds"` // in place of count, for calls that select their objects: each of the objects found gets so many, and a body knows them by .Index, from 0
	Pace    Pace          `yaml:"pace"`
	Mix     []Call        `yaml:"mix"`     // the kinds of calls
	Timeout unit.Duration `yaml:"timeout"` // of each call, default 30s
	Retry   Retry         `yaml:"retry"`
}

// Call is one kind of request. Its objects are those that a create step made
// (of), or a resource and a name given here. A create without a subresource
// has neither: its body says what it makes.
type Call struct {
	Verb            string         `yaml:"verb"`            // get list watch create update patch delete deletecollection
	Weight          float64        `yaml:"weight"`          // default 1
	Of              string         `yaml:"of"`              // name of a create step: its objects
	Object          string         `yaml:"object"`          // with of, when it made several for each index: the one of this body
	Pick            string         `yaml:"pick"`            // with of: which of them: turn (default) or random
	Resource        string         `yaml:"resource"`        // in place of of: configmaps, deployments.apps, widgets.v1alpha1.example.org
	Namespace       string         `yaml:"namespace"`       // with resource; default: the scenario's namespaces in turn; "*": across all
	Name            string         `yaml:"name"`            // with resource: of the object; create: objects are NAME-0, NAME-1 ..., default the step's name
	Subresource     string         `yaml:"subresource"`     // such as status or scale
	Body            string         `yaml:"body"`            // create, update, patch: one of bodies
	With            map[string]any `yaml:"with"`            // more template variables
	Patch           string         `yaml:"patch"`           // patch: merge (default), strategic, json or apply
	Selector        string         `yaml:"selector"`        // list, watch, deletecollection: labels; get, patch, delete with resource and no name: each object that is found with them when the step begins, in turn
	Optional        bool           `yaml:"optional"`        // get, patch, delete with selector: the labels may select nothing; else the verdict is unknown then
	FieldSelector   string         `yaml:"fieldSelector"`   // list, watch, deletecollection
	Limit           int            `yaml:"limit"`           // list: per page; all pages are read, each of them a call; 0: one page
	ResourceVersion string         `yaml:"resourceVersion"` // get, list: "" (default: the newest, by quorum) or "0" (whatever the cache holds)
	Hold            unit.Duration  `yaml:"hold"`            // watch: closed after so long, default 1m
	Propagation     string         `yaml:"propagation"`     // delete, deletecollection
}

// Wait holds until as many pods of a group, or objects, are as asked.
type Wait struct {
	Pods      string        `yaml:"pods"`      // a group
	Are       string        `yaml:"are"`       // with pods: created, bound, running, ready or deleted
	Objects   string        `yaml:"objects"`   // in place of pods: deployments.apps, widgets.v1alpha1.example.org
	Of        string        `yaml:"of"`        // with objects: only those that this create step made
	Namespace string        `yaml:"namespace"` // with objects; default all of the scenario's namespaces, "*": any
	Selector  string        `yaml:"selector"`  // with objects: labels
	Condition string        `yaml:"condition"` // with objects: CEL over self, such as self.status.readyReplicas == self.spec.replicas; or a JSON path as kubectl wait has it, {.status.phase}=Bound
	Deleted   bool          `yaml:"deleted"`   // with objects: in place of condition, until at most count remain
	Count     int           `yaml:"count"`     // how many; with of: default all of them; with deleted: how many may remain, default 0
	All       bool          `yaml:"all"`       // with objects: every one that there is, and no fewer than count
	Within    unit.Duration `yaml:"within"`    // default 10m; the step fails when it has passed
	Unmet     string        `yaml:"unmet"`     // what the run is then: unknown (default), or fail
}

// Settle waits until the plane is as quiet as it was before the first step: no
// object terminating, work queues empty, CPU back near its first level, creations
// as quick. Memory and store that have grown are not waited for: the verdict says
// so. What preflight.tolerate names is not looked at.
type Settle struct {
	Within unit.Duration `yaml:"within"` // default 10m; the step fails when it has passed
}

// Disturbance breaks something on purpose. Exactly one of component, cluster,
// client, nodes and pods says what; action says how. The fault is taken back after `for`, or
// at the end of the run; the step does not wait for that unless `hold` is set.
type Disturbance struct {
	Component string        `yaml:"component"` // etcd, kube-apiserver, kube-scheduler, kube-controller-manager or a subject: kill, pause, restart or slow
	Cluster   string        `yaml:"cluster"`   // members, as a step's cluster names them: kill, pause (real ones), restart, expire, rollback, slow, delay, cut or stall (their link, for all clients)
	Client    string        `yaml:"client"`    // whose way to the plane is longer: load, fleet, observe, kube-scheduler, kube-controller-manager; or "etcd": the API server's way there: delay, slow or cut
	Nodes     *Victims      `yaml:"nodes"`     // notready, silent, flap, slow, skew or reconnect
	Pods      *Victims      `yaml:"pods"`      // fail or crash
	Action    string        `yaml:"action"`    // what is done, see the field that says to whom
	For       unit.Duration `yaml:"for"`       // how long; 0: until the end of the run
	Hold      bool          `yaml:"hold"`      // the step ends when the fault does
	RoundTrip unit.Duration `yaml:"roundTrip"` // delay: added round-trip time; of members: all of it, in place of their own
	Factor    float64       `yaml:"factor"`    // slow a client: each answer comes after so many times as long as the server took, 1 to 1000; on a plane that windtunnel starts; of members likewise
	Share     float64       `yaml:"share"`     // slow a component: of its time that it may run, above 0 and below 1
	Delay     unit.Duration `yaml:"delay"`     // slow nodes: later by so much; skew: lease times off by so much (may be negative)
	Between   unit.Duration `yaml:"between"`   // flap: mean time between failures of a node; pods: of all, default: at once
	Down      unit.Duration `yaml:"down"`      // mean time until it is back; of crashing pods: exactly, default a kubelet's back-off
}

// Victims are nodes or pods of the fleet, chosen by the seed.
type Victims struct {
	Count    int     `yaml:"count"`    // so many
	Percent  float64 `yaml:"percent"`  // or such a share of those that match
	Selector string  `yaml:"selector"` // labels: a zone, a rack, a group
}

// Exec runs a local command. A command that exits with another code than 0 fails the
// run. Its output is kept in the run directory as
// logs/STEP.log.
type Exec struct {
	Command []string          `yaml:"command"` // no shell unless it is one
	Env     map[string]string `yaml:"env"`     // KUBECONFIG is set, and MEMBERS as for subjects; with cluster, where it runs once for each member, KUBECONFIG is the member's, and MEMBER its name
	Timeout unit.Duration     `yaml:"timeout"` // default 10m
}

// Repeat runs steps several times. In their expressions ${round} counts from
// 0; a step's name gets the suffix -1, -2 ... unless it holds ${round}.
// Names of create steps that its own steps refer to follow. The name of the
// repeat itself is for readers only, and its onFailure is that of its steps
// which say nothing. A file's repeats are gone after Load: their steps stand
// in their place.
type Repeat struct {
	Times int    `yaml:"times"` // how often; 0: not at all
	Steps []Step `yaml:"steps"` // in each round, one after another
}

// Pace says when calls are due. Exactly one of the first eight is set.
type Pace struct {
	Constant float64       `yaml:"constant"` // calls per second, evenly
	Poisson  float64       `yaml:"poisson"`  // calls per second on average, exponential gaps, from the seed
	Burst    bool          `yaml:"burst"`    // all at once
	Ramp     *Ramp         `yaml:"ramp"`     // a rate that grows or falls evenly
	Steps    []Stair       `yaml:"steps"`    // one rate after another; the last one goes on
	Closed   int           `yaml:"closed"`   // so many at once, each next one when an answer came: no due times, latency is service time
	Replay   string        `yaml:"replay"`   // a file of due times in seconds from the step's begin, one on each line
	Within   unit.Duration `yaml:"within"`   // all of count in so long, evenly: constant in other words
	Jitter   float64       `yaml:"jitter"`   // each due time is moved by up to this share of the mean gap, from the seed; 0 to 1
	Random   bool          `yaml:"random"`   // with within: at uniformly random times of the window, from the seed
	Bundle   int           `yaml:"bundle"`   // so many calls where there would be one: 50 every 10 s are constant 0.1, bundle 50
}

// Ramp is a rate that changes evenly from one value to another.
type Ramp struct {
	From float64       `yaml:"from"` // calls per second
	To   float64       `yaml:"to"`   // calls per second
	Over unit.Duration `yaml:"over"` // then it stays at `to`
}

// Stair is a rate that holds for a while.
type Stair struct {
	Rate float64       `yaml:"rate"` // calls per second
	For  unit.Duration `yaml:"for"`  // how long; the last one may be without
}
