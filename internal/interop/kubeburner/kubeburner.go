// Package kubeburner reads kube-burner's configs and gives them as scenarios:
// its jobs become steps, its object templates bodies, its thresholds and alerts
// objectives.
//
// It sends nothing and judges nothing; what it cannot express it names in
// notes, and an objective that it cannot have measured says so, so that it
// ends as unknown. Package measurement writes results in kube-burner's own
// form.
package kubeburner

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/scenario"
)

// Options are what kube-burner takes from flags and the environment.
type Options struct {
	// Set has the values of --set. "Nodes" is the size of the fleet; a path
	// such as jobs.0.qps changes the config; any other name is a variable of
	// the config's template.
	Set          map[string]string
	Overrides    []string          // YAML files with variables of the config's template; later ones win
	Env          map[string]string // the environment, which the config's template sees
	AllowMissing bool              // a variable that is missing in the config's template is no fault
	UUID         string            // of the run; default: made of the seed and the config
	RunID        string            // default: made of them likewise
	Seed         uint64            // default scenario.DefaultSeed
}

// Is tells whether a file looks like a config of kube-burner. Such a file may
// be a template, so that it need not be YAML.
func Is(raw []byte) bool {
	var top struct {
		Scenario any              `yaml:"scenario"`
		Jobs     []map[string]any `yaml:"jobs"`
	}
	if !bytes.Contains(raw, []byte("{{")) && parseYAML(raw, &top) == nil {
		for _, j := range top.Jobs {
			_, objects := j["objects"]
			_, iterations := j["jobIterations"]
			_, kind := j["jobType"]
			if top.Scenario == nil && (objects || iterations || kind) {
				return true
			}
		}
		return false
	}
	return topJobs.Match(raw) && jobWords.Match(raw) && !topScenario.Match(raw)
}

var (
	topJobs     = regexp.MustCompile(`(?m)^jobs:`)
	topScenario = regexp.MustCompile(`(?m)^scenario:`)
	jobWords    = regexp.MustCompile(`(?m)^[\s-]*(objectTemplate|jobIterations|jobType|namespacedIterations):`)
)

// Import reads a config and the files that it names, and gives the scenario
// that does the same, complete and valid. The notes say, once each, what of the
// config is not done as kube-burner does it. The error joins every fault found,
// one line each: "FILE:LINE: TEXT".
func Import(file string, o Options) (*scenario.Scenario, []Note, error) {
	raw, err := readFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read config: %w", err)
	}
	return convert(file, raw, o)
}

// convert is Import of a config that is in memory.
func convert(file string, raw []byte, o Options) (*scenario.Scenario, []Note, error) {
	f := &findings{file: file}
	if o.Seed == 0 {
		o.Seed = scenario.DefaultSeed
	}
	if o.UUID == "" {
		o.UUID = uuid("uuid", o.Seed, raw)
	}
	if o.RunID == "" {
		o.RunID = uuid("run", o.Seed, raw)
	}
	vars, err := o.variables()
	if err != nil {
		return nil, nil, err
	}
	im := &importer{findings: f, opts: o, folder: filepath.Dir(file)}
	if !im.decode(raw, vars) || !im.check() {
		return nil, nil, f.join()
	}
	s := im.build()
	if err := f.join(); err != nil {
		return nil, nil, err
	}
	s.Complete()
	if err := s.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%s: what it says makes no valid scenario: %w", file, err)
	}
	return s, f.notes, nil
}

