package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/scenario"
)

// estimateSequence estimates steps that follow one another.
func (e *estimator) estimateSequence(steps []scenario.Step, begin time.Duration) (span, error) {
	var out span
	for i := range steps {
		one, err := e.estimateStep(&steps[i], begin+out.length)
		if err != nil {
			return span{}, err
		}
		out.length += one.length
		out.open = out.open || one.open
		out.rate = max(out.rate, one.rate)
	}
	return out, nil
}

// estimateParallel estimates steps that run at the same time: what they have at most is
// taken to come together.
func (e *estimator) estimateParallel(steps []scenario.Step, begin time.Duration) (span, error) {
	var out span
	before, top := e.now, e.top
	var rise, change level
	for i := range steps {
		e.now, e.top = before, before
		one, err := e.estimateStep(&steps[i], begin)
		if err != nil {
			return span{}, err
		}
		rise, change = rise.plus(e.top.minus(before)), change.plus(e.now.minus(before))
		out.length = max(out.length, one.length)
		out.open = out.open || one.open
		out.rate += one.rate
	}
	e.now, e.top = before.plus(change), top.max(before.plus(rise))
	return out, nil
}

func (e *estimator) estimateStep(s *scenario.Step, begin time.Duration) (span, error) {
	switch {
	case s.Parallel != nil:
		return e.estimateParallel(s.Parallel, begin)
	case s.Sequence != nil:
		return e.estimateSequence(s.Sequence, begin)
	}
	one := Step{Name: s.Name, Verb: s.Verb(), Begin: begin}
	err := e.enterCluster(s.Cluster)
	switch {
	case err != nil:
	case s.Create != nil:
		err = e.estimateCreate(s, &one)
	case s.Scale != nil:
		err = e.estimateScale(s.Scale, &one)
	case s.Update != nil:
		err = e.estimateUpdate(s.Update, &one)
	case s.Churn != nil:
		err = e.estimateChurn(s.Churn, &one)
	case s.Delete != nil:
		err = e.estimateDelete(s.Delete, &one)
	case s.Requests != nil:
		err = e.estimateRequests(s.Requests, s.Name, &one)
	case s.Probe != nil:
		n := s.Probe.Count / 4
		e.countCalls(&one, "create", "configmaps", s.Probe.Count-3*n)
		e.countCalls(&one, "update", "configmaps", 2*n)
		e.countCalls(&one, "delete", "configmaps", n)
		e.countCalls(&one, "get", "configmaps", s.Probe.Count-n) // at most: after those that are acknowledged
		err = e.setTimes(s.Probe.Pace, s.Probe.Count, 1, &one)
	case s.Fault != nil && s.Fault.Hold:
		one.Duration = time.Duration(s.Fault.For)
	case s.Upgrade != nil:
		e.estimateUpgrade(s.Upgrade, &one)
	case s.Network != nil:
		one.Duration = time.Duration(s.Network.For)
	case s.Wait != nil, s.Settle != nil, s.Exec != nil:
		one.Open = true
	default:
		one.Duration = time.Duration(s.Pause)
	}
	if err != nil && !errors.Is(err, errNoMembers) {
		return span{}, &StepError{s, err}
	}
	e.estimateClients(s, &one)
	e.out.Steps = append(e.out.Steps, one)
	e.top = e.top.max(e.now)
	out := span{length: one.Duration, open: one.Open, rate: one.Rate}
	if math.IsInf(out.rate, 1) {
		e.out.Burst, out.rate = max(e.out.Burst, one.Calls), 0
	}
	return out, nil
}

// enterCluster takes note of where a step is done: in so many members, or on the plane.
func (e *estimator) enterCluster(cluster string) error {
	e.members = 0
	if cluster == "" {
		return nil
	}
	names, err := e.s.MembersOf(cluster)
	if e.members = len(names); err == nil && e.members == 0 {
		return errNoMembers
	}
	return err
}

// errNoMembers ends the estimate of a step that is done nowhere.
var errNoMembers = errors.New("no members")

