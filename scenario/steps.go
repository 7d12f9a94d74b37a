package scenario

import (
	"iter"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Body is a Go template of one object in YAML or JSON. Its variables are
// .Name .Namespace .Index (from 0) .Replica (from 1) .Group .Seed and what
// `with` adds, and .Call (from 0): in a step of requests the number of the call among those of its entry, so
// that no two calls send the same; 0 elsewhere. kubeconfig "NAME" gives the kubeconfig of a member.
type Body struct {
	Text     string `yaml:"text" expr:"raw"` // ${...} is left alone in it
	File     string `yaml:"file"`            // instead of text: a file, relative to the scenario file and inside its folder
	Exemplar string `yaml:"exemplar"`        // instead of text and file: an object of the size and shape that objects of a large cluster have: pod, node, endpointslice, configmap or secret
	Dialect  string `yaml:"dialect"`         // functions and variables of windtunnel (default), clusterloader2 or kube-burner
	Line     int    `yaml:"-"`               // in the scenario file: of the text's first line, or of file
}

// Group names pods by a selector, for bodies without the label windtunnel.dev/group. A
// pod belongs to the first group that selects it.
type Group struct {
	Name      string `yaml:"name"`      // name in waits and objectives
	Namespace string `yaml:"namespace"` // default all
	Selector  string `yaml:"selector"`  // a label selector
}

// Step is one action; the next step starts when it is finished. Exactly one of the
// fields between name and onFailure is set.
type Step struct {
	Name      string        `yaml:"name"`      // a DNS label; default: action and number, such as wait-2
	Create    *Create       `yaml:"create"`    // create objects
	Scale     *Scale        `yaml:"scale"`     // change the number of objects of a create step
	Update    *Update       `yaml:"update"`    // update the objects of a create step
	Churn     *Churn        `yaml:"churn"`     // delete and recreate a share of the objects of a create step
	Delete    *Delete       `yaml:"delete"`    // delete the objects of a create step
	Requests  *Requests     `yaml:"requests"`  // requests of any kind, in a weighted mix
	Probe     *Probe        `yaml:"probe"`     // write and read objects of its own, and check that no acknowledged write is lost
	Wait      *Wait         `yaml:"wait"`      // wait until pods or objects are in a state
	Pause     unit.Duration `yaml:"pause"`     // do nothing for this time
	Settle    *Settle       `yaml:"settle"`    // wait until the plane is quiet
	Fault     *Disturbance  `yaml:"fault"`     // inject a fault
	Upgrade   *Upgrade      `yaml:"upgrade"`   // take the plane to another release of Kubernetes
	Exec      *Exec         `yaml:"exec"`      // run a local command
	Network   *Network      `yaml:"network"`   // measure a path between two addresses
	Parallel  []Step        `yaml:"parallel"`  // steps that run at the same time; it ends with the last one
	Sequence  []Step        `yaml:"sequence"`  // steps that run one after another: a branch of parallel
	Repeat    *Repeat       `yaml:"repeat"`    // steps that run several times
	Cluster   string        `yaml:"cluster"`   // for create, scale, update, churn, delete, requests, wait and exec: members to act on instead of the plane: a name, a group, a label selector such as region=eu, or "*"; counts are per member, the pace is for all together
	Beside    bool          `yaml:"beside"`    // for a step in parallel: end when the other steps have ended; it then sends no more requests and closes its watches, and its command is stopped; a step that is not done by then counts as not done, except a pause, fault, network, probe or exec, and requests or churn with for
	Expects   []int         `yaml:"expects"`   // for a step that sends requests: expected HTTP status codes of failures, such as 403; 0: no answer
	Clients   *Clients      `yaml:"clients"`   // for create, scale, update, churn, delete and requests: many clients that send the requests in turn, instead of windtunnel's own one
	OnFailure string        `yaml:"onFailure"` // what a failed step does to later ones: "stop" (default) skips all but deletions, "continue" runs them; the verdict is not a pass either way
	When      Asked         `yaml:"when"`      // condition on the parameters: the step is left out, with what is inside, unless it holds; default: always
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
	case s.Probe != nil:
		return &s.Probe.Pace
	}
	return nil
}

