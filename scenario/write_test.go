package scenario_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// same compares two scenarios but for where they stood in a file, and for
// parameters and includes, which Write replaces by what they stand for.
func same(a, b *scenario.Scenario) bool { return reflect.DeepEqual(placeless(a), placeless(b)) }

func placeless(s *scenario.Scenario) *scenario.Scenario {
	out := &scenario.Scenario{} // a new value: without the unexported lines
	from, to := reflect.ValueOf(s).Elem(), reflect.ValueOf(out).Elem()
	for i := range from.NumField() {
		if tag := from.Type().Field(i).Tag.Get("yaml"); tag != "" && tag != "-" && tag != "parameters" && tag != "include" && tag != "fragments" {
			to.Field(i).Set(from.Field(i))
		}
	}
	out.Bodies = map[string]scenario.Body{}
	for name, b := range s.Bodies {
		b.Line = 0
		out.Bodies[name] = b
	}
	for step := range out.AllSteps() {
		step.Line = 0
	}
	for _, x := range out.Subjects {
		if x.Build != nil {
			x.Build.Folder = ""
		}
	}
	for i := range out.Objectives {
		out.Objectives[i].Line = 0
	}
	return emptied(reflect.ValueOf(out)).Interface().(*scenario.Scenario)
}

// emptied makes empty maps and lists nil: a file cannot tell them apart.
func emptied(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			emptied(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				emptied(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			emptied(v.Index(i))
		}
		if v.Len() == 0 {
			v.SetZero()
		}
	case reflect.Map:
		if v.Len() == 0 {
			v.SetZero()
		}
	}
	return v
}

func writtenAndRead(t *testing.T, s *scenario.Scenario) {
	t.Helper()
	var out bytes.Buffer
	repotest.NoError(t, scenario.Write(&out, s))
	again, err := scenario.Parse("f", out.Bytes(), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	if !same(s, again) {
		t.Errorf("not the same after\n%s\n%#v\n%#v", out.Bytes(), placeless(s), placeless(again))
	}
}

func TestWriteIsReadAsTheSame(t *testing.T) {
	files := repotest.Must(filepath.Glob("../examples/*.yaml"))(t)
	for _, file := range append(files, "testdata/everything.yaml") {
		s := repotest.Must(scenario.Load(file, nil))(t)
		writtenAndRead(t, s)
	}
}

func ExampleWrite() {
	s := scenario.Default()
	s.Name = "fill"
	s.Bodies = map[string]scenario.Body{"map": {Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Name }}\"}\ndata: {a: \"{{ .text }}\"}\n"}}
	s.Steps = []scenario.Step{
		{Name: "maps", Create: &scenario.Create{Body: "map", Count: 10, With: map[string]any{"text": "costs ${5}", "share": 2.0}, Pace: scenario.Pace{Constant: 5}}},
		{Pause: unit.Duration(5 * time.Minute)},
		{Scale: &scenario.Scale{Step: "maps", Pace: scenario.Pace{Burst: true}}},
	}
	s.Complete()
	if err := s.Validate(); err != nil {
		fmt.Println(err)
	}
	if err := scenario.Write(os.Stdout, &s); err != nil {
		fmt.Println(err)
	}
	// Output:
	// scenario: fill
	// bodies:
	//   map:
	//     text: |
	//       apiVersion: v1
	//       kind: ConfigMap
	//       metadata: {name: "{{ .Name }}"}
	//       data: {a: "{{ .text }}"}
	// steps:
	// - name: maps
	//   create:
	//     body: map
	//     count: 10
	//     with:
	//       share: 2.0
	//       text: costs $${5}
	//     pace: {constant: 5}
	// - pause: 5m
	// - scale:
	//     step: maps
	//     to: 0
	//     pace: {burst: true}
}

func TestWriteOfWhatNoFileHolds(t *testing.T) {
	s := scenario.Default()
	s.Name, s.Description = "x", "\xff"
	if err := scenario.Write(&bytes.Buffer{}, &s); !errors.Is(err, scenario.ErrNotText) {
		t.Error(err)
	}
}

func FuzzWrite(f *testing.F) {
	for _, file := range []string{"testdata/everything.yaml", "../examples/density.yaml"} {
		raw := repotest.Must(scenario.Read(file))(f)
		f.Add(raw)
	}
	for _, text := range []string{"a: b", " lead", "trail ", "two\nlines\n", "\n", "x\n\n\n", "no", "0x1", "1e3", "${", "$${a}", "#", "- a", "\x00", "a\tb", "é\u2028", "2020-01-01", "~", "''", "\"", "a \nb", "|", "{}", "!!x"} {
		f.Add(fmt.Appendf(nil, "scenario: x\ndescription: %q\nbodies: {b: {text: %[1]q}}\nsteps:\n- create: {body: b, count: 1, with: {a: %[1]q, b: [%[1]q]}, pace: {burst: true}}\n", text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := scenario.Parse("f", raw, nil); err == nil {
			writtenAndRead(t, s)
		}
	})
}
