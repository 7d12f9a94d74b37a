package expression

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const subject = `{
	"apiVersion": "v1", "kind": "Pod",
	"metadata": {"name": "p", "creationTimestamp": "2026-01-02T03:04:00Z", "annotations": {"a/b": "7", "e": ""},
		"ownerReferences": [{"kind": "Job"}, {"kind": "X"}]},
	"spec": {"n": 3, "big": 1000000, "f": 1.5, "yes": true, "no": null, "list": ["a", 1, null], "nodeName": "node",
		"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
	"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "B", "status": "False"}], "odd": ["text", {"type": "Ready"}]}
}`

func tree(t testing.TB, raw string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	repotest.NoError(t, d.Decode(&out))
	return out
}

func TestRequirements(t *testing.T) {
	whole := object.Of(tree(t, subject))
	for _, c := range []struct {
		key      string
		operator Operator
		values   string
		want     bool
		direct   bool
	}{
		{".status.phase", In, "Pending Running", true, true},
		{".status.phase", NotIn, "Pending Running", false, true},
		{".status.absent", In, "x", false, true},
		{".status.absent", NotIn, "x", true, true},
		{".status.absent.deeper", DoesNotExist, "", true, true},
		{".status.phase.deeper", Exists, "", false, true},
		{".status.phase.deeper", DoesNotExist, "", true, true},
		{".metadata.deletionTimestamp", DoesNotExist, "", true, true},
		{`.metadata.annotations["a/b"]`, In, "7", true, true},
		{`.metadata.annotations.e`, Exists, "", true, true},
		{".metadata.ownerReferences.[].kind", In, "Job", true, true},
		{".metadata.ownerReferences[].kind", NotIn, "Job", false, true},
		{".metadata.ownerReferences[] | .kind", In, "Y", false, true},
		{`.status.conditions.[] | select( .type == "Ready" ) | .status`, In, "True", true, true},
		{`.status.conditions[] | select(.type == "C") | .status`, NotIn, "True", true, true},
		{`.status.conditions[] | select(.type != "Ready").status`, In, "False", true, true},
		{`.status.odd[] | select(.type == "Ready") | .type`, In, "Ready", false, true}, // an error finds nothing
		{`.status.phase[] `, Exists, "", false, true},
		{".spec.n", In, "3", false, true}, // JSON numbers are compared with nothing
		{".spec.n", Exists, "", true, true},
		{".spec.yes", In, "true", true, true},
		{".spec.no", Exists, "", false, true},
		{".spec.list[]", In, "a", true, true},
		{".metadata.annotations[]", In, "7", true, true},
		{".spec.list | length", In, "3", true, false},
		{".spec.containers[0].name", In, "c", true, false},
		{".metadata.ownerReferences[]?.kind", In, "Job", true, false},
		{".nothing[]?", DoesNotExist, "", true, false},
		{`.status.phase | error`, DoesNotExist, "", true, false},
	} {
		q := repotest.Must(Compile(c.key))(t)
		r := Requirement{Query: q, Operator: c.operator, Values: strings.Fields(c.values)}
		if got := r.Matches(whole); got != c.want || q.Direct() != c.direct {
			t.Errorf("%s %s %s: %v, direct %v", c.key, c.operator, c.values, got, q.Direct())
		}
	}
}

