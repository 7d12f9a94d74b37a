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
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text/environ"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/scenario"
)

// Options are what kube-burner takes from flags and the environment.
type Options struct {
	// Set has the values of --set. "Nodes" is the size of the fleet; a path
	// such as jobs.0.qps changes the config; any other name is a variable of
	// the config's template.
	Set          map[string]string
	Overrides    []string         // YAML files with variables of the config's template; later ones win
	Env          *environ.Environ // of which the config's template sees what it names; nil is an empty one
	AllowMissing bool             // a variable that is missing in the config's template is no fault
	UUID         string           // of the run; default: made of the seed and the config
	RunID        string           // default: made of them likewise
	Seed         uint64           // default scenario.DefaultSeed

	// Served asks the cluster that the config is to run in for a kind that neither
	// Kubernetes nor the config brings; nil: there is no cluster to ask.
	Served func(apiVersion, kind string) (plural string, namespaced bool, err error)
}

// Is tells whether a file looks like a config of kube-burner. Such a file may
// be a template, so that it need not be YAML.
func Is(raw []byte) bool {
	var top struct {
		Scenario any              `yaml:"scenario"`
		Jobs     []map[string]any `yaml:"jobs"`
	}
	if root, err := strictyaml.First(raw); err == nil && !bytes.Contains(raw, []byte("{{")) && root.Decode(&top) == nil {
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
func Import(file string, o Options) (*scenario.Scenario, []kit.Note, error) {
	raw, err := readFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read config: %w", err)
	}
	return convertConfig(file, raw, o)
}

// convertConfig is Import of a config that is in memory.
func convertConfig(file string, raw []byte, o Options) (*scenario.Scenario, []kit.Note, error) {
	f := &findings{file: file}
	if o.Seed == 0 {
		o.Seed = scenario.DefaultSeed
	}
	o.UUID = cmp.Or(o.UUID, o.Set["UUID"], newUUID("uuid", o.Seed, raw))
	if o.RunID == "" {
		o.RunID = newUUID("run", o.Seed, raw)
	}
	vars, err := o.templateVariables()
	if err != nil {
		return nil, nil, err
	}
	src := &source{findings: f, opts: o, folder: filepath.Dir(file), texts: map[string]string{}}
	if !src.decodeConfig(raw, vars) || !src.checkRead(vars) || !(checker{src}).checkConfig() {
		return nil, nil, f.joinErrors()
	}
	s := buildScenario(src)
	if len(f.faults) == 0 && len(s.Steps) == 0 {
		f.addFaultAt(1, "jobs: nothing in them can be done: no objects are made, because their replicas are 0 or their templates are empty")
	}
	if err := f.joinErrors(); err != nil {
		return nil, nil, err
	}
	for _, note := range o.Env.Notes() {
		f.addNote(0, "environment", "%s", note)
	}
	s.Complete()
	if err := s.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%s: what it says makes no valid scenario: %w", file, err)
	}
	return s, f.notes.All(), nil
}