// setTimes sets the times of a step that paces so many units, of which each is so
// many calls.
func (e *estimator) setTimes(p scenario.Pace, units int, calls float64, one *Step) error {
	times, err := e.replayTimes(p)
	if err != nil {
		return err
	}
	units *= max(1, e.members)
	made := Pace(p, units, e.s.Seed, times)
	if n := made.Count(); p.Replay != "" && n < units {
		return fmt.Errorf("pace.replay: %s has due times for %d of %d calls or objects", p.Replay, n, units)
	}
	_, last := countDue(made, units, 0)
	one.Duration += last
	one.Open = one.Open || p.Closed > 0
	if units > 0 {
		one.Rate = max(one.Rate, topRate(p, made)*calls)
	}
	return nil
}

func (e *estimator) replayTimes(p scenario.Pace) ([]time.Duration, error) {
	if p.Replay == "" {
		return nil, nil
	}
	return e.from.Times(p.Replay)
}

// countCalls counts calls.
func (e *estimator) countCalls(one *Step, verb, resource string, n int) {
	if n > 0 {
		n *= max(1, e.members)
		e.calls[[2]string{verb, resource}] += n
		one.Calls += n
	}
}

// changeObjects makes (n above 0) or deletes objects, and returns what of them becomes
// garbage in etcd.
func (e *estimator) changeObjects(o object, n int) int64 {
	if e.members > 0 {
		return 0 // their etcd is another
	}
	made := int64(o.pods+o.sets) * o.podBytes
	e.now.objects += n * (1 + o.pods + o.sets)
	e.now.pods += n * o.pods
	e.now.bytes += int64(n) * (o.bytes + made)
	old := int64(PodRevisions) * int64(o.pods) * o.podBytes
	if n < 0 {
		return int64(-n) * (old + o.bytes + made)
	}
	return int64(n) * old
}

// addWrite remembers garbage that a step leaves.
func (e *estimator) addWrite(one *Step, bytes int64) {
	if bytes > 0 {
		e.writes = append(e.writes, write{one.Begin, one.Begin + one.Duration, bytes})
	}
}

func (e *estimator) estimateCreate(s *scenario.Step, one *Step) error {
	m, err := e.addCreate(s.Name, s.Create)
	if err != nil {
		return err
	}
	m.indices = s.Create.Count
	if s.Create.PerNamespace > 0 {
		m.indices = s.Create.PerNamespace * e.countNamespaces(s.Create)
	}
	garbage := int64(0)
	for _, o := range m.objects {
		n := e.countObjects(m, o, m.indices)
		e.countCalls(one, "create", o.resource, n)
		garbage += e.changeObjects(o, n)
	}
	units, calls := m.indices, e.perIndex(m)
	if s.Create.PerObject {
		units, calls = one.Calls/max(1, e.members), 1
		one.Duration = time.Duration(max(0, m.indices-1)) * time.Duration(s.Create.Pause)
		if r := s.Create.Namespaces; r != nil && r.Each > 0 {
			one.Duration += time.Duration(max(0, m.indices-1)/r.Each) * time.Duration(r.Pause)
		}
	}
	err = e.setTimes(s.Create.Pace, units, calls, one)
	e.addWrite(one, garbage)
	return err
}

func (e *estimator) estimateScale(x *scenario.Scale, one *Step) error {
	m := e.made[x.Step]
	to := x.To
	if m.create.PerNamespace > 0 {
		to = x.PerNamespace * e.countNamespaces(m.create)
	}
	garbage := int64(0)
	for _, o := range m.objects {
		n := e.countObjects(m, o, to) - e.countObjects(m, o, m.indices)
		e.countCalls(one, "create", o.resource, n)
		e.countCalls(one, "delete", o.resource, -n)
		garbage += e.changeObjects(o, n)
	}
	units := max(to-m.indices, m.indices-to)
	m.indices = to
	err := e.setTimes(x.Pace, units, e.perIndex(m), one)
	e.addWrite(one, garbage)
	return err
}

