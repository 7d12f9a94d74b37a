// Package reporttest makes run directories whose content is invented: the
// shapes are those of density runs, the figures mean nothing. The tests of
// package report and whoever works on the page's looks call it; nothing that
// measures does.
package reporttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Shape says what run to invent. The zero value of a field takes its default.
type Shape struct {
	Nodes   int     // default 100
	Pods    int     // of the saturation step; default 3000
	Latency int     // pods of the latency step; default 150
	Rate    float64 // pods per second that the scheduler manages; default 220
	Asked   float64 // pods per second asked for; default 100
	Name    string  // scenario; default density
	CutOff  bool    // the run is killed in its middle
	Taint   string  // put into every name and text that a scenario or the plane can choose
	Slow    float64 // seconds that bindings stand still in the middle of saturation; default 0
	Seed    uint64  // of what differs from run to run; default 7
	Spike   float64 // how long the queue of the deployment controller is at one scrape; default 0
	Faults  bool    // the scheduler is killed in the latency step
	Gave    bool    // there is a diagnosis
	// Machines is how many virtual machine instances begin and end in a step of
	// their own, recorded as the life vmi; default 0.
	Machines int
	Others   int // pods of no group, such as a controller's own; default 0
}

func (s Shape) withDefaults() Shape {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&s.Nodes, 100)
	set(&s.Pods, 3000)
	set(&s.Latency, 150)
	if s.Rate == 0 {
		s.Rate = 220
	}
	if s.Asked == 0 {
		s.Asked = 100
	}
	if s.Name == "" {
		s.Name = "density"
	}
	if s.Seed == 0 {
		s.Seed = 7
	}
	return s
}

// flight is a run that is being invented.
type flight struct {
	Shape
	w    *record.Writer
	rnd  *rand.Rand
	now  float64 // seconds
	busy []load  // what the components did, second by second
}

// load is one second's work of the plane.
type load struct{ calls, pods float64 }

// Write invents a run in the new folder dir/run and returns
// it with its manifest. The same shape gives the same records.
func Write(dir string, s Shape) (record.Dir, record.Manifest, error) {
	s = s.withDefaults()
	d, err := record.CreateDir(filepath.Join(dir, "run"))
	if err != nil {
		return "", record.Manifest{}, err
	}
	w, err := record.Create(d.File(record.StreamFile))
	if err != nil {
		return "", record.Manifest{}, err
	}
	f := &flight{Shape: s, w: w, rnd: rand.New(rand.NewPCG(s.Seed, 11)), now: 0.2}
	f.flyAll()
	if err := w.Close(); err != nil {
		return "", record.Manifest{}, err
	}
	m := newManifest(s)
	if err := d.Write(record.ScenarioFile, []byte(scenarioText(s))); err != nil {
		return "", m, err
	}
	if s.Gave {
		if err := d.Write("diagnosis.json", []byte(newDiagnosis(s))); err != nil {
			return d, m, err
		}
	}
	return d, m, d.WriteJSON(record.ManifestFile, m)
}

func at(seconds float64) clock.Time { return clock.Time(seconds * float64(time.Second)) }

func (f *flight) writeEvent(what record.EventType, name, text string) {
	f.w.Event(record.Event{At: at(f.now), Type: what, Name: name, Text: text})
}

func (f *flight) writeDetail(what record.EventType, name string, d record.Detail) {
	f.w.Event(record.Event{At: at(f.now), Type: what, Name: name, Detail: d})
}