// Create creates objects at due times: one object per index, or with `objects` one of
// each of them per index.
type Create struct {
	Body         string         `yaml:"body"`         // one of bodies
	Count        int            `yaml:"count"`        // indices in total, over all namespaces round-robin
	PerNamespace int            `yaml:"perNamespace"` // instead of count: indices in each namespace, one namespace after another
	Name         string         `yaml:"name"`         // objects are NAME-0, NAME-1 ...; default: the step's name. With perNamespace the index starts at 0 in each namespace
	Group        string         `yaml:"group"`        // group of these objects and their pods: the label windtunnel.dev/group, added if they have none (unless the scenario has groups, or the body is another tool's); default: the step's name
	Namespace    string         `yaml:"namespace"`    // one namespace instead of all of namespaces
	Namespaces   *Range         `yaml:"namespaces"`   // some of namespaces instead of all
	With         map[string]any `yaml:"with"`         // more template variables
	Objects      []Item         `yaml:"objects"`      // instead of body: several objects for each index, due at the same time, sent in this order
	Pace         Pace           `yaml:"pace"`         // pace of indices
	PerObject    bool           `yaml:"perObject"`    // the pace counts objects: those of one index are due one after another, not at the same time
	Pause        unit.Duration  `yaml:"pause"`        // with perObject: additional time between the objects of two indices
	Timeout      unit.Duration  `yaml:"timeout"`      // timeout of each request, default 30s
	Retry        Retry          `yaml:"retry"`
}

// Item is one of the objects that a create step creates for each index.
type Item struct {
	Body     string         `yaml:"body"`     // one of bodies
	Name     string         `yaml:"name"`     // objects are NAME-0, NAME-1 ...; default: the body's name
	With     map[string]any `yaml:"with"`     // overrides that of the step
	Replicas int            `yaml:"replicas"` // number of objects for each index, .Replica in the body, from 1; default 1
	Every    int            `yaml:"every"`    // only at indices divisible by this number; default 1
}

// Range is the namespaces PREFIX-from to PREFIX-to, both included, from 1.
type Range struct {
	From   int           `yaml:"from"`   // number of the first namespace
	To     int           `yaml:"to"`     // number of the last namespace
	Prefix string        `yaml:"prefix"` // default: that of namespaces; with another prefix an earlier create step creates them, and from may be 0
	Each   int           `yaml:"each"`   // with count: indices per namespace, one namespace after another; default: round-robin
	Pause  unit.Duration `yaml:"pause"`  // with each and perObject: additional time before the objects of each further namespace
}

// Retry says which failed requests are sent again, and how often. Each attempt has its
// own record, due when the previous one failed plus the delay; without it nothing is
// retried.
type Retry struct {
	Times int           `yaml:"times"` // attempts after the first, default 0
	Codes []int         `yaml:"codes"` // default 429 and 500 to 599
	Delay unit.Duration `yaml:"delay"` // delay before the first retry, doubled each time; a longer Retry-After has priority; default 1s
}

// Scale changes the number of indices of a create step: it creates the missing ones,
// or deletes those of the highest index.
type Scale struct {
	Step         string        `yaml:"step"`         // name of the create step
	To           int           `yaml:"to"`           // indices, if the step has count
	PerNamespace int           `yaml:"perNamespace"` // indices in each namespace, if the step has perNamespace
	Pace         Pace          `yaml:"pace"`
	Propagation  string        `yaml:"propagation"` // propagation policy of deletions
	Timeout      unit.Duration `yaml:"timeout"`     // timeout of each request, default 30s
}

// Update changes each object of a create step, in the order of creation.
type Update struct {
	Step    string         `yaml:"step"`   // name of the create step
	Method  string         `yaml:"method"` // merge (default), strategic, json, apply: a patch of that type; put: GET, then PUT
	Body    string         `yaml:"body"`   // one of bodies: the patch, or the whole object for put and apply; default: that of the created object
	With    map[string]any `yaml:"with"`   // overrides that of the create step
	Object  string         `yaml:"object"` // for several objects per index: only the object of this body; required if there are several and body is set
	First   int            `yaml:"first"`  // number of indices; default all
	Pace    Pace           `yaml:"pace"`
	Timeout unit.Duration  `yaml:"timeout"` // timeout of each request, default 30s
	Retry   Retry          `yaml:"retry"`
}