func (e *estimator) estimateUpdate(x *scenario.Update, one *Step) error {
	m := e.made[x.Step]
	indices := m.indices
	if x.First > indices {
		return fmt.Errorf("update.first: step %q has no first %d, only %d", x.Step, x.First, indices)
	}
	if x.First > 0 {
		indices = x.First
	}
	garbage, share := int64(0), 1.0
	if x.Method == "put" {
		share = 2
	}
	for _, o := range m.objects {
		if x.Object != "" && o.item.Body != x.Object {
			continue
		}
		n := e.countObjects(m, o, indices)
		if x.Method == "put" {
			e.countCalls(one, "get", o.resource, n)
			e.countCalls(one, "update", o.resource, n)
		} else {
			e.countCalls(one, "patch", o.resource, n)
		}
		garbage += int64(n) * o.bytes
	}
	err := e.setTimes(x.Pace, indices, share*e.perIndex(m), one)
	e.addWrite(one, garbage)
	return err
}

func (e *estimator) estimateDelete(x *scenario.Delete, one *Step) error {
	m := e.made[x.Step]
	garbage := int64(0)
	for _, o := range m.objects {
		n := e.countObjects(m, o, m.indices)
		e.countCalls(one, "delete", o.resource, n)
		garbage += e.changeObjects(o, -n)
	}
	err := e.setTimes(x.Pace, m.indices, e.perIndex(m), one)
	m.indices = 0
	e.addWrite(one, garbage)
	return err
}

// estimateChurn counts its cycles; those that only time ends come at least as often as
// their delays and paces allow, and answers make them fewer.
func (e *estimator) estimateChurn(x *scenario.Churn, one *Step) error {
	m := e.made[x.Step]
	victims, perUnit := int(math.Ceil(float64(m.indices)*x.Percent/100-1e-6)), e.perIndex(m)
	taken := make([]int, len(m.objects)) // in each cycle
	for i, o := range m.objects {
		taken[i] = e.countChurned(x, m, o)
	}
	if x.PerObject {
		victims, perUnit = 0, 1
		for _, n := range taken {
			victims += n
		}
	}
	times, err := e.replayTimes(x.Pace)
	if err != nil {
		return err
	}
	units := victims * max(1, e.members)
	made := Pace(x.Pace, units, e.s.Seed, times)
	_, last := countDue(made, units, 0)
	rest := time.Duration(x.Rest)
	if rest == 0 {
		rest = time.Duration(x.Delay)
	}
	cycle := 2*last + time.Duration(x.Delay) + rest
	cycles := x.Cycles
	if limit := time.Duration(x.For); limit > 0 {
		byTime := 1 + int(limit/max(cycle, time.Millisecond))
		if cycles == 0 || byTime < cycles {
			cycles = byTime
		}
	}
	one.Duration, one.Open = max(0, time.Duration(cycles)*cycle-rest), true
	garbage := int64(0)
	for i, o := range m.objects {
		n := taken[i]
		e.countCalls(one, "delete", o.resource, cycles*n)
		e.countCalls(one, "create", o.resource, cycles*n)
		garbage += int64(cycles) * (e.changeObjects(o, -n) + e.changeObjects(o, n))
	}
	one.Rate = topRate(x.Pace, made) * perUnit
	e.addWrite(one, garbage)
	return nil
}

// countChurned is how many objects of one kind a cycle takes.
func (e *estimator) countChurned(x *scenario.Churn, m *made, o object) int {
	n := e.countObjects(m, o, m.indices)
	switch {
	case len(x.Objects) > 0 && !slices.Contains(x.Objects, o.item.Body):
		return 0
	case x.PerObject && x.Namespaces == "":
		return scenario.ChurnedObjects(n, x.Percent)
	}
	return int(math.Ceil(float64(n)*x.Percent/100 - 1e-6))
}

