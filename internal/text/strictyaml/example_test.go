package strictyaml_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

type load struct {
	Rate   float64           `yaml:"rate"`
	Labels map[string]string `yaml:"labels"`
	Then   []load            `yaml:"then"`
}

// decoder is a small language: its scalars are what YAML makes of them.
func decoder(report func(line int, at strictyaml.Place, text string)) *strictyaml.Decoder {
	d := &strictyaml.Decoder{Report: report, Lines: map[string]int{}, Budget: 1000, MaxDepth: 8}
	d.Dialect = strictyaml.Dialect{
		NotMapping: "{name}: {value} is not a mapping",
		NotList:    "{name}: {value} is not a list",
		NotSingle:  "{name}: {value} is not one value",
		NotName:    "{name}: {value} is not a name",
		NoMerge:    "{name}: no merge keys",
		Unknown:    "field {key} not found in {name}{near}",
		Twice:      "field {key} stands twice in {name}, first on line {first}",
		TooMany:    "too many values",
		TooDeep:    "{name}: too deep",
		Show:       func(n *yaml.Node) string { return n.Value },
		Near:       text.DidYouMean,
		Scalar: func(n *yaml.Node, v reflect.Value, at strictyaml.Place) {
			if d.Single(n, at) && n.Decode(v.Addr().Interface()) != nil {
				d.Report(n.Line, at, at.Name+" is not a "+v.Kind().String())
			}
		},
	}
	return d
}

func Example() {
	root, err := strictyaml.First([]byte("rate: 10\nratee: 20\nthen:\n- rate: fast\n"))
	if err != nil {
		fmt.Println(strictyaml.Syntax(nil, err))
		return
	}
	var x load
	d := decoder(func(line int, _ strictyaml.Place, text string) { fmt.Printf("line %d: %s\n", line, text) })
	d.Value(root, reflect.ValueOf(&x).Elem(), strictyaml.Place{Name: "load"})
	fmt.Println(x.Rate, d.Lines["then[0].rate"])
	// Output:
	// line 2: field "ratee" not found in load (did you mean "rate"?)
	// line 4: then.rate is not a float64
	// 10 4
}

func TestDecoder(t *testing.T) {
	merges := func(d *strictyaml.Decoder) { d.Merge = true }
	for _, tt := range []struct {
		name, text string
		change     func(*strictyaml.Decoder)
		want       []string // errors, then the value
	}{
		{"twice", "rate: 1\nrate: 2", nil, []string{`2 rate: field "rate" stands twice in load, first on line 1`, "{1 map[] []}"}},
		{"the last wins", "rate: 1\nrate: 2", func(d *strictyaml.Decoder) { d.LastWins = true }, []string{"{2 map[] []}"}},
		{"any case", "RATE: 1", func(d *strictyaml.Decoder) { d.Fold = true }, []string{"{1 map[] []}"}},
		{"no merge keys", "<<: {rate: 1}", nil, []string{"1 : load: no merge keys", "{0 map[] []}"}},
		{"its own wins over what is merged", "rate: 1\n<<: [{rate: 2, labels: {a: b}}, {labels: {c: d}}]", merges, []string{"{1 map[a:b] []}"}},
		{"a merge of itself", "<<: &a {rate: 3, <<: *a}", merges, []string{"1 : load: too deep", "{3 map[] []}"}},
		{"no name", "? [a]\n: 1", nil, []string{"1 : load:  is not a name", "{0 map[] []}"}},
		{"other shapes", "rate: [1]\nlabels: [a]\nthen: {a: b}", nil,
			[]string{"1 rate: rate:  is not one value", "2 labels: labels:  is not a mapping", "3 then: then:  is not a list", "{0 map[] []}"}},
		{"null says nothing", "rate: null\nthen: ~", nil, []string{"{0 map[] []}"}},
		{"a key of a map", "labels: {a.b: c, a.b: d}", func(d *strictyaml.Decoder) { d.KeyLines = true },
			[]string{`1 labels["a.b"]: field "a.b" stands twice in labels, first on line 1`, "{0 map[a.b:c] []}"}},
		{"too many", "then: [{rate: 1}, {rate: 2}, {rate: 3}]", func(d *strictyaml.Decoder) { d.Budget = 6 },
			[]string{"1 : too many values", "{0 map[] [{1 map[] []} {0 map[] []} {0 map[] []}]}"}},
		{"too deep", "then: [{then: [{then: [{then: [{rate: 1}]}]}]}]", nil, []string{"1 then[0].then[0].then[0].then[0].rate: then.then.then.then.rate: too deep", "{0 map[] [{0 map[] [{0 map[] [{0 map[] [{0 map[] []}]}]}]}]}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := repotest.Must(strictyaml.First([]byte(tt.text)))(t)
			var got []string
			var x load
			d := decoder(func(line int, at strictyaml.Place, text string) {
				got = append(got, fmt.Sprintf("%d %s: %s", line, at.Path, text))
			})
			if tt.change != nil {
				tt.change(d)
			}
			d.Value(root, reflect.ValueOf(&x).Elem(), strictyaml.Place{Name: "load"})
			if got = append(got, fmt.Sprint(x)); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
