package robust_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/repotest/census"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestCensusOfAllExamples flies each example in a cluster of others, ends it in each of the
// ways there are, and compares every object of the cluster with what it was. Examples that
// want a plane of their own are refused with a sentence before anything is started.
//
//	WINDTUNNEL_ROBUST=1 go test -v -run TestCensusOfAllExamples/edge/density.yaml/fail ./bench/robust
//
// It prints a table of its flights. WINDTUNNEL_CENSUS names a file that keeps them: flights
// that stand there without a fault are not flown again, and the table has all of them.
// Flights are made at the same time, as many as -parallel allows, each in a cluster of its own:
// of WINDTUNNEL_CLUSTERS (3), which are used again.
func TestCensusOfAllExamples(t *testing.T) {
	repotest.Robust(t)
	kept := &flights{of: readFlights(t)}
	t.Cleanup(func() { t.Logf("\n%s", kept.table()) })
	lands := make(chan *land, repotest.Times(t, "WINDTUNNEL_CLUSTERS", 3))
	for number := range cap(lands) {
		lands <- newLand(t, number, kept)
	}
	for _, file := range examples(repotest.Path(t, "examples")) {
		for _, e := range census.Endings() {
			t.Run(file+"/"+e.Name, func(t *testing.T) {
				if kept.fine(file + " " + e.Name) {
					t.Skip("stands in the table")
				}
				t.Parallel()
				l := <-lands
				defer func() { lands <- l }()
				l.once(t, file, e)
			})
		}
	}
}

// land is somebody else's cluster, in which examples are flown one after the other.
type land struct {
	number     int
	bin, dir   string // the binary has its own path, by which its processes are known
	examplesIn string
	flights    *flights
	kubeconfig string // empty before the first flight boots the cluster
	stop       func()
	ended      chan struct{} // closed when the cluster has ended
	said       func() string // by the cluster
	before     census.Census
}

// newLand prepares a cluster until the test ends.
func newLand(t *testing.T, number int, kept *flights) *land {
	dir, bin := t.TempDir(), repotest.Binary(t)
	l := &land{number: number, dir: dir, bin: filepath.Join(dir, "windtunnel"), examplesIn: filepath.Join(dir, "examples"), flights: kept, stop: func() {}}
	t.Cleanup(func() { l.stop() })
	raw, err := os.ReadFile(bin)
	if err == nil {
		err = errors.Join(os.WriteFile(l.bin, raw, 0o700), os.CopyFS(l.examplesIn, os.DirFS(repotest.Path(t, "examples"))),
			os.Symlink(filepath.Join(filepath.Dir(bin), "kube-plane"), filepath.Join(dir, "kube-plane")))
	}
	repotest.NoError(t, err)
	return l
}

// examples returns the scenarios in a folder.
func examples(folder string) (out []string) {
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(append([]byte("\n"), raw...), []byte("\nscenario:")) {
			out = append(out, strings.TrimPrefix(path, folder+"/"))
		}
		return err
	})
	return out
}

// once flies an example to one of the endings, if a cluster of others can have it.
func (l *land) once(t *testing.T, file string, e census.Ending) {
	name := file + " " + e.Name
	if strings.HasPrefix(file, "operator/") {
		l.buildOperator(t)
	}
	if l.kubeconfig == "" {
		l.boot(t)
	}
	defer l.mustLive(t, name)
	args := l.prepare(t, file, e)
	if refused := l.refused(t, args); refused != "" {
		l.flights.keep(t, name, flown{Refused: refused})
		return
	}
	if l.before == nil {
		l.before = l.census(t)
	}
	out := filepath.Join(t.TempDir(), "run")
	flight := census.Flight{Bin: l.bin, Kubeconfig: l.kubeconfig, Dir: l.dir, Args: append([]string{"--out", out}, args...),
		Until: middle(t, args[0]), Before: l.before, KillPlane: func(t testing.TB) func() { return census.KillAPIServer(t, l.bin, l.kubeconfig) }}
	watch := clock.Start()
	r := flight.Fly(t, e)
	l.flights.keep(t, name, flown{Code: r.Code, Seconds: int(watch.Now().Seconds()), Faults: r.Faults, Differences: r.Differences})
	if len(r.Differences) > 0 {
		l.before = nil // counted anew: each flight answers for itself
	}
}