// newUUID makes a UUID of a seed and a config, so that the same ones give the same
// request bytes.
func newUUID(what string, seed uint64, raw []byte) string {
	sum := sha256.Sum256(append(fmt.Appendf(nil, "kube-burner %s %d\n", what, seed), raw...))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8: a UUID of one's own making (RFC 9562)
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// decodeConfig reads the config into cfg.
func (s *source) decodeConfig(raw []byte, vars map[string]any) bool {
	r, ok := s.opts.renderConfig(s.findings, raw, vars)
	if !ok {
		return false
	}
	root, err := strictyaml.First(r.Bytes)
	switch {
	case errors.Is(err, io.EOF):
		s.addFaultAt(1, "the file is empty")
		return false
	case err != nil:
		line, text := strictyaml.Syntax(r.Bytes, err)
		s.addFaultAt(r.Line(line), "not YAML: %s", text)
		return false
	}
	for _, key := range sortedKeys(s.opts.Set) {
		if ofTree(key) {
			if err := changeValue(root, strings.Split(key, "."), s.opts.Set[key]); err != nil {
				s.addFaultAt(0, "--set %s: %v", key, err)
			}
		}
	}
	d := newDecoder(s.findings, r)
	d.Value(root, reflect.ValueOf(&s.cfg).Elem(), strictyaml.Place{Name: "config"})
	s.lines = d.Lines
	return len(s.faults) == 0
}

// source is a config and the files that it names.
type source struct {
	*findings
	opts   Options
	folder string // the config's: it and its templates name files in there
	cfg    config
	lines  map[string]int
	texts  map[string]string // template files, by path
}

// target is the scenario that becomes of a config.
type target struct {
	*source
	out *scenario.Scenario
}

// importer makes the steps of a scenario.
type importer struct {
	*bodies
	spaces map[string]*space // namespaces made so far, by what they begin with
	names  map[string]int    // of steps, and how often each was wanted
	demand demand            // of the pods
	spans  []span            // the jobs' steps
}

// JobMeasure begins the names of the measures that say where the jobs begin and
// end: "job density" lasts from the step since to the step until. kube-burner's
// documents are made by them.
const JobMeasure = "job "

// span is a job with its first and its last step.
type span struct{ job, first, last string }

// lineAt returns the line of the value at a path, or of the nearest around it.
func (s *source) lineAt(path string) int {
	for path != "" {
		if line, ok := s.lines[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return max(1, s.lines[""])
}

// buildScenario makes the scenario; faults and notes are collected on the way.
func buildScenario(from *source) *scenario.Scenario {
	s := scenario.Default()
	to := &target{from, &s}
	im := &importer{bodies: &bodies{target: to, madeOf: map[string]bodyKey{}, kinds: map[groupKind]crd{}},
		spaces: map[string]*space{}, names: map[string]int{}}
	s.Name = dnsLabel(strings.TrimSuffix(filepath.Base(im.file), filepath.Ext(im.file)))
	s.Description = fmt.Sprintf("Imported from kube-burner's %s.", filepath.Base(im.file))
	s.Seed, s.File = im.opts.Seed, im.file
	s.Namespaces.Count = 0 // the jobs make their own
	s.Bodies = map[string]scenario.Body{}
	im.readFunctions()
	im.noteUsual()
	s.Steps = im.besideRest(im.jobsSteps())
	for _, j := range im.spans {
		s.Measures = append(s.Measures, scenario.Measure{Name: JobMeasure + j.job, Since: j.first, Until: j.last})
	}
	objectives{to}.lowerMeasurements()
	profiles{target: to, spans: im.spans}.readAll()
	im.sizeFleet()
	return &s
}

// noteUsual notes what is so in nearly every config.
func (im *importer) noteUsual() {
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		if j.PreLoadImages && j.JobType == "create" {
			im.addNote(im.lineAt(j.At+".preLoadImages"), "job.preLoadImages", "simulated nodes pull no images: nothing is loaded before a job")
		}
		if j.Burst > 1 {
			im.addNote(im.lineAt(j.At+".burst"), "job.burst", "calls are due evenly, at qps, from the first one on")
		}
		if j.QPS <= 0 {
			im.addNote(im.lineAt(j.At+".qps"), "job.qps", "not above 0: 5 objects per second, as kube-burner has it")
		}
	}
}

// rateOf is the rate of a job.
func (j *job) rateOf() float64 {
	if j.QPS <= 0 {
		return 5
	}
	return j.QPS
}

// waitLimit is how long a job may wait.
func (s jobSteps) waitLimit() time.Duration {
	switch {
	case s.j.MaxWaitTimeout > 0:
		return s.j.MaxWaitTimeout
	case s.cfg.Global.Timeout > 0:
		return s.cfg.Global.Timeout
	}
	return 4 * time.Hour
}
