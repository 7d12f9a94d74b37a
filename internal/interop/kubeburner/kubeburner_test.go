package kubeburner

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text/environ"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// surroundings are what the configs in testdata take from flags and the
// environment.
func surroundings() Options {
	return Options{
		Env: environ.New([]string{"QPS=12.5", "DIRECTORY=out", "TEAM=blue"}, nil), Overrides: []string{"testdata/overrides.yml"},
		UUID: "u-1", RunID: "r-1",
	}
}

// TestGolden imports our own configs: each has its scenario and its notes
// beside it. What is written must read as the same scenario again.
func TestGolden(t *testing.T) {
	for _, name := range []string{"density", "selectors", "iterations", "churn", "rounds", "latencies"} {
		t.Run(name, func(t *testing.T) {
			file := "testdata/" + name + ".yml"
			s, notes, err := Import(file, surroundings())
			repotest.NoError(t, err)
			var written bytes.Buffer
			repotest.NoError(t, scenario.Write(&written, s))
			var said strings.Builder
			for _, n := range notes {
				said.WriteString(n.String() + "\n")
			}
			repotest.Golden(t, "testdata/"+name+".scenario.yaml", written.String())
			repotest.Golden(t, "testdata/"+name+".notes.txt", said.String())
			again, err := scenario.Parse("scenario.yaml", written.Bytes(), nil)
			if err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			var twice bytes.Buffer
			if err := scenario.Write(&twice, again); err != nil || !bytes.Equal(written.Bytes(), twice.Bytes()) {
				t.Errorf("what was written reads as another scenario (%v):\n%s", err, twice.String())
			}
		})
	}
}

// TestCompat imports what kube-burner ships, as it stands.
func TestCompat(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(repotest.Compat(t, "kube-burner"), "*", "*.yml"))
	if len(files) == 0 {
		t.Fatal("no configs of kube-burner")
	}
	for _, file := range files {
		raw := repotest.Must(os.ReadFile(file))(t)
		if !Is(raw) {
			t.Errorf("%s is not taken for a config of kube-burner", file)
		}
		s, notes, err := Import(file, Options{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(s.Steps) == 0 || len(s.Groups) == 0 || s.Fleet.Nodes == 0 || len(notes) == 0 {
			t.Errorf("%s: %d steps, %d groups, %d nodes, %d notes", file, len(s.Steps), len(s.Groups), s.Fleet.Nodes, len(notes))
		}
	}
}

// TestSeed: the same config and seed give the same scenario, another seed
// another run.
func TestSeed(t *testing.T) {
	texts := map[string]bool{}
	for _, seed := range []uint64{1, 1, 2} {
		s, _, err := Import("testdata/selectors.yml", Options{Seed: seed})
		repotest.NoError(t, err)
		var out bytes.Buffer
		repotest.NoError(t, scenario.Write(&out, s))
		texts[out.String()] = true
	}
	if len(texts) != 2 {
		t.Errorf("three imports with two seeds gave %d scenarios", len(texts))
	}
}

func TestSet(t *testing.T) {
	s, _, err := Import("testdata/selectors.yml", Options{Set: map[string]string{
		"jobs.0.qps": "40", "jobs.0.objects.0.inputVars.replicas": "7", "global.gc": "true", "Nodes": "12",
	}})
	repotest.NoError(t, err)
	steps := map[string]*scenario.Step{}
	for i := range s.Steps {
		steps[s.Steps[i].Name] = &s.Steps[i]
	}
	create := steps["base"].Create
	if create.Pace.Constant != 40 || create.Objects[0].With["replicas"] != int64(7) || s.Fleet.Nodes != 12 || steps["base-gc-namespaces"] == nil {
		t.Errorf("pace %v, replicas %v, %d nodes, steps %v", create.Pace, create.Objects[0].With["replicas"], s.Fleet.Nodes, len(steps))
	}
	for key, want := range map[string]string{
		"jobs.9.qps":         `--set jobs.9.qps: jobs has 7 items: "9" is none of them`,
		"jobs.first.qps":     `--set jobs.first.qps: jobs has 7 items: "first" is none of them`,
		"jobs.0.qps.more":    `--set jobs.0.qps.more: jobs.0.qps is one value: it has no "more"`,
		"jobs.0.qqs":         `field "qqs" not found in job (did you mean "qps"?)`,
		"global.gc":          `global.gc: "sometimes" is not true or false`,
		"jobs.1.patchType":   `field "patchType" not found in job`,
		"Nodes":              `--set Nodes=sometimes: not a whole number of 0 or more`,
		"jobs.0.namespace":   ``,
		"UNUSED_BY_ANYTHING": `--set UNUSED_BY_ANYTHING=sometimes: nothing in testdata/selectors.yml reads UNUSED_BY_ANYTHING; it reads Nodes, UUID`,
		"nodez":              `--set nodez=sometimes: nothing in testdata/selectors.yml reads nodez (did you mean "Nodes"?)`,
		"job.0.qps":          `--set job.0.qps=sometimes: nothing in testdata/selectors.yml reads job.0.qps; it reads Nodes, UUID`,
		"plane.durability":   "--set plane.durability=sometimes: testdata/selectors.yml is a file of another tool and has no plane: write it as a scenario with `windtunnel import testdata/selectors.yml -o scenario.yaml`, which takes --set plane.durability",
	} {
		_, _, err := Import("testdata/selectors.yml", Options{Set: map[string]string{key: "sometimes"}})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("--set %s=sometimes: got %q, want %q", key, got, want)
		}
	}
}

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"jobs:\n- name: a\n  objects: []\n":                                          true,
		"global: {}\njobs: [{name: a, jobIterations: 2}]\n":                          true,
		`{"jobs": [{"name": "a", "jobType": "create"}]}`:                             true,
		"{{ if .A }}\nglobal: {}\n{{ end }}\njobs:\n  - jobType: a\n":                true,
		"jobs:\n{{ range until 3 }}\n- name: a\n  jobIterations: {{ . }}\n{{ end }}": true,
		"scenario: a\nsteps: []\n":                                                   false,
		"scenario: a\njobs:\n- objects: []\n":                                        false,
		"scenario: '{{ a }}'\njobs:\n- objectTemplate: a\n":                          false,
		"jobs:\n- name: a\n  runs-on: linux\n":                                       false,
		"jobs:\n  build: {steps: []}\n":                                              false,
		"name: test\nsteps:\n- name: a\n":                                            false,
		"":                                                                           false,
		"\x00":                                                                       false,
	} {
		if got := Is([]byte(text)); got != want {
			t.Errorf("Is(%q) = %v", text, got)
		}
	}
}