// uuid makes a UUID of a seed and a config, so that the same ones give the same
// request bytes.
func uuid(what string, seed uint64, raw []byte) string {
	sum := sha256.Sum256(append(fmt.Appendf(nil, "kube-burner %s %d\n", what, seed), raw...))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8: a UUID of one's own making (RFC 9562)
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// decode reads the config into im.cfg.
func (im *importer) decode(raw []byte, vars map[string]any) bool {
	r, ok := im.opts.render(im.findings, raw, vars)
	if !ok {
		return false
	}
	d := &decoder{findings: im.findings, source: r.lines, lines: map[string]int{}}
	var doc yaml.Node
	switch err := parseYAML(r.text, &doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		im.add(1, "the file is empty")
		return false
	case err != nil:
		line, text := syntax(err)
		im.add(r.lines[min(line, len(r.lines)-1)], "not YAML: %s", text)
		return false
	}
	root := doc.Content[0]
	for _, key := range sorted(im.opts.Set) {
		if ofTree(key) {
			if err := change(root, strings.Split(key, "."), im.opts.Set[key]); err != nil {
				im.add(0, "--set %s: %v", key, err)
			}
		}
	}
	d.value(root, reflect.ValueOf(&im.cfg).Elem(), "", "config")
	im.lines = d.lines
	return len(im.faults) == 0
}

var yamlLine = regexp.MustCompile(`(?s)^line (\d+): (.*)$`)

// syntax returns line and text of an error of the YAML parser.
func syntax(err error) (line int, text string) {
	line, text = 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	if strings.HasPrefix(text, "did not find expected") {
		line++ // the parser, not its scanner, counts from 0
	}
	return max(1, line), text
}

// parseYAML reads the first document. The parser is not ours: should it panic
// on odd bytes, that is a fault of the file.
func parseYAML(raw []byte, into any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return yaml.NewDecoder(bytes.NewReader(raw)).Decode(into)
}

// importer makes a scenario of a config.
type importer struct {
	*findings
	opts   Options
	folder string
	cfg    config
	lines  map[string]int
	out    *scenario.Scenario

	texts     map[string]string  // template files, by path
	functions string             // the definitions of global.functionTemplates
	bodies    map[string]bodyKey // what a body was made of
	kinds     map[groupKind]crd  // made by the config's own CRDs
	spaces    map[string]*space  // namespaces made so far, by what they begin with
	names     map[string]int     // of steps, and how often each was wanted
	demand    demand             // of the pods
	spans     []span             // the jobs' steps
}

// JobMeasure begins the names of the measures that say where the jobs begin and
// end: "job density" lasts from the step since to the step until. kube-burner's
// documents are made by them.
const JobMeasure = "job "

// span is a job with its first and its last step.
type span struct{ job, first, last string }

// at returns the line of the value at a path, or of the nearest around it.
func (im *importer) at(path string) int {
	for path != "" {
		if line, ok := im.lines[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return max(1, im.lines[""])
}

// build makes the scenario; faults and notes are collected on the way.
func (im *importer) build() *scenario.Scenario {
	s := scenario.Default()
	im.out, im.texts, im.bodies, im.kinds = &s, map[string]string{}, map[string]bodyKey{}, map[groupKind]crd{}
	im.spaces, im.names = map[string]*space{}, map[string]int{}
	s.Name = label(strings.TrimSuffix(filepath.Base(im.file), filepath.Ext(im.file)))
	s.Description = fmt.Sprintf("Imported from kube-burner's %s.", filepath.Base(im.file))
	s.Seed, s.File = im.opts.Seed, im.file
	s.Namespaces.Count = 0 // the jobs make their own
	s.Bodies = map[string]scenario.Body{}
	im.readFunctions()
	im.usual()
	s.Steps = im.jobs()
	for _, j := range im.spans {
		s.Measures = append(s.Measures, scenario.Measure{Name: JobMeasure + j.job, Since: j.first, Until: j.last})
	}
	im.measurements()
	im.profiles()
	im.fleet()
	return &s
}

// usual notes what is so in nearly every config.
func (im *importer) usual() {
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		if j.PreLoadImages && j.JobType == "create" {
			im.note(im.at(j.At+".preLoadImages"), "job.preLoadImages", "simulated nodes pull no images: nothing is loaded before a job")
		}
		if j.Burst > 1 {
			im.note(im.at(j.At+".burst"), "job.burst", "calls are due evenly, at qps, from the first one on")
		}
		if j.QPS == 0 {
			im.note(im.at(j.At), "job.qps", "not set: 5 calls per second, as kube-burner has it")
		}
	}
}

// qps is the rate of a job.
func (j *job) qps() float64 {
	if j.QPS == 0 {
		return 5
	}
	return j.QPS
}

// limit is how long a job may wait.
func (im *importer) limit(j *job) time.Duration {
	switch {
	case j.MaxWaitTimeout > 0:
		return j.MaxWaitTimeout
	case im.cfg.Global.Timeout > 0:
		return im.cfg.Global.Timeout
	}
	return 4 * time.Hour
}
