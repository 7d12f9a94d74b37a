package kubeburner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	texttemplate "text/template"
	"text/template/parse"

	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/dialect"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
	"github.com/windtunnel/windtunnel/scenario"
)

// item is one document of an object's template: what a create step makes.
type item struct {
	object   *object
	body     string // name of the body
	name     string // of the item, where several have one body
	index    int    // among the job's, for the label
	resource string
	kind     string
	cluster  bool   // outside of namespaces
	unknown  bool   // nobody says whether it is
	fixed    string // namespace that the template itself says
	every    int
	at       []int // of an item whose kind is another at other iterations: its iterations
	with     map[string]any
	sample   sample
}

// countObjects is how many of them so many iterations make.
func (it item) countObjects(iterations int) int {
	if it.at != nil {
		return it.object.Replicas * len(it.at)
	}
	every := it.everyNth(iterations)
	return it.object.Replicas * ((iterations + every - 1) / every)
}

// everyNth is at which iterations there is one: those that it divides.
func (it item) everyNth(iterations int) int {
	if it.object.RunOnce {
		return iterations
	}
	return min(it.every, iterations)
}

// bodyKey is what a body was made of.
type bodyKey struct {
	file     string
	document int
	kind     string // where the kind differs between the template's objects
}

// sample is what the first object made of a body says.
type sample struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		podSpec             // of a Pod
		claimSpec           // of a PersistentVolumeClaim, and of a PersistentVolume
		Claims      []claim `json:"volumeClaimTemplates"` // of a StatefulSet
		Replicas    *int    `json:"replicas"`
		Parallelism *int    `json:"parallelism"`
		Template    struct {
			Spec podSpec `json:"spec"`
		} `json:"template"`
		// Of a custom resource definition.
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
	} `json:"spec"`
}

// bodies keeps the scenario's bodies: the texts of the templates of objects.
type bodies struct {
	*target
	functions string             // the definitions of global.functionTemplates
	madeOf    map[string]bodyKey // what a body was made of
	kinds     map[groupKind]crd  // made by the config's own CRDs
	claims    claims
}

// readTemplate returns the text of a template file, once read.
func (s *source) readTemplate(path string, line int, field string) (string, bool) {
	if text, ok := s.texts[path]; ok {
		return text, true
	}
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		s.addFaultAt(line, "%s: %s: files are not fetched: put it beside the config", field, path)
		return "", false
	}
	raw, err := readBeside(s.folder, path)
	if err != nil {
		s.addFaultAt(line, "%s: %v", field, err)
		return "", false
	}
	s.texts[path] = string(raw)
	return string(raw), true
}

// pathOf is where a file is that a config or a template names.
func (s *source) pathOf(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.folder, name)
}

// readFunctions keeps the definitions of global.functionTemplates, to stand
// behind the bodies that call them.
func (b *bodies) readFunctions() {
	for i, path := range b.cfg.Global.FunctionTemplates {
		line := b.lineAt(fmt.Sprintf("%s.functionTemplates[%d]", b.cfg.Global.At, i))
		text, ok := b.readTemplate(path, line, "global.functionTemplates")
		if !ok {
			continue
		}
		t, err := texttemplate.New(filepath.Base(path)).Funcs(dialect.Functions(template.NewSource(1))).
			Funcs(texttemplate.FuncMap{"ReadFile": func(string) string { return "" }}).Parse(text)
		if err != nil {
			b.addFault("", 0, parseError(b.pathOf(path), err))
			continue
		}
		for _, one := range t.Templates() {
			if one.Tree != nil && !parse.IsEmptyTree(one.Root) {
				b.functions += fmt.Sprintf("{{ define %q }}%s{{ end }}\n", one.Name(), one.Root)
			}
		}
	}
}

// parseError writes an error of text/template as "FILE:LINE: TEXT".
func parseError(path string, err error) string {
	at := linemap.Position(err)
	return fmt.Sprintf("%s:%d: %s", path, at.Line, at.Text)
}

// callsTemplate finds a call of a defined template.
var callsTemplate = regexp.MustCompile(`\{\{-?\s*(template|block)\s`)