// Churn deletes a share of the objects of a create step and creates them again when
// they are gone.
type Churn struct {
	Step    string        `yaml:"step"`    // name of the create step
	Percent float64       `yaml:"percent"` // percentage of indices per cycle, chosen by the seed; above 0, at most 100
	Cycles  int           `yaml:"cycles"`  // number of cycles; 0: until `for` has passed
	For     unit.Duration `yaml:"for"`     // no cycle starts later than this
	Delay   unit.Duration `yaml:"delay"`   // minimum time between deletion and creation, and between cycles
	Rest    unit.Duration `yaml:"rest"`    // time between cycles, instead of delay
	Objects []string      `yaml:"objects"` // for several objects per index: only those of these bodies; default all
	// Namespaces is the name of the create step of the namespaces of step's objects.
	// Percent is then the percentage of namespaces with consecutive numbers: they are
	// deleted with their contents, and when they are gone they and their objects are
	// created again.
	Namespaces string        `yaml:"namespaces"`
	Contents   bool          `yaml:"contents"`  // with namespaces: delete the step's objects in them first, and wait until they are gone
	PerObject  bool          `yaml:"perObject"` // the pace counts objects; without namespaces percent does too: of the objects of each body, rounded down, at least one
	Wait       []Wait        `yaml:"wait"`      // conditions to wait for after each creation
	Pace       Pace          `yaml:"pace"`      // pace of deletions and of creations
	Timeout    unit.Duration `yaml:"timeout"`   // timeout of each request, default 30s
}

// ChurnedObjects is how many of n objects of a body a cycle with perObject takes.
func ChurnedObjects(n int, percent float64) int {
	return min(n, max(1, int(float64(n)*percent/100+1e-6)))
}

// Delete deletes the objects of a create step, in the order of creation.
type Delete struct {
	Step        string        `yaml:"step"` // name of the create step
	Pace        Pace          `yaml:"pace"`
	Propagation string        `yaml:"propagation"` // background (default), foreground or orphan
	Timeout     unit.Duration `yaml:"timeout"`     // timeout of each request, default 30s
}

// Requests sends requests of any kind. The kind of request i follows from the weights
// and the seed.
type Requests struct {
	Count      int           `yaml:"count"`  // number of requests; 0: until `for` has passed
	For        unit.Duration `yaml:"for"`    // no request is due later than this
	Rounds     int           `yaml:"rounds"` // instead of count, for requests that select objects: requests per object; a body sees the number as .Index, from 0
	Pace       Pace          `yaml:"pace"`
	Mix        []Call        `yaml:"mix"`        // kinds of requests
	Timeout    unit.Duration `yaml:"timeout"`    // timeout of each request, default 30s
	Connection string        `yaml:"connection"` // kept (default): requests use connections that are open; new: each request opens a connection of its own, with TLS, and closes it
	Retry      Retry         `yaml:"retry"`
}

// Probe creates, updates twice and deletes each of some ConfigMaps in turn, reads them after
// writes, and watches them through each API server. When the last write is answered it lists
// them through each API server. The verdict is fail if an acknowledged write is lost, one is
// invented or done twice, or versions do not ascend; see the SLI write-violations.
type Probe struct {
	Keys       int           `yaml:"keys"`       // number of ConfigMaps, named after the step; default 20
	Count      int           `yaml:"count"`      // number of writes
	Pace       Pace          `yaml:"pace"`       // pace of writes; a read follows each creation and update at once
	Timeout    unit.Duration `yaml:"timeout"`    // timeout of each request, default 30s
	Connection string        `yaml:"connection"` // kept (default): requests use connections that are open; new: each request opens a connection of its own, with TLS, and closes it
}

// Call is one kind of request. Its objects are those of a create step (of), or a
// resource and a name. A create without a subresource has neither: its body says what
// it creates.
type Call struct {
	Verb            string         `yaml:"verb"`            // get list watch create update patch delete deletecollection
	Weight          float64        `yaml:"weight"`          // default 1
	Of              string         `yaml:"of"`              // name of a create step, whose objects are used
	Object          string         `yaml:"object"`          // with of, for several objects per index: the object of this body
	Pick            string         `yaml:"pick"`            // with of: order of objects: turn (default) or random
	Resource        string         `yaml:"resource"`        // instead of of: configmaps, deployments.apps, widgets.v1alpha1.example.org
	Namespace       string         `yaml:"namespace"`       // with resource: namespace; default: the scenario's namespaces round-robin; "*": all
	Name            string         `yaml:"name"`            // with resource: name of the object; create: objects are NAME-0, NAME-1 ..., default the step's name
	Subresource     string         `yaml:"subresource"`     // such as status or scale
	Body            string         `yaml:"body"`            // create, update, patch: one of bodies
	With            map[string]any `yaml:"with"`            // more template variables
	Patch           string         `yaml:"patch"`           // patch: merge (default), strategic, json or apply
	Selector        string         `yaml:"selector"`        // list, watch, deletecollection: label selector, of list and watch with {{.Client}} for the number of the client; get, patch, delete with resource and no name: the objects found with it at the start of the step, round-robin
	Optional        bool           `yaml:"optional"`        // get, update, patch, delete: with selector, the labels may select nothing; with of, objects may have been deleted, and their calls are not sent; deletecollection: there may be nothing to delete at the start of the step; default: the verdict is then unknown
	FieldSelector   string         `yaml:"fieldSelector"`   // list, watch, deletecollection; of list and watch with {{.Client}}, such as spec.nodeName=node-{{.Client}}
	Limit           int            `yaml:"limit"`           // list: objects per page; all pages are read, each with a request; 0: one page
	ResourceVersion string         `yaml:"resourceVersion"` // get, list: "" (default: the newest, by quorum) or "0" (any, from the cache)
	Hold            unit.Duration  `yaml:"hold"`            // watch: time after which it is closed, default 1m; one of `clients` that ends earlier is opened again, and gets again what exists
	Informer        string         `yaml:"informer"`        // watch with clients: lists and watches as an informer of client-go does, for the time `hold`: list (a list, then a watch) or watchList (one watch that sends what exists first); default: a plain watch
	Propagation     string         `yaml:"propagation"`     // delete, deletecollection
}

