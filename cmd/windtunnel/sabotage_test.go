package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestSabotagedFlightsDoNotPass flies scenarios that seeds draw, with one thing that each
// asks for sabotaged: none may pass, and what holds it back must be something that was
// asked for, not the machine. Each fifth is flown without sabotage, too: then nothing is.
// Package slo does the same with a thousand made records.
func TestSabotagedFlightsDoNotPass(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	config, _ := u.serve("hollow", "--service-accounts")
	u.flySeeds(10, func(uint64) string { return "" }, "--kubeconfig", config)
}

// TestProofSabotagedFlightsDoNotPass is the same with 50 seeds.
func TestProofSabotagedFlightsDoNotPass(t *testing.T) {
	repotest.Proof(t)
	u := newTunnel(t)
	config, _ := u.serve("hollow", "--service-accounts")
	u.flySeeds(50, func(uint64) string { return "" }, "--kubeconfig", config)
}

// TestProofSabotagedPlanesDoNotPass is the same on planes of the scenarios' own, of one process
// each and of several, which are broken, too.
func TestProofSabotagedPlanesDoNotPass(t *testing.T) {
	repotest.Proof(t)
	u := newTunnel(t)
	planes := []string{"{}", "{etcdMembers: 3, schedulers: 2}", "{apiservers: 2, controllerManagers: 2}"}
	u.flySeeds(10, func(seed uint64) string { return planes[seed%3] })
}

// flySeeds flies the scenario of each seed with one thing sabotaged, and of each fifth without.
// A plane is one of the scenario's own; empty: that of a kubeconfig.
func (u *tunnel) flySeeds(seeds uint64, plane func(seed uint64) string, args ...string) {
	u.t.Helper()
	codes := map[int]int{}
	for seed := range seeds {
		if seed%5 == 0 {
			u.flyDrawn(plane(seed), seed, false, args...)
		}
		codes[u.flyDrawn(plane(seed), seed, true, args...)]++
	}
	u.t.Logf("of %d sabotaged %d passed, %d failed, %d are unknown, %d were refused before anything was sent", seeds, codes[exitPass], codes[exitFail], codes[exitUnknown], codes[exitFault])
}

// flyDrawn flies the scenario of a seed, looks at how it ended, and returns its exit code.
func (u *tunnel) flyDrawn(plane string, seed uint64, sabotaged bool, args ...string) int {
	u.t.Helper()
	name := fmt.Sprintf("drawn-%d-%t-%t", seed, sabotaged, plane == "")
	text := drawScenario(name, plane, seed, sabotaged)
	repotest.NoError(u.t, os.WriteFile(filepath.Join(u.dir, name+".yaml"), []byte(text), 0o600))
	cmd, out := u.start(append([]string{"run", name + ".yaml", "--out", name, "--max-neighbours", "100%"}, args...)...)
	code := exitOf(cmd.Wait())
	if code == exitFault && sabotaged && !strings.Contains(out.String(), "windtunnel has a fault") {
		return code // it said so before anything was sent
	}
	if code == exitFault || code < 0 {
		u.t.Fatalf("%s was refused, or ended the tool:\n%s\n%s", name, text, out)
	}
	if j := u.verdictOf(name); sabotaged != heldBack(j) || sabotaged && code == exitPass || code == exitFail && !sabotaged {
		u.t.Errorf("%s: exit code %d, %s, unmet %+v, %q:\n%s", name, code, j.Verdict, j.Unmet, j.Reasons, text)
	}
	return code
}

// heldBack says whether something that was asked for keeps a verdict from a pass.
func heldBack(j slo.Judgement) bool {
	for _, o := range j.Objectives {
		if o.Verdict != slo.Pass {
			return true
		}
	}
	return len(j.Unmet) > 0 || slices.ContainsFunc(j.Reasons, func(reason string) bool {
		return strings.HasPrefix(reason, "The run was stopped: step part-")
	})
}