// estimateRequests shares the calls among the mix by weight.
func (e *estimator) estimateRequests(x *scenario.Requests, step string, one *Step) error {
	times, err := e.replayTimes(x.Pace)
	if err != nil {
		return err
	}
	count, weights, total := x.Count, e.mixWeights(x), 0.0
	for _, w := range weights {
		total += w
	}
	if x.Rounds > 0 { // how many objects of others are found is known only then
		count, one.Open, e.out.AtLeast = x.Rounds*int(total), true, true
	}
	count *= max(1, e.members)
	made := Pace(x.Pace, count, e.s.Seed, times)
	closed := x.Pace.Closed > 0
	calls, last := count, time.Duration(x.For)
	if !closed {
		calls, last = countDue(made, count, time.Duration(x.For))
		one.Rate = topRate(x.Pace, made)
	}
	e.out.Unbounded = e.out.Unbounded || closed && count == 0
	e.out.AtLeast = e.out.AtLeast || closed && count == 0
	one.Duration, one.Open = last, one.Open || closed && count > 0
	garbage, watches := int64(0), 0
	for i := range x.Mix {
		c := &x.Mix[i]
		n := int(math.Round(float64(calls) / float64(max(1, e.members)) * weights[i] / total))
		bytes, err := e.estimateMixed(c, n, step, one)
		if err != nil {
			return err
		}
		garbage += bytes
		if c.Verb == "watch" {
			watches += countHeld(n*max(1, e.members), made.Rate()*weights[i]/total, time.Duration(c.Hold))
		}
	}
	e.now.watches += watches
	e.top = e.top.max(e.now)
	e.now.watches -= watches
	e.addWrite(one, garbage)
	return nil
}

// mixWeights are the shares of the calls of a mix: of rounds, how many objects each finds.
func (e *estimator) mixWeights(x *scenario.Requests) []float64 {
	out := make([]float64, len(x.Mix))
	for i := range x.Mix {
		if out[i] = x.Mix[i].Weight; x.Rounds > 0 {
			out[i] = float64(max(1, e.countSelected(&x.Mix[i])))
		}
	}
	return out
}

// countSelected is how many of the objects that a call finds by its selector the scenario's
// own steps have made by then.
func (e *estimator) countSelected(c *scenario.Call) (n int) {
	resource, err := scenario.ParseResource(c.Resource)
	selector, bad := labels.Parse(c.Selector)
	if err != nil || bad != nil {
		return 0
	}
	for _, m := range e.made {
		for _, o := range m.objects {
			if o.resource == resource.String() && selector.Matches(o.labels) {
				n += e.countObjects(m, o, m.indices)
			}
		}
	}
	return n
}

// countHeld is how many of n watches, opened at a rate, are open at the same time.
func countHeld(n int, rate float64, hold time.Duration) int {
	return int(math.Min(float64(n), math.Ceil(rate*hold.Seconds())))
}

// estimateMixed counts one kind of a mix and returns the garbage that it leaves.
func (e *estimator) estimateMixed(c *scenario.Call, n int, step string, one *Step) (int64, error) {
	creation := c.Verb == "create" && c.Subresource == ""
	name, o := c.Resource, object{}
	switch {
	case creation:
		var err error
		if o, err = e.sampleObject(scenario.Item{Body: c.Body, Name: c.Name}, step, c.With); err != nil {
			return 0, err
		}
		name = o.resource
	case c.Of != "":
		for _, one := range e.made[c.Of].objects {
			if c.Object == "" || c.Object == one.item.Body {
				o = one
			}
		}
		name = o.resource
	default:
		if r, err := scenario.ParseResource(c.Resource); err == nil {
			name = r.String()
		}
	}
	if c.Subresource != "" {
		name += "/" + c.Subresource
	}
	e.countCalls(one, c.Verb, name, n)
	switch c.Verb {
	case "create":
		if creation {
			return e.changeObjects(o, n), nil
		}
	case "update", "patch":
		return int64(n) * max(o.bytes, MetadataBytes), nil
	}
	return 0, nil
}
