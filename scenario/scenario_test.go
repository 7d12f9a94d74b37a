package scenario_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestBadFiles runs every testdata/*.bad.yaml: the lines "# want: " at its top
// are the exact messages that it must give, without "FILE:".
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		repotest.NoError(t, err)
		_, err = scenario.Load(file, nil)
		got := strings.ReplaceAll(fmt.Sprint(err), file+":", "")
		repotest.Golden(t, file, withMessages(raw, got))
	}
}

// withMessages puts messages at the top of a bad file. Where that adds lines, the
// messages' line numbers are right only after another -update.
func withMessages(raw []byte, messages string) string {
	var out strings.Builder
	for line := range strings.Lines(messages) {
		out.WriteString("# want: " + strings.TrimSpace(line) + "\n")
	}
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "# want: ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func ExampleParse() {
	_, err := scenario.Parse("load.yaml", []byte(`
scenario: load
parameters:
  nodes: 100
fleet:
  nodes: ${nodes / 3}
steps:
- create:
    body: pod
    coutn: 5
`), map[string]string{"nodes": "50"})
	fmt.Println(err)
	// Output:
	// load.yaml:6: fleet.nodes: ${nodes / 3} = 16.6667 is not a whole number (use ceil, floor or round)
	// load.yaml:10: field "coutn" not found in create (did you mean "count"?)
}

func TestEverything(t *testing.T) {
	s := repotest.Must(scenario.Load("testdata/everything.yaml", map[string]string{"nodes": "7", "word": "zone"}))(t)
	seconds := func(n float64) unit.Duration { return unit.Duration(n * float64(time.Second)) }
	for _, tt := range []struct{ got, want any }{
		{s.Description, "text with ${braces} and 3.5 nodes"},
		{s.Seed, uint64(7)},
		{s.Parameters, scenario.Parameters{"nodes": int64(5), "half": 3.5, "fast": true, "word": "text"}},
		{s.Values, map[string]any{"nodes": int64(7), "half": 3.5, "fast": true, "word": "zone"}},
		{s.Plane.Components["etcd"], scenario.Component{Flags: map[string]string{"snapshot-count": "10000", "experimental": "true"},
			Env: map[string]string{"GOGC": "200"}, CPU: 1.5, Memory: 512 << 20}},
		{s.Fleet, scenario.Fleet{Nodes: 7, Status: unit.Duration(6 * time.Hour), Rate: 50, Within: seconds(120), Labels: map[string]string{"zone": "zone-1"},
			Capacity: map[string]string{"cpu": "16", "memory": "256Gi", "pods": "110", "example.com/gpu": "1"},
			Spread:   map[string]int{"topology.kubernetes.io/zone": 3}, Stages: []string{"general", "volumes", "stages/own.yaml"}, StorageClasses: []string{"fast-disks"}, Traffic: "kubelet", Connections: 4, Taint: "none"}},
		{s.Namespaces, scenario.Namespaces{Prefix: "ns", Count: 2}},
		{s.Bodies["inline"].Text, "kind: K\nname: ${untouched} {{ .Name }}\n"},
		{line(t, "testdata/everything.yaml", s.Bodies["inline"].Line), "      kind: K"},
		{line(t, "testdata/everything.yaml", s.Bodies["other"].Line), "    file: bodies/other.yaml"},
		{line(t, "testdata/everything.yaml", s.Steps[3].Line), "- name: up"},
		{*s.Steps[0].Create, scenario.Create{Body: "inline", Count: 3, Name: "obj", Group: "grp", Namespace: "kube-system", Timeout: seconds(7),
			With: map[string]any{"text": "zone-x", "number": 3.5, "list": []any{int64(1), int64(7), map[string]any{"a": true}}}, Pace: scenario.Pace{Poisson: 3}}},
		{s.Steps[0].OnFailure, "continue"},
		{*s.Steps[1].Create, scenario.Create{Body: "other", Name: "create-2", Group: "create-2", Pace: scenario.Pace{Burst: true}, Timeout: seconds(30)}},
		{s.Steps[2].Pause, seconds(0.25)},
		{s.Steps[2].Name + " " + s.Steps[2].OnFailure, "pause-3 stop"},
		{*s.Steps[3].Wait, scenario.Wait{Pods: "grp", Are: "ready", Count: 2, Within: seconds(90), Unmet: scenario.UnknownRun}},
		{*s.Steps[4].Delete, scenario.Delete{Step: "fill", Pace: scenario.Pace{Constant: 2.5}, Propagation: "foreground", Timeout: seconds(1)}},
		{s.Objectives[0].Name, ""},
		{s.Objectives[1].Name, "pod startup"},
		{s.Objectives[2].Max, new(0.5)},
		{s.Objectives[2].Statistic, "p99"},
		{s.Published[0].Differences, "none"},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("got  %#v\nwant %#v", tt.got, tt.want)
		}
	}
	if err := s.Validate(); err != nil {
		t.Errorf("Validate of a loaded scenario: %v", err)
	}
}

// line returns the n-th line of a file.
func line(t *testing.T, file string, n int) string {
	t.Helper()
	raw := repotest.Must(os.ReadFile(file))(t)
	return strings.Split(string(raw), "\n")[n-1]
}

func TestDefaults(t *testing.T) {
	s, err := scenario.Parse("f.yaml", []byte("scenario: x\nbodies: {b: {text: t}}\nsteps:\n- name: s\n  create: {body: b, count: 1, pace: {burst: true}}\n"), nil)
	repotest.NoError(t, err)
	d := scenario.Default()
	if s.Seed != 1 || s.Plane.Durability != "memory" || !reflect.DeepEqual(s.Fleet, d.Fleet) || s.Fleet.Rate != 200 ||
		time.Duration(s.Fleet.Lease) != 40*time.Second || s.Namespaces != (scenario.Namespaces{Prefix: "x", Count: 1}) {
		t.Errorf("defaults: %+v", s)
	}
}

func TestDensity(t *testing.T) {
	for _, tt := range []struct {
		set                          map[string]string
		nodes, spaces, pods, latency int
		pace                         float64
	}{
		{nil, 100, 1, 3000, 100, 100.0 / 30},
		{map[string]string{"nodes": "250", "rate": "60"}, 250, 3, 7500, 250, 2},
		{map[string]string{"nodes": "1", "podsPerNode": "5"}, 1, 1, 5, 100, 20},
	} {
		s := repotest.Must(scenario.Load("../examples/density.yaml", tt.set))(t)
		if s.Fleet.Nodes != tt.nodes || s.Namespaces.Count != tt.spaces || s.Steps[1].Wait.Count != tt.pods ||
			s.Steps[2].Create.Count != tt.latency || s.Steps[0].Create.Pace.Constant != tt.pace {
			t.Errorf("%v: %+v", tt.set, s)
		}
	}
}

func TestSet(t *testing.T) {
	raw := []byte("scenario: x\nparameters: {n: 1, f: 1.5, b: false, s: text, e: \"${n * 2}\"}\nbodies: {b: {text: t}}\n" +
		"steps:\n- name: s\n  create: {body: b, count: \"${e}\", pace: {burst: true}}\n")
	for _, tt := range []struct {
		set  map[string]string
		want string // error, or the values
	}{
		{nil, "map[b:false e:2 f:1.5 n:1 s:text]"},
		{map[string]string{"n": "5", "f": "2", "b": "true", "s": "${n}"}, "map[b:true e:10 f:2 n:5 s:${n}]"},
		{map[string]string{"n": "1e3"}, "map[b:false e:2000 f:1.5 n:1000 s:text]"},
		{map[string]string{"e": "7"}, "map[b:false e:7 f:1.5 n:1 s:text]"},
		{map[string]string{"n": "1.5"}, "map[b:false e:3 f:1.5 n:1.5 s:text]"},
		{map[string]string{"n": "1.2"}, "--set n=1.2: create.count: ${e} = 2.4 is not a whole number (use ceil, floor or round) (f.yaml:6)"},
		{map[string]string{"f": "500ms"}, "map[b:false e:2 f:500ms n:1 s:text]"},
		{map[string]string{"n": ""}, `--set n=: "" is not a number, as parameter "n" (default 1) wants`},
		{map[string]string{"n": "1e300"}, `--set n=1e300: "1e300" is not a number, as parameter "n" (default 1) wants`},
		{map[string]string{"f": "NaN"}, `--set f=NaN: "NaN" is not a number, as parameter "f" (default 1.5) wants`},
		{map[string]string{"b": "yes"}, `--set b=yes: "yes" is not true or false, as parameter "b" (default false) wants`},
		{map[string]string{"m": "1", "zz": "1"}, "--set m=1: parameter \"m\" not found in f.yaml (did you mean \"n\"?); it has n, f, b, s and e\n" +
			"--set zz=1: parameter \"zz\" not found in f.yaml; it has n, f, b, s and e"},
	} {
		s, err := scenario.Parse("f.yaml", raw, tt.set)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(s.Values)
			// What was in force, recorded and given again, is in force again.
			again, err := scenario.Parse("f.yaml", raw, scenario.Settings(s.Values))
			if err != nil || !reflect.DeepEqual(again.Values, s.Values) {
				t.Errorf("%v: again %v %v", tt.set, again, err)
			}
		}
		if got != tt.want {
			t.Errorf("%v:\n got %s\nwant %s", tt.set, got, tt.want)
		}
	}
}

// TestSetBeyondABound names the parameter where nothing but its value is wrong.
func TestSetBeyondABound(t *testing.T) {
	raw := []byte("scenario: x\nparameters: {nodes: 1, pods: 2}\nfleet: {nodes: \"${nodes}\"}\nbodies: {b: {text: t}}\n" +
		"steps:\n- {name: up, create: {body: b, count: \"${pods}\", pace: {burst: true}}}\n- {wait: {pods: up, are: ready, count: \"${nodes * pods}\"}}\n")
	for _, tt := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"nodes": "-5"}, "--set nodes=-5: fleet.nodes: -5 is below 0 (f.yaml:3)"},
		{map[string]string{"nodes": "-5", "pods": "3"}, "--set nodes=-5: fleet.nodes: -5 is below 0 (f.yaml:3)"},
		{map[string]string{"nodes": "-5", "pods": "-3"}, "--set nodes=-5: fleet.nodes: -5 is below 0 (f.yaml:3)\n--set pods=-3: create.count: -3 is below 0 (f.yaml:6)"},
		{map[string]string{"nodes": "x"}, `--set nodes=x: "x" is not a number, as parameter "nodes" (default 1) wants`},
	} {
		if _, err := scenario.Parse("f.yaml", raw, tt.set); fmt.Sprint(err) != tt.want {
			t.Errorf("%v:\n got %v\nwant %s", tt.set, err, tt.want)
		}
	}
	bad := bytes.ReplaceAll(raw, []byte("are: ready"), []byte("are: redy"))
	if _, err := scenario.Parse("f.yaml", bad, map[string]string{"nodes": "-5"}); err == nil || !strings.HasPrefix(err.Error(), "f.yaml:3: ") {
		t.Errorf("a file that is wrong without --set: %v", err)
	}
}

func TestReadBody(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "in", "s.yaml")
	for name, text := range map[string]string{"in/b.yaml": "body", "secret": "secret", "in/big": strings.Repeat("x", 1<<20+1)} {
		repotest.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	repotest.NoError(t, os.Symlink("../secret", filepath.Join(dir, "in", "link")))
	var s scenario.Scenario
	for name, want := range map[string]string{
		"b.yaml": "", "link": "link: it leads out of the folder", "../secret": "leads out of the scenario's folder",
		"/etc/passwd": "leads out of the scenario's folder", "none": "none: no such file", "big": "big has more than 1 MiB",
	} {
		got, err := s.ReadBody(file, scenario.Body{File: name, Line: 12})
		switch {
		case want == "" && (err != nil || string(got) != "body"):
			t.Errorf("%s: %q %v", name, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), file+":12: body.file: ")):
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestLoadOfNoFile(t *testing.T) {
	if _, err := scenario.Load("testdata/none.yaml", nil); err == nil || !strings.HasPrefix(err.Error(), "read scenario: ") {
		t.Error(err)
	}
	if _, err := scenario.Parse("f", make([]byte, 4<<20+1), nil); fmt.Sprint(err) != "f:1: the file has more than 4194304 bytes" {
		t.Error(err)
	}
}

func TestValidateWithoutAFile(t *testing.T) {
	s := scenario.Default()
	s.Name = "x"
	s.Steps = []scenario.Step{{Name: "a", OnFailure: "stop"}}
	if got, want := fmt.Sprint(s.Validate()), "namespaces.prefix: a name is needed\nstep \"a\": exactly one of create, scale, update, churn, delete, "+
		"requests, probe, wait, pause, settle, fault, upgrade, exec, network, parallel, sequence and repeat is needed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A manifest of a stranger may set any number of parameters, and a scenario may have as
// many: what is said of them stays short.
func TestManyParametersAreCut(t *testing.T) {
	var file strings.Builder
	file.WriteString("scenario: x\nparameters:\n")
	set := map[string]string{}
	for i := range 2000 {
		fmt.Fprintf(&file, "  known_%d: 1\n", i)
		set[fmt.Sprint("unknown_", i)] = "1"
	}
	file.WriteString("steps: [{pause: 1s}]\n")
	_, err := scenario.Parse("f.yaml", []byte(file.String()), set)
	if err == nil {
		t.Fatal("no fault")
	}
	if said := err.Error(); len(said) > 100_000 || strings.Count(said, "\n") != 49 || !strings.Contains(said, "--set: 1951 more parameters are not found") || !strings.Contains(said, ", known_49 and 1950 more") {
		t.Errorf("%d bytes: %.2000s", len(said), said)
	}
}

func TestManyFaultsAreCut(t *testing.T) {
	_, err := scenario.Parse("f", []byte("scenario: x\n"+strings.Repeat("- ", 0)+strings.Repeat("zzzzzzzz: 1\n", 99)), nil)
	if n := strings.Count(err.Error(), "\n") + 1; n != 51 || !strings.HasSuffix(err.Error(), "f: and 49 more") {
		t.Errorf("%d lines, the last of %q", n, err)
	}
}

func FuzzParse(f *testing.F) {
	files := repotest.Must(filepath.Glob("testdata/*.yaml"))(f)
	for _, file := range append(files, "../examples/density.yaml") {
		raw, err := scenario.Read(file) // with what it includes
		if err != nil {
			raw, err = os.ReadFile(file)
		}
		repotest.NoError(f, err)
		f.Add(raw)
	}
	place := regexp.MustCompile(`^(f:|.+:\d+: )`) // of an included file, too
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := scenario.Parse("f", raw, nil)
		if (s == nil) == (err == nil) {
			t.Fatalf("%v and %v", s, err)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !place.MatchString(line) {
					t.Errorf("a line without a place: %q", line)
				}
			}
			return
		}
		again, err := scenario.Parse("f", raw, scenario.Settings(s.Values))
		if err != nil || !reflect.DeepEqual(again.Values, s.Values) {
			t.Errorf("with the same values: %v, %v and %v", err, again, s.Values)
		}
	})
}

// TestSetRelease names a release without a parameter for it. A parameter of that name
// keeps its meaning.
func TestSetRelease(t *testing.T) {
	for text, want := range map[string]scenario.Plane{
		"":                            {Release: "v1.36.3", Etcd: "v3.6.12"},
		"plane: {release: v1.37.1}\n": {Release: "v1.36.3", Etcd: "v3.6.12"},
		"parameters: {release: folder}\nplane: {binaries: \"${release}\"}\n": {Binaries: "v1.36.3"},
	} {
		set := map[string]string{"release": "v1.36.3"}
		if want.Etcd != "" {
			set["etcd"] = want.Etcd
		}
		s, err := scenario.Parse("f.yaml", []byte("scenario: x\n"+text+"steps:\n- pause: 1s\n"), set)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if p := s.Plane; p.Release != want.Release || p.Etcd != want.Etcd || p.Binaries != want.Binaries {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

// TestSetPlane sets fields of plane, and gets them back from the values in force.
func TestSetPlane(t *testing.T) {
	const text = "scenario: x\nplane: {components: {etcd: {cpu: 2}}}\nsteps:\n- pause: 1s\n"
	set := map[string]string{"plane.durability": "fsync", "plane.components.etcd.flags.snapshot-count": "5000"}
	s := repotest.Must(scenario.Parse("f.yaml", []byte(text), set))(t)
	again := repotest.Must(scenario.Parse("f.yaml", []byte(text), scenario.Settings(s.Values)))(t)
	for _, p := range []scenario.Plane{s.Plane, again.Plane} {
		if etcd := p.Components["etcd"]; p.Durability != "fsync" || etcd.CPU != 2 || etcd.Flags["snapshot-count"] != "5000" {
			t.Errorf("%+v", p)
		}
	}
}