// buildOperator builds the operator, as its page says.
func (l *land) buildOperator(t *testing.T) {
	c := exec.Command("go", "build", "-o", filepath.Join(l.examplesIn, "operator/bin/operator"), ".")
	c.Dir = repotest.Path(t, "examples/operator")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// refused returns why an example is not to be had in a cluster of others: --plan says so in a
// sentence, and ends with 3.
func (l *land) refused(t *testing.T, args []string) string {
	c := exec.Command(l.bin, append([]string{"run", "--plan", "--kubeconfig", l.kubeconfig}, args...)...)
	var said bytes.Buffer
	c.Stderr = &said
	err := c.Run()
	if err == nil {
		return ""
	}
	sentence := strings.TrimSpace(said.String())
	if c.ProcessState.ExitCode() != 3 || len(strings.Fields(sentence)) < 5 || strings.Count(sentence, "\n") > 5 {
		t.Errorf("--plan: %v\n%s", err, sentence)
	}
	return strings.ReplaceAll(sentence, l.examplesIn+"/", "")
}

// prepare writes an example as it is flown, beside the files that it names, and returns the
// arguments that make it small.
func (l *land) prepare(t *testing.T, file string, e census.Ending) []string {
	raw := repotest.Must(os.ReadFile(filepath.Join(l.examplesIn, file)))(t)
	path := filepath.Join(l.examplesIn, filepath.Dir(file), strings.TrimSuffix(filepath.Base(file), ".yaml")+"."+e.Name)
	repotest.NoError(t, os.WriteFile(path, []byte(dressed(string(raw), e)), 0o600))
	return append(append([]string{path}, atMost(t, raw)...), l.ownNames(t, raw)...)
}

// ownNames returns --set flags for names that are the machine's, on which several flights run.
func (l *land) ownNames(t *testing.T, raw []byte) []string {
	if parametersOf(t, raw)["prefix"] == nil {
		return nil
	}
	return []string{"--set", fmt.Sprint("prefix=census-", l.number)}
}

func parametersOf(t *testing.T, raw []byte) map[string]any {
	var s struct{ Parameters map[string]any }
	repotest.NoError(t, yaml.Unmarshal(raw, &s))
	return s.Parameters
}

// dressed returns the text of an example for an ending.
func dressed(text string, e census.Ending) string {
	text += "\n"
	if !strings.Contains(text, "\npreflight:") {
		text += "preflight: {wait: 1s}\n"
	}
	if e.Fails {
		text = census.CannotHold(text)
	}
	return text
}

// sizes are what parameters of examples are at most, so that a flight takes less than a
// minute: numbers of things, and times in seconds.
var sizes = map[string]float64{
	"nodes": 4, "nodesPerMember": 2, "members": 2, "others": 2, "regions": 2, "namespaces": 2, "pools": 2,
	"pods": 10, "podsPerNode": 3, "podsPerNamespace": 4, "latencyPods": 4, "deployments": 2, "replicas": 2,
	"apps": 4, "applications": 8, "websites": 8, "updates": 1, "cycles": 2, "rounds": 2, "vms": 6, "first": 4, "second": 4, "spoilFor": 5, "settleFor": 30,
	"edges": 4, "devices": 4, "changes": 2, "reports": 2, "processes": 2, "enrolled": 2,
	"services": 3, "slices": 2, "endpoints": 3, "objects": 5, "calls": 100, "writes": 20, "fill": 20, "turns": 2, "pairTurns": 2, "streamTurns": 2,
	"seconds": 5, "streamSeconds": 1, "minutes": 1, "hold": 5, "rest": 2, "settle": 3, "resync": 10, "wait": 5, "allWait": 5, "away": 3, "cut": 5, "apiserver": 5, "lost": 10, "recovery": 60,
}

// atMost returns --set flags for the parameters of a scenario that are larger than theirs.
func atMost(t *testing.T, raw []byte) (out []string) {
	parameters := parametersOf(t, raw)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		size, ok := sizes[name]
		if !ok {
			continue
		}
		switch is := parameters[name].(type) {
		case float64:
			if is > size {
				out = append(out, "--set", fmt.Sprint(name, "=", size))
			}
		case string:
			if strings.HasPrefix(is, "$") { // follows from the others
				break
			}
			out = append(out, "--set", fmt.Sprint(name, "=", size, "s"))
		}
	}
	return out
}