// TestDirectIsGojq compares the direct walk with gojq on objects made by chance.
func TestDirectIsGojq(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	hits := 0
	for _, src := range []string{".a", ".a.b", ".a[]", ".a[].b", `.a[] | select(.b == "x") | .a`, `.[] | select(.a.b != "x")`, ".[].[].b", `."a"["b"]`, "."} {
		direct, err := Compile(src)
		if err != nil || !direct.Direct() {
			t.Fatalf("%s: direct %v, %v", src, direct.Direct(), err)
		}
		parsed, _ := gojq.Parse(src)
		runs := repotest.Must(newProgramPool(parsed))(t)
		slow := &Query{runs: runs}
		for range 3000 {
			tree := somewhere(rng, 4)
			thing := object.Of(tree)
			for _, o := range []Operator{In, NotIn, Exists, DoesNotExist} {
				values := []string{"x", "true"}
				a := (&Requirement{direct, o, values}).Matches(thing)
				if b := (&Requirement{slow, o, values}).Matches(thing); a != b {
					t.Fatalf("%s %s on %v: direct %v, gojq %v", src, o, tree, a, b)
				}
				if a && o == In {
					hits++
				}
			}
			v, ok := direct.First(thing)
			w, also := slow.First(thing)
			a, _ := v.Tree()
			b, _ := w.Tree()
			if ok != also || gojq.Compare(a, b) != 0 {
				t.Fatalf("%s on %v: first %v %v, gojq %v %v", src, tree, a, ok, b, also)
			}
		}
	}
	if hits < 200 {
		t.Errorf("only %d hits", hits)
	}
}

func somewhere(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(9); {
	case n < 4 && depth > 0:
		m := map[string]any{}
		for _, key := range []string{"a", "b", "c"} {
			if rng.IntN(3) > 0 {
				m[key] = somewhere(rng, depth-1)
			}
		}
		return m
	case n < 6 && depth > 0:
		list := []any{}
		for range rng.IntN(3) {
			list = append(list, somewhere(rng, depth-1))
		}
		return list
	case n == 6:
		return nil
	case n == 7:
		return rng.IntN(2) == 0
	case n == 8:
		return json.Number("4")
	}
	return []string{"x", "y"}[rng.IntN(2)]
}

func TestExample(t *testing.T) {
	for _, src := range []string{".a.b", ".a[].b", `.status.conditions[] | select(.type == "Ready") | .status`, `.metadata.labels["x/y"]`} {
		q := repotest.Must(Compile(src))(t)
		made := map[string]any{}
		if !q.Example(made, "v") || !(&Requirement{q, In, []string{"v"}}).Matches(object.Of(made)) {
			t.Errorf("%s: %v", src, made)
		}
	}
}

func moment() Moment {
	return Moment{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Rand: rand.New(rand.NewPCG(1, 1))}
}

