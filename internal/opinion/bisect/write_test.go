package bisect

import (
	"errors"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestDescribe(t *testing.T) {
	p := Plan{Changes: []Change{{Name: "a"}, {Name: "v", To: "2", Chain: "v"}, {Name: "v", To: "3", Chain: "v"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}}}
	for _, c := range []struct {
		with []int
		want string
	}{
		{nil, "good"},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, "bad"},
		{[]int{0, 1, 2}, "a, v=3"},
		{[]int{1, 2, 3, 4, 5, 6, 7}, "all but a"},
		{[]int{0, 3, 4, 5}, "4 of 8 changes"},
	} {
		if got := p.Describe(c.with); got != c.want {
			t.Errorf("%v: %s, want %s", c.with, got, c.want)
		}
	}
}

// The page has the answer, the figures of both sides, the curve and the command, in each form.
func TestWrite(t *testing.T) {
	w := world{changes: 6, culprits: []int{3}, effect: 0.1, noise: 0.003, counter: true}
	f := File{File: "s.yaml", Search: *w.fly(2, DefaultRuns)}
	f.Search.Measures["m"] = Measure{Title: "LIST pods", Unit: "calls", Counter: true}
	f.Setup = Setup{Scenario: "s", Set: map[string]string{"rate": "1 000"}, Sides: Sides{Good: map[string]string{"p3": "0", "p4": "0"}}}
	f.Result = Conclude(&f.Search)
	for _, markdown := range []bool{false, true} {
		var out strings.Builder
		repotest.NoError(t, f.Write(&out, markdown))
		for _, want := range []string{"LIST pods", "more in bad", "windtunnel ab s.yaml --a p3=0 --b p3=1 --measure 'LIST pods' --set 'rate=1 000' --set p4=0", "p3", "cause", "all but p3"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in:\n%s", want, out.String())
			}
		}
	}
}

// Another search's runs are not taken over; a damaged file is an error.
func TestStates(t *testing.T) {
	a, b := File{}, File{}
	b.Search.Runs = []Run{{}}
	if err := a.Resume(b); err != nil || len(a.Search.Runs) != 1 {
		t.Errorf("alike: %v", err)
	}
	b.Setup.Seed = 3
	if err := a.Resume(b); !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), "another seed") {
		t.Errorf("another seed: %v", err)
	}
	for raw, want := range map[string]string{
		`{"format":1`: "f:1: not JSON: it ends too early", `{"format":2}`: "format 2", `{"format":1,"search":{"runs":[{"pair":3}]}}`: "of no pair",
		`{"format":1,"search":{"runs":[{"with":[4]}]}}`: "not listed",
	} {
		if _, err := ReadFile("f", []byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