func (f *flight) flyAll() {
	f.now = 3.1
	f.writeDetail(record.EventPlaneReady, "", record.Detail{For: 3104 * time.Millisecond})
	f.writeStep("populate", func() { f.createNodes() })
	f.writeDetail(record.EventFleetReady, "", record.Detail{Count: f.Nodes})
	f.writeEvent(record.EventRunBegan, "", "")
	var saturation, latency []pod
	fill, probe := "saturation"+f.Taint, "latency"+f.Taint
	f.writeStep(fill, func() { saturation = f.createPods(fill, f.Pods, f.Asked, f.Rate) })
	if f.CutOff {
		f.writeUsage()
		return
	}
	for i := range f.Others {
		f.writePod("", i, f.now, f.now+0.01)
	}
	f.writeStep(probe, func() {
		if f.Faults {
			f.writeEvent(record.EventFault, "kube-scheduler", "kill"+f.Taint)
		}
		latency = f.createPods(probe, f.Latency, 5, f.Rate)
		if f.Faults {
			f.writeEvent(record.EventFault, "kube-scheduler", "start")
		}
	})
	if f.Machines > 0 {
		f.writeStep("machines", func() { f.createMachines("machines" + f.Taint) })
	}
	f.writeEvent(record.EventWarned, "", "the machine's own load was 0.4 before the run"+f.Taint)
	f.writeStep("delete-"+probe, func() { f.removePods(probe, latency, 20) })
	f.writeStep("delete-"+fill, func() { f.removePods(fill, saturation, 4*f.Asked) })
	f.writeUsage()
	f.writeDetail(record.EventRunEnded, "", record.Detail{Reason: record.Done})
}

func (f *flight) writeStep(name string, do func()) {
	f.now += 0.2
	f.writeEvent(record.EventStepBegan, name, "")
	do()
	f.writeEvent(record.EventStepEnded, name, "")
}

// jitter is a log-normal factor around 1.
func (f *flight) jitter(sigma float64) float64 { return math.Exp(f.rnd.NormFloat64() * sigma) }

func (f *flight) writeDid(t float64, calls, pods float64) {
	for int(t) >= len(f.busy) {
		f.busy = append(f.busy, load{})
	}
	f.busy[int(t)].calls += calls
	f.busy[int(t)].pods += pods
}

// sendCall sends one call that is due at t and returns when it was answered.
func (f *flight) sendCall(op record.Op, t, typical float64) float64 {
	id := f.w.Op(op)
	sent := t + 40e-6*f.jitter(0.5)
	took := typical * f.jitter(0.45)
	if f.rnd.Float64() < 0.004 {
		took *= 12 // a garbage collection, a compaction
	}
	c := record.Call{Op: id, Due: at(t), Sent: at(sent), Done: at(sent + took), Code: 200, SentBytes: 900, ReceivedBytes: 1400}
	switch {
	case op.Verb == "create":
		c.Code = 201
	case f.rnd.Float64() < 0.001:
		c.Code, c.Outcome = 409, record.Failed
	}
	f.w.Call(c)
	f.writeDid(t, 1, 0)
	return sent + took
}

func (f *flight) createNodes() {
	create := record.Op{Source: "fleet", Step: "populate", Verb: "create", Resource: "nodes", Scope: "resource"}
	for i := range f.Nodes {
		f.sendCall(create, f.now+float64(i)/200, 0.004)
	}
	f.now += float64(f.Nodes)/200 + 1.1
}

type pod struct {
	id      record.ObjectID
	running float64
}

// createPods invents a step that creates pods through deployments of ten.
func (f *flight) createPods(group string, n int, asked, rate float64) []pod {
	const perDeployment = 10
	count := (n + perDeployment - 1) / perDeployment
	f.writeDetail(record.EventLoadAsked, group, record.Detail{Count: count, Rate: asked / perDeployment})
	create := record.Op{Source: "load", Step: group, Verb: "create", Resource: "deployments.apps" + f.Taint, Scope: "resource"}
	out, begin, free, last := make([]pod, 0, n), f.now, f.now, f.now
	stall := begin + float64(n)/asked/2
	for i := range count {
		due := begin + float64(i)*perDeployment/asked
		done := f.sendCall(create, due, 0.006)
		for k := range min(perDeployment, n-len(out)) {
			born := done + 0.015*f.jitter(0.6) + float64(k)*0.003
			free = max(free+f.jitter(0.3)/rate, born)
			if free > stall && free < stall+f.Slow {
				free = stall + f.Slow
			}
			p := f.writePod(group, i*perDeployment+k, born, free+0.004*f.jitter(0.5))
			last = max(last, p.running)
			out = append(out, p)
		}
	}
	f.now = last + 0.4
	return out
}