// readItems reads the templates of a create job.
func (b *bodies) readItems(j *job) []item {
	var out []item
	used, index := map[string]bool{}, 0
	for i := range j.Objects {
		o := &j.Objects[i]
		if o.Replicas < 1 {
			b.addNote(b.lineAt(o.At+".replicas"), "object.replicas", "below 1: the object is left out")
			continue
		}
		text, ok := b.readTemplate(o.ObjectTemplate, b.lineAt(o.At+".objectTemplate"), "object.objectTemplate")
		if !ok {
			continue
		}
		for n, part := range cutDocuments(text) {
			it := item{object: o, index: index, every: o.RepeatEveryNIterations, with: map[string]any{}}
			index++
			maps.Copy(it.with, o.InputVars)
			it.with[dialect.ObjectIndexVariable], it.with[dialect.ObjectGroupVariable] = int64(it.index), int64(o.Group.ID)
			it.body = b.keepBody(bodyKey{file: o.ObjectTemplate, document: n}, part.text, used)
			ok, differs := b.renderSamples(j, &it, part)
			if differs || ok && it.countObjects(j.JobIterations) <= maxTrials && writtenKind.MatchString(part.text) {
				out = append(out, kinds{b, j, it, n, part}.splitByKind(used)...)
			} else if ok {
				out = append(out, it)
			}
		}
	}
	return out
}

// keepBody keeps a text as one of the scenario's bodies and returns its name. A job
// has a body of its own for each object, jobs share theirs.
func (b *bodies) keepBody(key bodyKey, text string, used map[string]bool) string {
	if callsTemplate.MatchString(text) {
		text += b.functions
	}
	file, _, _ := strings.Cut(key.file, ": ")
	base := dnsLabel(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		of, taken := b.madeOf[name]
		if used[name] || taken && of != key {
			continue
		}
		used[name], b.madeOf[name] = true, key
		b.out.Bodies[name] = scenario.Body{Text: text, Dialect: dialect.Name}
		return name
	}
}

// document is one of the YAML documents of a template.
type document struct {
	text string
	line int // of its first line, from 1
}

// cutDocuments cuts a template at its lines of three dashes. Parts that have
// nothing but comments are left out.
func cutDocuments(text string) []document {
	var out []document
	one, line := document{line: 1}, 0
	flush := func() {
		for l := range strings.Lines(one.text) {
			if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
				out = append(out, one)
				return
			}
		}
	}
	for l := range strings.Lines(text) {
		line++
		if rest, ok := strings.CutPrefix(l, "---"); ok && strings.TrimSpace(rest) == "" {
			flush()
			one = document{line: line + 1}
			continue
		}
		one.text += l
	}
	flush()
	return out
}

// renderSamples makes some of an item's objects: it finds out of what kind they are,
// which files they read, and whether the template can be executed at all. differs says
// that they are not of one kind.
func (b *bodies) renderSamples(j *job, it *item, part document) (ok, differs bool) {
	t, err := template.Compile(b.pathOf(it.object.ObjectTemplate), b.out.Bodies[it.body].Text, part.line, dialect.New())
	if err != nil {
		b.addFault("", 0, err.Error())
		return false, false
	}
	if j.DefaultMissingKeysWithZero {
		fillMissing(t, it.with)
	}
	raw, err := b.trialObjects(j, it, t)
	if err == nil {
		b.noteTwice(j, it, t)
		b.tidyBody(j, it, raw)
	}
	if err != nil {
		if strings.Contains(err.Error(), "but the first object was a") {
			return false, true
		}
		b.addFault("", 0, err.Error())
		return false, false
	}
	var other *json.UnmarshalTypeError // a field that means something else in this kind
	if err := json.Unmarshal(raw, &it.sample); err != nil && !errors.As(err, &other) {
		b.addFault(b.pathOf(it.object.ObjectTemplate), part.line, err.Error())
		return false, false
	}
	it.kind, it.fixed = it.sample.Kind, it.sample.Metadata.Namespace
	if it.kind == "CustomResourceDefinition" {
		b.rememberKinds(j, it, t)
	}
	it.unknown = !b.isKnownKind(it.sample.APIVersion, it.kind)
	it.resource, it.cluster = b.resourceOf(it.sample.APIVersion, it.kind)
	b.noteCommands(it)
	return true, false
}

// noteCommands notes that what containers are to run is not run, and what makes pods fail.
func (b *bodies) noteCommands(it *item) {
	for _, c := range append(it.sample.Spec.Containers, it.sample.Spec.Template.Spec.Containers...) {
		if len(c.Command)+len(c.Args) > 0 {
			b.addNote(b.lineAt(it.object.At), "containers", "commands of containers are not executed: simulated pods run until they are deleted, and those of Jobs complete; "+
				"to let pods fail, import the config and add a step fault: {pods: {percent: 10}, action: crash} (or fail), or stages of your own (fleet.stages)")
			return
		}
	}
}