// drawScenario draws up to four parts, and which of them is sabotaged and how. The
// scenario of a seed is the same with and without sabotage, but for that.
func drawScenario(name, plane string, seed uint64, sabotaged bool) string {
	rnd := rand.New(rand.NewPCG(seed, 50))
	count := 1 + rnd.IntN(4)
	victim := rnd.IntN(count)
	parts, steps, more := attachedParts(), "", ""
	if plane != "" {
		parts, more = ownParts(plane), "plane: "+plane
	}
	for i := range count {
		p := parts[rnd.IntN(len(parts))]
		text, onFailure := p.steps, []string{"stop", "continue"}[rnd.IntN(2)]
		if how := rnd.IntN(len(p.spoiled) + len(p.beside)); sabotaged && i == victim {
			if how < len(p.spoiled) {
				text = p.spoiled[how]
			} else {
				more = p.beside[how-len(p.spoiled)]
			}
		}
		steps += strings.NewReplacer("NAME", fmt.Sprintf("part-%d", i), "THEN", onFailure).Replace(text)
	}
	return "scenario: " + name + "\n" + drawnHead + more + "\nsteps:\n" + steps
}

// drawnHead tolerates all that a preflight looks at: what is drawn is not about it.
const drawnHead = `namespaces: {count: 2}
fleet: {nodes: 3}
members: [{name: far, count: 2, kind: hollow}]
preflight: {wait: 1s, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread]}
bodies:
  good: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{.Name}}', labels: {part: '{{.Group}}'}}, data: {a: b}}"}
  unserved: {text: "{apiVersion: nobody.example/v1, kind: Nothing, metadata: {name: '{{.Name}}'}}"}
  third: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{if eq .Index 3}}No {{end}}{{.Name}}'}, data: {a: b}}"}
  unnamed: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'No name'}}"}
  patch: {text: "{data: {a: c}}"}
  badPatch: {text: "{metadata: {labels: {a: 'no label'}}}"}
`

// part is something that a scenario may ask for. NAME in it is the name of its steps.
type part struct {
	steps   string
	spoiled []string // in place of steps
	beside  []string // fields of the scenario, beside steps
}

// anyParts are what scenarios are drawn of, each with the ways in which it is sabotaged.
func anyParts() []part {
	return []part{
		{steps: makes("body: good"), spoiled: []string{makes("body: good, namespace: absent"), makes("body: unserved"), makes("body: unnamed")}},
		{steps: makes("body: good") + awaits("b", "count: 5"), spoiled: []string{makes("body: good") + awaits("c", "count: 5, within: 100ms"), makes("body: good") + awaits("b", "count: 6, within: 100ms")}},
		{steps: makes("body: good") + updates("patch"), spoiled: []string{makes("body: good") + updates("badPatch"), makes("body: third") + updates("patch")}},
		{steps: makes("body: good, group: NAME") + removes("deleted: true, selector: part=NAME"), spoiled: []string{
			makes("body: good, group: NAME") + removes("deleted: true, selector: part=name, within: 100ms"), makes("body: good") + "- {name: NAME-gone, onFailure: THEN, wait: {objects: configmaps, of: NAME, deleted: true, within: 100ms}}\n"}},
		{steps: runs("command: [sh, -c, exit 0]"), spoiled: []string{
			runs("command: [sh, -c, exit 3]"), runs("command: [sh, -c, kill -9 $$$$]"), runs("command: [sleep, '60'], timeout: 100ms"), runs("command: [a-program-that-is-nowhere]")}},
		{steps: asks("verb: list"), spoiled: []string{asks("verb: get, name: absent"), asks("verb: get, selector: nobody=here")}},
		// Faults of the fleet.
		{steps: breaks("nodes: {count: 2}, action: notready, for: 100ms"), spoiled: []string{
			breaks("nodes: {count: 9}, action: notready, for: 100ms"), breaks("nodes: {selector: nobody=here}, action: silent, for: 100ms"),
			breaks("nodes: {}, action: flap, between: 1000h, down: 1000h, for: 100ms"), breaks("pods: {}, action: fail, for: 100ms"), breaks("pods: {count: 3}, action: crash, for: 100ms")}},
		{steps: breaks("nodes: {percent: 50}, action: slow, delay: 1ms, for: 100ms"), spoiled: []string{
			"- {name: NAME, fault: {nodes: {}, action: notready, for: 1h}}\n" +
				strings.ReplaceAll(breaks("nodes: {count: 1}, action: silent, for: 100ms"), "NAME", "NAME-again")}},
		// Members.
		{steps: far(makes("body: good") + awaits("b", "count: 5")), spoiled: []string{
			far(makes("body: unserved")), far(makes("body: unnamed")), far(makes("body: good") + awaits("c", "count: 5, within: 100ms")), far(makes("body: good") + awaits("b", "count: 6, within: 100ms"))}},
		{steps: far(runs("command: [sh, -c, exit 0]")), spoiled: []string{far(runs("command: [sh, -c, 'test $MEMBER != far-2']")), far(runs("command: [sleep, '60'], timeout: 100ms"))}},
		{steps: breaks("cluster: far, action: delay, roundTrip: 1ms, for: 100ms"), spoiled: []string{
			"- {name: NAME, fault: {cluster: far-2, action: cut, for: 1h}}\n" + far(strings.ReplaceAll(makes("body: good, timeout: 1s"), "name: NAME", "name: NAME-cut"))}},
		{steps: asks("verb: list"), beside: []string{
			"objectives: [{sli: call-latency, statistic: p50, max: 1ns}]",
			"objectives: [{sli: pod-startup, statistic: p50, max: 1h}]",
			"objectives: [{name: beyond, unsupported: nobody can measure it}]",
			"objectives: [{name: asked, query: nothing_of_this_name, max: 1}]",
		}},
	}
}