// Wait waits until a number of pods of a group, or of objects, is in a state.
type Wait struct {
	Pods      string        `yaml:"pods"`      // a group
	Are       string        `yaml:"are"`       // with pods: created, bound, running, ready or deleted
	Objects   string        `yaml:"objects"`   // instead of pods: deployments.apps, widgets.v1alpha1.example.org
	Of        string        `yaml:"of"`        // with objects: only those of this create step
	Namespace string        `yaml:"namespace"` // with objects: namespace; default all of the scenario's namespaces; "*": any
	Selector  string        `yaml:"selector"`  // with objects: label selector
	Condition string        `yaml:"condition"` // with objects: CEL over self, such as self.status.readyReplicas == self.spec.replicas; or a JSON path as in kubectl wait, {.status.phase}=Bound
	Deleted   bool          `yaml:"deleted"`   // with objects, instead of condition: until at most count remain
	Count     int           `yaml:"count"`     // number; with of: default all; with deleted: how many may remain, default 0
	All       bool          `yaml:"all"`       // with objects: all existing ones, and at least count, default 1
	Optional  bool          `yaml:"optional"`  // with all: no object at all is enough, too; with deleted, and pods that are deleted: it is enough that none was ever seen
	Within    unit.Duration `yaml:"within"`    // timeout, default 10m; then the step fails
	Unmet     string        `yaml:"unmet"`     // verdict after the timeout: unknown (default) or fail
}

// Settle waits until the plane is as quiet as before the first step: no terminating
// object, empty work queues, CPU near its first level, creations as fast as before. It
// does not wait for memory and store that have grown: the verdict mentions them. It
// ignores the findings of preflight.tolerate.
type Settle struct {
	Within unit.Duration `yaml:"within"` // timeout, default 10m; then the step fails
}

// Disturbance injects a fault. Exactly one of component, cluster, client, nodes and
// pods is the target; action is the fault. The fault ends after `for`, or at the end
// of the run; the step waits for that only with `hold`.
type Disturbance struct {
	Component string        `yaml:"component"` // etcd, kube-apiserver, kube-scheduler, kube-controller-manager or a subject; one of several: etcd-0, or etcd-leader for the one that leads when the fault begins: kill, term (SIGTERM), pause, restart, slow or, for one of several etcd members, partition: no byte passes between the member and the others, while clients still reach it; roll ends and starts all processes of a component one after another, the leader last
	Cluster   string        `yaml:"cluster"`   // members, as in a step's cluster: kill, pause (real members), restart, expire, rollback, slow, delay, cut or stall (their link, for all clients)
	Client    string        `yaml:"client"`    // client whose link to the plane is changed: load, fleet, observe, kube-scheduler, kube-controller-manager; or etcd for the API server's link to etcd: delay, slow or cut
	Nodes     *Victims      `yaml:"nodes"`     // notready, silent, flap, slow, skew or reconnect
	Pods      *Victims      `yaml:"pods"`      // fail or crash
	Action    string        `yaml:"action"`    // the fault; see component, cluster, client, nodes and pods
	For       unit.Duration `yaml:"for"`       // duration; 0: until the end of the run
	Hold      bool          `yaml:"hold"`      // the step ends when the fault does
	RoundTrip unit.Duration `yaml:"roundTrip"` // delay: added round-trip time; for members: the whole round-trip time instead of their own
	Factor    float64       `yaml:"factor"`    // slow a client or member: each answer takes this many times as long, 1 to 1000; only on a plane that windtunnel starts
	Share     float64       `yaml:"share"`     // slow a component: share of the time in which it may run, above 0 and below 1
	Delay     unit.Duration `yaml:"delay"`     // slow nodes: added delay; skew: offset of lease times (may be negative)
	Between   unit.Duration `yaml:"between"`   // roll: time from one process being ready to the end of the next; flap: mean time between failures of a node; pods: of all pods, default: at once
	Down      unit.Duration `yaml:"down"`      // mean time until the node is back; crashing pods: exact time, default a kubelet's back-off
}