// TestExamplesAreMadeSmall reads each example as the census flies it: parameters have the
// names that they had, and the objective that cannot hold is one.
func TestExamplesAreMadeSmall(t *testing.T) {
	folder := repotest.Path(t, "examples")
	all := examples(folder)
	if len(all) < 50 {
		t.Fatalf("only %d examples: %v", len(all), all)
	}
	for _, file := range all {
		raw := repotest.Must(scenario.Read(filepath.Join(folder, file)))(t)
		set := map[string]string{}
		for _, flag := range atMost(t, raw) {
			if name, value, ok := strings.Cut(flag, "="); ok {
				set[name] = value
			}
		}
		for _, e := range census.Endings() {
			s := repotest.Must(scenario.Parse(file, []byte(dressed(string(raw), e)), set))(t)
			if impossible := func(o scenario.Objective) bool { return o.Name == "cannot hold" }; slices.ContainsFunc(s.Objectives, impossible) != e.Fails {
				t.Errorf("%s/%s: objectives %+v", file, e.Name, s.Objectives)
			}
		}
	}
}

// middle returns the name of a step in the midst of a scenario.
func middle(t *testing.T, file string) string {
	raw := repotest.Must(os.ReadFile(file))(t)
	var s struct{ Steps []struct{ Name string } }
	repotest.NoError(t, yaml.Unmarshal(raw, &s))
	for _, step := range s.Steps[len(s.Steps)/2:] {
		if step.Name != "" {
			return step.Name
		}
	}
	return ""
}

// flown is what is kept of a flight.
type flown struct {
	Refused     string   `json:",omitempty"`
	Code        int      `json:"code"`
	Seconds     int      `json:"seconds"`
	Faults      []string `json:",omitempty"`
	Differences []string `json:",omitempty"`
}

// flights are kept by "EXAMPLE ENDING".
type flights struct {
	mu sync.Mutex
	of map[string]flown
}

func readFlights(t *testing.T) map[string]flown {
	out := map[string]flown{}
	raw, err := os.ReadFile(os.Getenv("WINDTUNNEL_CENSUS"))
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

func (f *flights) fine(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.of[name]
	return ok && len(one.Faults)+len(one.Differences) == 0
}

// forget lets a flight be flown again.
func (f *flights) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, name)
}

func (f *flights) keep(t *testing.T, name string, one flown) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[name] = one
	path := os.Getenv("WINDTUNNEL_CENSUS")
	if path == "" {
		return
	}
	raw, err := json.MarshalIndent(f.of, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(raw, '\n'), 0o600)
	}
	repotest.NoError(t, err)
}

// table has a row for each example and a column for each ending: differences, exit code and
// seconds.
func (f *flights) table() string {
	var b strings.Builder
	endings := census.Endings()
	b.WriteString("| example |")
	for _, e := range endings {
		b.WriteString(" " + e.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(endings)) + "\n")
	examples := map[string]bool{}
	for name := range f.of {
		example, _, _ := strings.Cut(name, " ")
		examples[example] = true
	}
	for _, example := range slices.Sorted(maps.Keys(examples)) {
		b.WriteString("| " + example + " |")
		for _, e := range endings {
			b.WriteString(" " + f.cell(example+" "+e.Name) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (f *flights) cell(name string) string {
	o, ok := f.of[name]
	switch {
	case !ok:
		return ""
	case o.Refused != "":
		return "refused"
	}
	out := fmt.Sprintf("%d (exit %d, %d s)", len(o.Differences), o.Code, o.Seconds)
	if len(o.Faults) > 0 {
		out += ", " + strings.Join(o.Faults, ", ")
	}
	return out
}

// census counts the cluster's objects once its controllers have nothing left to do.
func (l *land) census(t *testing.T) (now census.Census) {
	repotest.Eventually(t, "two censuses agree", func() bool {
		before, err := now, error(nil)
		if now, err = census.Take(t.Context(), l.kubeconfig); err != nil {
			t.Fatal(err)
		}
		return before != nil && maps.Equal(before, now)
	})
	return now
}

// mustLive holds that the cluster is still there after a flight. The next flight has another one:
// what would be refused for want of a cluster is not refused by windtunnel.
func (l *land) mustLive(t *testing.T, flight string) {
	select {
	case <-l.ended:
		t.Errorf("the cluster ended by itself:\n%s", l.said())
		l.kubeconfig, l.before = "", nil
		l.flights.forget(flight)
	default:
	}
}

// boot starts the plane that stands for somebody else's cluster.
func (l *land) boot(t *testing.T) {
	t.Helper()
	cmd := exec.Command(l.bin, "up", "--nodes", "2")
	said := census.Start(t, cmd, filepath.Join(l.dir, "said"))
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	l.ended, l.said = ended, said
	l.stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	}
	repotest.Eventually(t, "up prints its kubeconfig", func() bool {
		_, line, _ := strings.Cut(said(), "export KUBECONFIG=")
		line, _, whole := strings.Cut(line, "\n")
		if whole {
			l.kubeconfig = line
		}
		return whole
	}, func() any { return said() })
}