// attachedParts are those of a cluster that others have started: nobody sets anything of its plane.
func attachedParts() []part {
	return append(anyParts(), part{steps: asks("verb: list"), beside: []string{
		"plane: {limits: {cpu: 1}}", "plane: {components: {etcd: {memory: 1Gi}}}", "plane: {release: v1.36.3}",
		"plane: {etcdMembers: 3}", "plane: {apiservers: 2}", "plane: {schedulers: 2}", "plane: {controllerManagers: 2}",
	}})
}

// ownParts are those of a plane that the run starts: its processes can be broken, and its limits
// be beyond the machine.
func ownParts(plane string) []part {
	manager := "kube-controller-manager"
	if strings.Contains(plane, "controllerManagers") {
		manager += "-0"
	}
	killed := "- {name: NAME, fault: {component: " + manager + ", action: kill, for: 1h}}\n- {name: NAME-again, onFailure: THEN, fault: {component: " + manager + ", action: "
	more := strings.TrimPrefix(strings.TrimSuffix(plane, "}"), "{")
	if more != "" {
		more += ", "
	}
	return append(anyParts(),
		part{steps: breaks("component: " + manager + ", action: pause, for: 100ms"), spoiled: []string{
			killed + "pause, for: 100ms, hold: true}}\n", killed + "kill, for: 100ms, hold: true}}\n",
		}},
		part{steps: breaks("client: load, action: delay, roundTrip: 1ms, for: 100ms"), spoiled: []string{
			"- {name: NAME, fault: {client: load, action: cut, for: 1h}}\n" + strings.ReplaceAll(makes("body: good, timeout: 1s"), "name: NAME", "name: NAME-cut"),
		}},
		part{steps: asks("verb: list"), beside: []string{
			"plane: {" + more + "limits: {cpu: 512}}", "plane: {" + more + "limits: {memory: 100Ti}}", "plane: {" + more + "components: {etcd: {cpu: 512}}}",
		}})
}

// far has steps done in both members.
func far(steps string) string {
	return strings.ReplaceAll(steps, "- {name: ", "- {cluster: far, name: ")
}

func breaks(what string) string {
	return "- {name: NAME, onFailure: THEN, fault: {" + what + ", hold: true}}\n"
}

func removes(until string) string {
	return "- {name: NAME-away, onFailure: THEN, delete: {step: NAME, pace: {closed: 2}}}\n" +
		"- {name: NAME-gone, onFailure: THEN, wait: {objects: configmaps, " + until + "}}\n"
}

func makes(what string) string {
	return "- {name: NAME, onFailure: THEN, create: {" + what + ", count: 5, pace: {closed: 2}}}\n"
}

func awaits(value, more string) string {
	return "- {name: NAME-seen, onFailure: THEN, wait: {objects: configmaps, of: NAME, condition: \"self.data.a == '" + value + "'\", " + more + "}}\n"
}

func updates(body string) string {
	return "- {name: NAME-changed, onFailure: THEN, update: {step: NAME, body: " + body + ", pace: {closed: 2}}}\n"
}

func runs(what string) string {
	return "- {name: NAME, onFailure: THEN, exec: {" + what + "}}\n"
}

func asks(call string) string {
	return "- {name: NAME, onFailure: THEN, requests: {count: 5, pace: {closed: 2}, mix: [{resource: configmaps, " + call + "}]}}\n"
}