// Upgrade takes the plane from its release to another one, newer or older, one process
// after another: etcd, API servers, controller managers, schedulers, nodes. With an older
// release the order is the reverse. Each process ends by SIGTERM and starts with the
// executable of the other release; the step goes on when it is ready, and fails when it does
// not come back. A file whose releases the version skew policy of Kubernetes does not allow
// together is refused. It needs plane.release.
type Upgrade struct {
	To                   string        `yaml:"to"`                   // Kubernetes release, such as v1.37.1, built by "windtunnel plane build"
	Etcd                 string        `yaml:"etcd"`                 // etcd release; default: that of "windtunnel plane build" for the release
	Parts                []string      `yaml:"parts"`                // what changes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, nodes; default all
	Hold                 unit.Duration `yaml:"hold"`                 // time between two parts: both releases run
	Between              unit.Duration `yaml:"between"`              // time from one process, or batch of nodes, being ready to the end of the next
	Batch                int           `yaml:"batch"`                // nodes that report the version of the other kubelet at the same time; default 10
	AllowUnsupportedSkew bool          `yaml:"allowUnsupportedSkew"` // also do what the version skew policy does not allow
}

// Victims are nodes or pods of the fleet, chosen by the seed.
type Victims struct {
	Count    int     `yaml:"count"`    // number of nodes or pods
	Percent  float64 `yaml:"percent"`  // instead of count: percentage of those that match
	Selector string  `yaml:"selector"` // label selector, such as of a zone, a rack or a group
}

// Exec runs a local command. A command that exits with a code other than 0 fails the
// run; with one that is killed at its timeout the verdict is unknown, as with one that leaves a process running in the
// background: that process is killed two seconds later. Its output is logs/STEP.log in the run directory.
type Exec struct {
	Command []string          `yaml:"command"` // command and arguments; without a shell
	Env     map[string]string `yaml:"env"`     // additional environment; KUBECONFIG and MEMBERS are set as for subjects; with cluster the command runs once per member, KUBECONFIG is the member's and MEMBER its name
	Timeout unit.Duration     `yaml:"timeout"` // default 10m
}

// Repeat runs steps several times. In their expressions ${round} counts from 0; a
// step's name gets the suffix -1, -2 ... unless it contains ${round}. References to
// create steps inside follow. The name of the repeat is for readers only, and its
// onFailure applies to steps without one. Load replaces the repeats of a file by their
// steps.
type Repeat struct {
	Times int    `yaml:"times"` // number of rounds; 0: none
	Steps []Step `yaml:"steps"` // steps of each round, one after another
}

// Pace says when requests are due. Exactly one of the first eight fields is set.
type Pace struct {
	Constant float64       `yaml:"constant"` // requests per second, evenly spaced
	Poisson  float64       `yaml:"poisson"`  // requests per second on average, exponential gaps from the seed
	Burst    bool          `yaml:"burst"`    // all at once
	Ramp     *Ramp         `yaml:"ramp"`     // a rate that rises or falls linearly
	Steps    []Stair       `yaml:"steps"`    // one rate after another; the last one continues
	Closed   int           `yaml:"closed"`   // number of concurrent requests; the next one is sent after an answer: no due times, latency is service time
	Replay   string        `yaml:"replay"`   // a file of due times in seconds from the start of the step, one per line
	Within   unit.Duration `yaml:"within"`   // spread count evenly over this time
	Jitter   float64       `yaml:"jitter"`   // maximum shift of each due time, as a share of the mean gap, from the seed; 0 to 1
	Random   bool          `yaml:"random"`   // with within: uniformly random times in the window, from the seed
	Bundle   int           `yaml:"bundle"`   // requests per due time: constant 0.1 with bundle 50 sends 50 every 10 s
}

// Ramp is a rate that changes evenly from one value to another.
type Ramp struct {
	From float64       `yaml:"from"` // requests per second
	To   float64       `yaml:"to"`   // requests per second
	Over unit.Duration `yaml:"over"` // duration of the change; then the rate stays at `to`
}

// Stair is a rate that holds for a while.
type Stair struct {
	Rate float64       `yaml:"rate"` // requests per second
	For  unit.Duration `yaml:"for"`  // duration; the last one may omit it
}