// noteTwice notes a key that stands twice in a mapping of an object.
func (b *bodies) noteTwice(j *job, it *item, t *template.Template) {
	with := b.jobVariables(j, b.opts.RunID)
	maps.Copy(with, it.with)
	if key := t.Twice(template.Vars{Name: it.body, Namespace: j.Namespace, Replica: 1, Seed: b.opts.Seed, With: with}); key != "" {
		b.addNote(b.lineAt(it.object.At+".objectTemplate"), "object.objectTemplate", "%s has the key %q twice in one mapping: the last value counts, as in kube-burner",
			it.object.ObjectTemplate, key)
	}
}

// tidyBody takes blanks at the ends of lines, and empty lines at the begin and the
// end, out of a body if that leaves its objects as they are: YAML cannot hold
// such a text as it stands.
func (b *bodies) tidyBody(j *job, it *item, first []byte) {
	trimmed := b.out.Bodies[it.body]
	trimmed.Text = strings.Trim(blanks.ReplaceAllString(trimmed.Text, "\n"), "\n") + "\n"
	t, err := template.Compile(b.pathOf(it.object.ObjectTemplate), trimmed.Text, 1, dialect.New())
	if err != nil {
		return
	}
	if again, err := b.trialObjects(j, it, t); err == nil && bytes.Equal(first, again) {
		b.out.Bodies[it.body] = trimmed
	}
}

var blanks = regexp.MustCompile(`[ \t\r]*\n`)

// maxTrials bounds the objects that are made of a body whose file names depend
// on the object.
const maxTrials = 100_000

// readsVarying finds a call of ReadFile whose path is not written out.
var readsVarying = regexp.MustCompile("ReadFile\\s+[^\"`\\s]|\\|\\s*ReadFile")

// trialObjects makes the first, the second and the last object of an item, or all of
// them where each may read another file, and returns the first one.
func (b *bodies) trialObjects(j *job, it *item, t *template.Template) ([]byte, error) {
	every := it.everyNth(j.JobIterations)
	indices := []int{0, every, (j.JobIterations - 1) / every * every}
	if len(it.at) > 0 {
		indices = []int{it.at[0], it.at[len(it.at)/2], it.at[len(it.at)-1]}
	}
	replicas := []int{1, it.object.Replicas}
	if readsVarying.MatchString(b.out.Bodies[it.body].Text) && it.countObjects(j.JobIterations) <= maxTrials {
		indices, replicas = nil, nil
		for i := 0; i < j.JobIterations; i += every {
			indices = append(indices, i)
		}
		for r := range it.object.Replicas {
			replicas = append(replicas, r+1)
		}
	}
	var first []byte
	with := b.jobVariables(j, b.opts.RunID)
	maps.Copy(with, it.with)
	for _, index := range indices {
		if index >= j.JobIterations {
			continue
		}
		for _, replica := range replicas {
			raw, err := b.makeObject(t, template.Vars{
				Name: fmt.Sprintf("%s-%d", it.body, index), Namespace: j.Namespace, Index: index, Replica: replica, Seed: b.opts.Seed, With: with,
			})
			if err != nil {
				return nil, err
			}
			if first == nil {
				first = raw
			}
			b.claims.addObject(raw)
		}
	}
	if files, ok := with[dialect.ReadFileVariable]; ok {
		it.with[dialect.ReadFileVariable] = files
	}
	return first, nil
}

// makeObject renders one object; the files that its template reads are put into With.
func (b *bodies) makeObject(t *template.Template, v template.Vars) ([]byte, error) {
	for {
		raw, err := t.Render(nil, v)
		var absent *dialect.NoFileError
		if !errors.As(err, &absent) {
			return bytes.Clone(raw), err
		}
		text, ferr := readBeside(b.folder, absent.Path)
		if ferr != nil {
			return nil, fmt.Errorf("%w: %w", err, ferr)
		}
		files, _ := v.With[dialect.ReadFileVariable].(map[string]any)
		files = maps.Clone(files)
		if files == nil {
			files = map[string]any{}
		}
		files[absent.Path] = string(text)
		v.With[dialect.ReadFileVariable] = files
	}
}

// jobVariables returns the variables that all objects of a job have.
func (b *bodies) jobVariables(j *job, run string) map[string]any {
	return map[string]any{"JobName": j.Name, "UUID": b.opts.UUID, "RunID": run}
}

// fillMissing gives the variables of a template that nothing sets the value that
// text/template's missingkey=zero gives them: none.
func fillMissing(t *template.Template, with map[string]any) {
	names, _ := t.Variables()
	for _, name := range names {
		_, set := with[name]
		if !set && !slices.Contains([]string{"Iteration", "Replica", "JobName", "UUID", "RunID"}, name) {
			with[name] = nil
		}
	}
}
