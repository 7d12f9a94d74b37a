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
)

// TestSabotagedFlightsDoNotPass flies 50 scenarios that seeds draw, with one thing that
// each asks for sabotaged: none may pass, and what holds it back must be something that
// was asked for, not the machine. Each fifth is flown without sabotage, too: then nothing
// is. Package slo does the same with a thousand made records.
func TestSabotagedFlightsDoNotPass(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	config, _ := u.serve("hollow", "--service-accounts")
	for seed := range uint64(50) {
		if seed%5 == 0 {
			u.flyDrawn(config, seed, false)
		}
		u.flyDrawn(config, seed, true)
	}
}

// flyDrawn flies the scenario of a seed and looks at how it ended.
func (u *tunnel) flyDrawn(config string, seed uint64, sabotaged bool) {
	u.t.Helper()
	name := fmt.Sprintf("drawn-%d-%t", seed, sabotaged)
	text := drawScenario(name, seed, sabotaged)
	if err := os.WriteFile(filepath.Join(u.dir, name+".yaml"), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
	cmd, out := u.start("run", name+".yaml", "--kubeconfig", config, "--out", name, "--max-neighbours", "100%")
	code := exitOf(cmd.Wait())
	if code == exitFault && sabotaged && !strings.Contains(out.String(), "windtunnel has a fault") {
		return // it said so before anything was sent
	}
	if code == exitFault || code < 0 {
		u.t.Fatalf("%s was refused, or ended the tool:\n%s\n%s", name, text, out)
	}
	if j := u.verdictOf(name); sabotaged != heldBack(j) || sabotaged && code == exitPass || code == exitFail && !sabotaged {
		u.t.Errorf("%s: exit code %d, %s, unmet %+v, %q:\n%s", name, code, j.Verdict, j.Unmet, j.Reasons, text)
	}
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
func drawScenario(name string, seed uint64, sabotaged bool) string {
	rnd := rand.New(rand.NewPCG(seed, 50))
	count := 1 + rnd.IntN(4)
	victim := rnd.IntN(count)
	var steps, more string
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
preflight: {wait: 1s, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread]}
bodies:
  good: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{.Name}}'}, data: {a: b}}"}
  unserved: {text: "{apiVersion: nobody.example/v1, kind: Nothing, metadata: {name: '{{.Name}}'}}"}
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

// parts are what scenarios are drawn of, each with the ways in which it is sabotaged.
var parts = []part{
	{steps: makes("body: good"), spoiled: []string{makes("body: good, namespace: absent"), makes("body: unserved"), makes("body: unnamed")}},
	{steps: makes("body: good") + awaits("b", "count: 5"), spoiled: []string{makes("body: good") + awaits("c", "count: 5, within: 100ms"), makes("body: good") + awaits("b", "count: 6, within: 100ms")}},
	{steps: makes("body: good") + updates("patch"), spoiled: []string{makes("body: good") + updates("badPatch")}},
	{steps: runs("command: [sh, -c, exit 0]"), spoiled: []string{
		runs("command: [sh, -c, exit 3]"), runs("command: [sh, -c, kill -9 $$$$]"), runs("command: [sleep, '60'], timeout: 100ms"), runs("command: [a-program-that-is-nowhere]")}},
	{steps: asks("verb: list"), spoiled: []string{asks("verb: get, name: absent"), asks("verb: get, selector: nobody=here")}},
	{steps: asks("verb: list"), beside: []string{
		"plane: {limits: {cpu: 1}}",
		"plane: {components: {etcd: {memory: 1Gi}}}",
		"objectives: [{sli: call-latency, statistic: p50, max: 1ns}]",
		"objectives: [{sli: pod-startup, statistic: p50, max: 1h}]",
		"objectives: [{name: beyond, unsupported: nobody can measure it}]",
		"objectives: [{name: asked, query: nothing_of_this_name, max: 1}]",
	}},
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