// TestBad: each config in testdata/bad.txt has the message that follows it.
func TestBad(t *testing.T) {
	raw := repotest.Must(os.ReadFile("testdata/bad.txt"))(t)
	var all []string
	for one := range strings.SplitSeq(string(raw), "=====\n") {
		text, _, ok := strings.Cut(one, "-----\n")
		if !ok {
			t.Fatalf("no message: %s", one)
		}
		_, _, err := convertConfig("testdata/c.yml", []byte(text), Options{})
		got := ""
		if err != nil {
			got = err.Error() + "\n"
		}
		all = append(all, text+"-----\n"+got)
	}
	repotest.Golden(t, "testdata/bad.txt", strings.Join(all, "=====\n"))
}

func TestImportErrors(t *testing.T) {
	if _, _, err := Import("testdata/none.yml", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, _, err := Import("testdata", Options{}); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("got %v", err)
	}
	if _, _, err := Import("testdata/density.yml", Options{Overrides: []string{"testdata/templates/part-0.txt"}}); err == nil ||
		!strings.HasPrefix(err.Error(), "testdata/templates/part-0.txt: not a mapping of names to values") {
		t.Errorf("got %v", err)
	}
}

var numbers = regexp.MustCompile(`[0-9]{4}`)

// FuzzImport: whatever a config says, it becomes a scenario that can be written
// and read, or errors that each name a place.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"density", "selectors", "iterations", "churn", "rounds"} {
		raw := repotest.Must(os.ReadFile("testdata/" + name + ".yml"))(f)
		f.Add(string(raw))
	}
	f.Add("jobs: &a [*a]")
	f.Add("jobs:\n- <<: {name: a}\n  objects: [{objectTemplate: templates/config.yml}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "range") || strings.Contains(text, "..") || len(text) > 5000 || numbers.MatchString(text) {
			return // loops without end, many steps and files elsewhere are the author's
		}
		o := surroundings()
		s, _, err := convertConfig("testdata/fuzz.yml", []byte(text), o)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		if len(s.Steps) > 200 {
			return
		}
		var out bytes.Buffer
		if err := scenario.Write(&out, s); err != nil {
			if errors.Is(err, scenario.ErrNotText) {
				return
			}
			t.Fatal(err)
		}
		if _, err := scenario.Parse("scenario.yaml", out.Bytes(), nil); err != nil {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
}