func TestCEL(t *testing.T) {
	pod := repotest.Must(NewLanguage("v1", "Pod"))(t)
	other := repotest.Must(NewLanguage("v1", "Thing"))(t)
	object := tree(t, subject)
	for _, c := range []struct {
		src   string
		typed string // what it gives for a Pod
		plain string // and for a kind without a known type
	}{
		{`self.status.phase == "Running"`, "true", "true"},
		{`self.status.reason == ""`, "true", "cel: no such key: reason"},
		{`has(self.metadata.deletionTimestamp)`, "false", "false"},
		{`has(self.spec.nodeName) && !has(self.status.reason)`, "true", "true"},
		{`self.SinceSecond() == 5.0 && SinceSecond(self) > 4.0`, "true", "true"},
		{`UnixSecond(Now()) == 1767323045.0 && Now().UnixSecond() > 1.0`, "true", "true"},
		{`Rand() != Rand() && Rand() < 1.0`, "true", "true"},
		{`Quantity("1Gi") > Quantity("512Mi") && Quantity("1") == Quantity("1000m")`, "true", "true"},
		{`Quantity("2") * 3 / 2 - Quantity("1") + Quantity("500m") == "2500m".Quantity()`, "true", "true"},
		{`self.spec.containers[0].resources.requests["cpu"] < Quantity("1")`, "true", "cel: no such overload"},
		{`self.spec.containers.all(c, c.name != "")`, "true", "true"},
		{`self.metadata.annotations["a/b"] == "7"`, "true", "true"},
		{`self.metadata.ownerReferences.exists(o, o.kind == "Job")`, "true", "true"},
		{`self.spec.hostNetwork`, "false", "cel: no such key: hostNetwork"},
		{`self.status.phase`, "cel: gives string, want true or false", "cel: gives string, want true or false"},
		{`Quantity("many") == Quantity("1")`, `cel: "many" is not a quantity such as 500m or 2Gi`, `cel: "many" is not a quantity such as 500m or 2Gi`},
		{`timestamp("2026-01-02T03:04:05Z") == Now()`, "true", "true"},
	} {
		for l, want := range map[*Language]string{pod: c.typed, other: c.plain} {
			p, err := l.Compile(c.src, true)
			if err != nil {
				t.Errorf("%s: %v", c.src, err)
				continue
			}
			got, err := p.Bool(object, moment())
			text := map[bool]string{true: "true", false: "false"}[got]
			if err != nil {
				text = err.Error()
			}
			if text != want {
				t.Errorf("%s: got %s, want %s", c.src, text, want)
			}
		}
	}
	number := repotest.Must(other.Compile("self.spec.big + self.spec.n", false))(t)
	if n, err := number.Int(object, moment()); n != 1000003 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestCELFaults(t *testing.T) {
	l := repotest.Must(NewLanguage("v1", "Pod"))(t)
	for src, want := range map[string]string{
		"self.":    "cel: Syntax error: no viable alternative at input '.' (column 6)",
		"1 + 2":    "cel: gives int, want true or false",
		"itself.a": "cel: undeclared reference to 'itself' (in container '') (column 1)",
		"Now(1)":   "cel: undeclared reference to 'Now' (in container '') (column 4)",
		"'a' == 1": "cel: found no matching overload for '_==_' applied to '(string, int)' (column 5)",
	} {
		if _, err := l.Compile(src, true); err == nil || err.Error() != want {
			t.Errorf("%s: %v", src, err)
		}
	}
	if _, err := Compile(".a["); err == nil || !strings.HasPrefix(err.Error(), `jq ".a["`) {
		t.Errorf("%v", err)
	}
	if _, err := Compile("nosuch(.)"); err == nil || !strings.Contains(err.Error(), "function not defined: nosuch/1") {
		t.Errorf("%v", err)
	}
}

func TestCELDurations(t *testing.T) {
	l := repotest.Must(NewLanguage("v1", "Thing"))(t)
	for src, want := range map[string]time.Duration{
		`"1.5s"`:                            1500 * time.Millisecond,
		`"2026-01-02T03:04:15Z"`:            10 * time.Second,
		`duration("2m")`:                    2 * time.Minute,
		`Now() + duration("3s")`:            3 * time.Second,
		`self.spec.n * 1000000000`:          3 * time.Second,
		`timestamp("2026-01-02T03:04:06Z")`: time.Second,
	} {
		p := repotest.Must(l.Compile(src, false))(t)
		if got, err := p.Duration(tree(t, subject), moment()); got != want || err != nil {
			t.Errorf("%s: %v, %v", src, got, err)
		}
	}
	p := repotest.Must(l.Compile(`"soon"`, false))(t)
	if _, err := p.Duration(nil, moment()); err == nil || err.Error() != `cel: "soon": neither a time such as 2026-01-02T15:04:05Z nor a duration such as 1.5s` {
		t.Errorf("%v", err)
	}
}

// TestRunaway shows that an expression without an end ends, and finds nothing.
func TestRunaway(t *testing.T) {
	for _, src := range []string{"def f: f; f", "repeat(.)", "[range(infinite)] | length", "1, repeat(1)"} {
		q := repotest.Must(Compile(src))(t)
		if v, ok := q.First(object.Of(map[string]any{})); ok {
			t.Errorf("%s: %v", src, v)
		}
	}
}

func BenchmarkRequirement(b *testing.B) {
	whole := object.Of(tree(b, subject))
	for name, src := range map[string]string{
		"direct": `.status.conditions[] | select(.type == "Ready") | .status`,
		"gojq":   `.status.conditions[]? | select(.type == "Ready") | .status`,
	} {
		q := repotest.Must(Compile(src))(b)
		r := Requirement{q, In, []string{"True"}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !r.Matches(whole) {
					b.Fatal("no match")
				}
			}
		})
	}
}
