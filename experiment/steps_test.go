package experiment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/load"
	"github.com/windtunnel/windtunnel/scenario"
	"github.com/windtunnel/windtunnel/wire"
)

// random is a scenario whose bodies depend on the seed in every way there is.
const random = `scenario: random
namespaces: {count: 3}
bodies:
  map:
    text: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}"}
      data: {a: "{{ payload 200 }}", b: "{{ randAlpha 10 }}", c: "{{ randInt 1 1000 }}", d: "{{ .Index }}"}
steps:
- name: first
  create: {body: map, count: 300, pace: {poisson: 100}}
- name: second
  create: {body: map, count: 300, pace: {poisson: 100}}
`

// requests returns a digest of what each create step sends: due times, paths
// and bodies, in order.
func requests(t *testing.T, file string, seed uint64) map[string]string {
	t.Helper()
	sc, err := scenario.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	sc.Seed = seed
	r := &run{scenario: sc, options: Options{File: file}}
	all, err := r.compile()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range sc.Steps {
		if s.Create == nil {
			continue
		}
		m := &made{resource: load.Resource{Name: "x", Root: "/api/v1", Plural: "x", Namespaced: true}, create: s.Create, name: s.Name, missing: map[int]bool{}}
		p := r.creation(m, all[s.Create.Body])
		sum := sha256.New()
		for i := range p.Count {
			var req wire.Request
			if ok, err := p.Build(i, nil, &req); !ok || err != nil {
				t.Fatal(ok, err)
			}
			fmt.Fprintf(sum, "%v %s %s %s\n", p.Pace.Due(i), req.Method, req.Path, req.Body)
		}
		out[s.Name] = fmt.Sprintf("%x", sum.Sum(nil))
	}
	return out
}

func TestSameSeedSameRequestsInTheSameOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "random.yaml")
	if err := os.WriteFile(file, []byte(random), 0o600); err != nil {
		t.Fatal(err)
	}
	first, again, other := requests(t, file, 7), requests(t, file, 7), requests(t, file, 8)
	for _, step := range []string{"first", "second"} {
		if first[step] != again[step] {
			t.Errorf("%s: the same seed gave other requests", step)
		}
		if first[step] == other[step] {
			t.Errorf("%s: another seed gave the same requests", step)
		}
	}
	if density := "../examples/density.yaml"; fmt.Sprint(requests(t, density, 1)) != fmt.Sprint(requests(t, density, 1)) {
		t.Error("density: the same seed gave other requests")
	}
}

func TestEachStepHasArrivalsOfItsOwn(t *testing.T) {
	r := &run{scenario: &scenario.Scenario{Seed: 1}}
	a, b := r.pacer("a", scenario.Pace{Poisson: 10}), r.pacer("b", scenario.Pace{Poisson: 10})
	if a.Due(5) == b.Due(5) {
		t.Error("two steps of random arrivals follow the same times")
	}
	if rate := r.pacer("c", scenario.Pace{Burst: true}).Rate(); !math.IsInf(rate, 1) {
		t.Errorf("a burst asks for %v calls a second", rate)
	}
}

func TestObjectsGoToAllNamespacesInTurn(t *testing.T) {
	r := &run{scenario: &scenario.Scenario{Namespaces: scenario.Namespaces{Prefix: "n", Count: 2}}}
	c := &scenario.Create{Name: "x"}
	got := ""
	for i := range 4 {
		got += r.namespace(c, i) + "/" + objectName(c, i) + " "
	}
	if want := "n-1/x-0 n-2/x-1 n-1/x-2 n-2/x-3 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.Namespace = "own"
	if got := r.namespace(c, 3); got != "own" {
		t.Errorf("a step's own namespace is not used: %s", got)
	}
}

func TestHowARunEnded(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "done"}, {fmt.Errorf("x: %w", ErrInterrupted), "interrupted"}, {errors.New("etcd died"), "failed: etcd died"},
	} {
		if got := endWord(tt.err); got != tt.want {
			t.Errorf("endWord(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
	boot := bootError{errors.New("no etcd")}
	if !errors.Is(boot, ErrBoot) || boot.Error() != "no etcd" {
		t.Errorf("boot error: %v", boot)
	}
}
