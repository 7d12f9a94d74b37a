package atlas

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const helpText = `
      --feature-gates colonSeparatedMultimapStringString   Comma-separated list. Options are:
                                                           kube:APIServerIdentity=true|false (BETA - default=true)
                                                           kube:AllAlpha=true|false (ALPHA - default=false)
                                                           kube:AllBeta=true|false (BETA - default=false)
                                                           kube:CBORServingAndStorage=true|false (ALPHA - default=false)
    LeaseCheckpoint=true|false (ALPHA - default=false)
`

func TestGatesOfHelpTexts(t *testing.T) {
	a, b := ParseHelp("kube-apiserver", helpText), ParseHelp("kube-scheduler", strings.ReplaceAll(helpText, "LeaseCheckpoint", "Other"))
	got, err := Merge(a, b)
	want := "[{APIServerIdentity beta true [kube-apiserver kube-scheduler]} {CBORServingAndStorage alpha false [kube-apiserver kube-scheduler]} " +
		"{LeaseCheckpoint alpha false [kube-apiserver]} {Other alpha false [kube-scheduler]}]"
	if fmt.Sprint(got) != want || err != nil {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
	if _, err := Merge(a, ParseHelp("etcd", strings.ReplaceAll(helpText, "default=true", "default=false"))); !errors.Is(err, ErrTwoDefaults) {
		t.Errorf("two defaults: %v", err)
	}
	if !SaysLocked("cannot set feature gate X to false, feature is locked to true") || SaysLocked("address already in use") {
		t.Error("SaysLocked")
	}
}

// What a component says of gates that need others tells which are turned together.
func TestTogether(t *testing.T) {
	const words = `run.go:72] "command failed" err="UnknownVersionInteroperabilityProxy is enabled, but depends on features that are disabled: [APIServerIdentity Other]"`
	for _, c := range []struct {
		gate  Gate
		words string
		want  string
	}{
		{Gate{Name: "APIServerIdentity", Default: true}, words, "[UnknownVersionInteroperabilityProxy=false]"},
		{Gate{Name: "UnknownVersionInteroperabilityProxy"}, words, "[APIServerIdentity=true Other=true]"},
		{Gate{Name: "UnknownVersionInteroperabilityProxy", Default: true}, words, "[]"},
		{Gate{Name: "APIServerIdentity", Default: true}, "address already in use", "[]"},
	} {
		if got := fmt.Sprint(c.gate.Together(c.words)); got != c.want {
			t.Errorf("%s: %s, want %s", c.gate.Name, got, c.want)
		}
	}
}

func TestLastWords(t *testing.T) {
	for reason, want := range map[string]string{
		"no plane": "no plane",
		"kube-apiserver died; the last of x.log:\n  I1127 20:58:24.6 71 a.go:1] fine\n  F1127 20:58:24.661925    7151 hooks.go:203] hook failed\nrun directory: x": "hooks.go:203] hook failed",
	} {
		if got := LastWords(reason); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// runOf makes a run of ten pods with this many LIST requests, and so much allocated a pod.
func runOf(lists, allocated float64) compare.Run {
	counters := []compare.Count{{Name: "created: pods", Unit: "objects", Value: 10}, {Name: "allocated: kube-apiserver", Unit: "bytes/pod", Value: allocated}}
	if lists > 0 {
		counters = append(counters, compare.Count{Name: "server: LIST leases.coordination.k8s.io", Unit: "requests", Value: lists})
	}
	return compare.Run{Facts: &compare.Facts{Counters: counters}}
}

func runsOf(lists float64, allocated ...float64) (out []compare.Run) {
	for _, a := range allocated {
		out = append(out, runOf(lists, a))
	}
	return out
}

func TestScreen(t *testing.T) {
	defaults := runsOf(10, 100e3, 101e3, 102e3, 103e3, 104e3, 105e3)
	for _, c := range []struct {
		what   string
		turned []compare.Run
		on     bool // the gate's default
		want   string
	}{
		{"the same", runsOf(10, 103e3, 104e3), false, "[]"},
		{"beyond the range by less than its width", runsOf(10, 109e3, 109e3), false, "[]"},
		{"one run beyond", runsOf(10, 103e3, 200e3), false, "[]"},
		{"two fewer requests", runsOf(8, 103e3, 104e3), false, "[]"},
		{"allocates more", runsOf(10, 112e3, 113e3), false, "[{allocated: kube-apiserver bytes 1.025e+06 1.125e+06}]"},
		{"requests that are new", runsOf(15, 103e3, 103e3), false, "[{server: LIST leases.coordination.k8s.io requests 10 15}]"},
		{"requests that are gone without the gate", runsOf(0, 103e3, 103e3), true, "[{server: LIST leases.coordination.k8s.io requests 0 10}]"},
	} {
		if got := fmt.Sprint(Screen(defaults, c.turned, Gate{Default: c.on})); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// A counter that moved by chance does not move in the same direction again in fresh runs.
func TestConfirm(t *testing.T) {
	screened := []Moved{{"allocated: kube-apiserver", "bytes", 1e6, 2e6}}
	off, more := runsOf(1, 100e3, 101e3, 99e3, 100e3, 100e3), runsOf(1, 102e3, 103e3, 104e3, 102e3, 105e3)
	for _, c := range []struct {
		off, on []compare.Run
		want    int
	}{{off, more, 1}, {more, off, 0}, {off, off, 0}} {
		if got := Confirm(screened, c.off, c.on); len(got) != c.want {
			t.Errorf("%v, want %d", got, c.want)
		}
	}
}

func TestNewKinds(t *testing.T) {
	if got := fmt.Sprint(NewKinds(runsOf(0, 1, 1), runsOf(3, 1, 1))); got != "[leases.coordination.k8s.io]" {
		t.Error(got)
	}
	if got := NewKinds(runsOf(2, 1), runsOf(3, 1)); len(got) != 0 {
		t.Error(got)
	}
	if got := NewKinds(runsOf(0, 1), append(runsOf(3, 1), runOf(0, 1))); len(got) != 0 {
		t.Errorf("in one run only: %v", got)
	}
}

// What was not measured is never answered with no.
func TestAnswers(t *testing.T) {
	list := Moved{"server: LIST leases.coordination.k8s.io", "requests", 0, 15}
	for _, c := range []struct {
		e    Entry
		n    int // of the question
		want string
	}{
		{Entry{State: Still, Runs: 2}, 0, "No counter of requests moved."},
		{Entry{State: Still, Runs: 2}, 4, "Times, CPU and memory were not measured, because no counter moved in 2 runs."},
		{Entry{State: Movement, Counters: []Moved{list}}, 0, "server: LIST leases.coordination.k8s.io: 0 requests -> 15 requests (new)."},
		{Entry{State: Movement, NewKinds: []string{"widgets"}}, 1, "Requests name these kinds only with it on: widgets."},
		{Entry{State: Movement}, 2, "Not measured: the control plane runs without a cloud provider."},
		{Entry{State: Movement, Counters: []Moved{{"keys written: etcd", "keys", 100, 150}}}, 3, "keys written: etcd: 100 keys -> 150 keys (+50 %)."},
		{Entry{State: Movement, Costs: []Moved{{"p99 pod startup", "seconds", 1, 2}}}, 4, "p99 pod startup: 1 s -> 2 s (×2)."},
		{Entry{State: Movement, Costs: []Moved{{"peak memory of etcd", "bytes", 1 << 20, 1 << 21}}}, 4, "No latency or rate differs beyond chance."},
		{Entry{State: Movement, Costs: []Moved{{"peak memory of etcd", "bytes", 1 << 20, 1 << 21}}}, 5,
			"No counter of allocations, calls to etcd or bytes written moved. peak memory of etcd: 1 MiB -> 2 MiB (×2)."},
		{Entry{State: Movement}, 6, "Not measured: nodes are simulated."},
		{Entry{State: NotStarted}, 0, "Not measured: did not start."},
		{Entry{State: Locked}, 1, "Not measured: locked."},
		{Entry{State: Unknown}, 5, "Not measured: not measured."},
	} {
		if got := c.e.Answers()[c.n].Answer; got != c.want {
			t.Errorf("%s, question %d: %q, want %q", c.e.State, c.n+1, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	f := File{Asked: 3, Defaults: []float64{100, 50, 0, 1000}, Spread: []float64{0.02, 0, 0, 0.01}, Entries: []Entry{
		{Gate: Gate{"B", "beta", true, nil}, State: Movement, Sums: []float64{50, 50, 0, 1000}, Costs: []Moved{{}}},
		{Gate: Gate{"A", "alpha", false, nil}, State: Still, Sums: []float64{101, 50, 0, 2000}},
	}}
	var b strings.Builder
	repotest.NoError(t, f.Write(&b, true))
	for _, want := range []string{"2 of 3 gates flown", "| A | alpha | off | no counter moved | – | – |  | ×2 | not measured |", "| B | beta | on | moved | ×2 | – |  | – | 1 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
}

func TestResume(t *testing.T) {
	for _, c := range []struct {
		change func(*File)
		want   string
	}{
		{func(f *File) { f.Asked = 7 }, ""},
		{func(f *File) { f.Setup.Set = map[string]string{"nodes": "5"} }, "another set of parameters"},
		{func(f *File) { f.Setup.Text = "x" }, "another scenario's text"},
		{func(f *File) { f.Setup.Components = []string{"etcd"} }, "another set of components"},
	} {
		f := File{}
		c.change(&f)
		err := f.Resume(File{Entries: []Entry{{}}})
		if c.want == "" && (err != nil || len(f.Entries) != 1) || c.want != "" && (!errors.Is(err, ErrOther) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := ReadFile("x", []byte(`{"format": 9}`)); err == nil {
		t.Error("another format is read")
	}
}

// Of the counters that differ beyond chance, those move that differ by 2 % and 3 counts.
func TestCompared(t *testing.T) {
	allocated, list := compare.Counter{Name: "allocated: kube-apiserver", Unit: "bytes/pod", Shown: true}, compare.Counter{Name: "server: LIST leases.coordination.k8s.io", Unit: "requests", Shown: true}
	for _, c := range []struct {
		what    string
		shown   []compare.Counter
		off, on []compare.Run
		want    string
	}{
		{"new requests", []compare.Counter{list}, runsOf(0, 1, 1), runsOf(15, 1, 1), "[{server: LIST leases.coordination.k8s.io requests 0 15}] [leases.coordination.k8s.io]"},
		{"totals of counters for each pod", []compare.Counter{allocated}, runsOf(1, 100, 100), runsOf(1, 110, 110), "[{allocated: kube-apiserver bytes 1000 1100}] []"},
		{"one percent", []compare.Counter{allocated}, runsOf(1, 100, 100), runsOf(1, 101, 101), "[] []"},
		{"two requests", []compare.Counter{list}, runsOf(1, 1), runsOf(3, 1), "[] []"},
		{"not beyond chance", []compare.Counter{{Name: list.Name, Unit: list.Unit}}, runsOf(1, 1), runsOf(30, 1), "[] []"},
	} {
		e := Compared("x", c.off, c.on, &compare.Comparison{Counters: c.shown})
		if got := fmt.Sprint(e.Counters, e.NewKinds); got != c.want || e.State != Movement || e.Runs != len(c.off)+len(c.on) {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