func (f *flight) writePod(group string, i int, born, bound float64) pod {
	id := f.w.Object(record.Object{
		Resource: "pods", Namespace: "density-1", Name: fmt.Sprintf("%s-%d", group, i), UID: fmt.Sprintf("%016x", f.rnd.Uint64()), Group: group,
	})
	patch := record.Op{Source: "fleet", Verb: "patch", Resource: "pods", Subresource: "status", Scope: "resource"}
	running := f.sendCall(patch, bound+0.001*f.jitter(0.4), 0.005) + 0.0015*f.jitter(0.5)
	for _, p := range []struct {
		name string
		at   float64
	}{{record.PhaseCreated, born}, {record.PhaseBound, bound}, {record.PhaseRunning, running}, {record.PhaseReady, running}} {
		f.w.Phase(record.Phase{Object: id, Phase: p.name, At: at(p.at)})
	}
	f.writeDid(born, 3, 1)
	return pod{id, running}
}

// createMachines invents instances of virtual machines that start one after the other.
// One of them fails; all are deleted in the end.
func (f *flight) createMachines(group string) {
	end := f.now
	ids := make([]record.ObjectID, f.Machines)
	for i := range ids {
		ids[i] = f.w.Object(record.Object{
			Resource: "virtualmachineinstances.kubevirt.io", Namespace: "density-1", Name: fmt.Sprintf("%s-%d", group, i), UID: fmt.Sprintf("%016x", f.rnd.Uint64()),
			Group: group, Lifecycle: "vmi" + f.Taint,
		})
		t := f.now + float64(i)/20
		for k, phase := range []string{
			record.PhaseCreated, "pending", "scheduling", "podCreated", "podScheduled", "podReadyToStartContainers", "podInitialized", "podContainersReady", "podReady", "scheduled", "running", "ready",
		} {
			f.w.Phase(record.Phase{Object: ids[i], Phase: phase, At: at(t)})
			t += 0.02 * float64(1+k%4) * f.jitter(0.4) * (1 + float64(i)/20)
		}
		end = max(end, t)
	}
	f.w.Phase(record.Phase{Object: ids[0], Phase: "failed", At: at(end)})
	for _, id := range ids {
		for _, phase := range []string{record.PhaseDeleting, "podDeleted", record.PhaseDeleted} {
			end += 0.01 * f.jitter(0.3)
			f.w.Phase(record.Phase{Object: id, Phase: phase, At: at(end)})
		}
	}
	f.now = end
}

func (f *flight) removePods(group string, pods []pod, rate float64) {
	f.writeDetail(record.EventLoadAsked, "delete-"+group, record.Detail{Count: len(pods) / 10, Rate: rate / 10})
	del := record.Op{Source: "load", Step: "delete-" + group, Verb: "delete", Resource: "deployments.apps", Scope: "resource"}
	gone := record.Op{Source: "fleet", Verb: "delete", Resource: "pods", Scope: "resource"}
	begin, last := f.now, f.now
	for i, p := range pods {
		due := begin + float64(i/10*10)/rate
		if i%10 == 0 {
			f.sendCall(del, due, 0.005)
		}
		marked := due + 0.05*f.jitter(0.7) + float64(i%10)*0.004
		deleted := f.sendCall(gone, marked+0.002, 0.006) + 0.002*f.jitter(0.4)
		f.w.Phase(record.Phase{Object: p.id, Phase: record.PhaseDeleting, At: at(marked)})
		f.w.Phase(record.Phase{Object: p.id, Phase: record.PhaseDeleted, At: at(deleted)})
		f.writeDid(marked, 4, 0.6)
		last = max(last, deleted)
	}
	f.now = last + 0.3
}
