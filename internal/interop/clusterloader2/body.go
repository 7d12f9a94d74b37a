package clusterloader2

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/dialect"
	"github.com/windtunnel/windtunnel/internal/interop/placement"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// objectTemplate is a file of an object.
type objectTemplate struct {
	path, text       string
	compiled         *template.Template
	apiVersion, kind string // as they stand in the raw text
	reads            []string
	readsAll         bool
	files            map[string]any // that it includes
}

// apiGroup is the API group.
func (t *objectTemplate) apiGroup() string {
	group, _, ok := strings.Cut(t.apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

var (
	placeholders   = regexp.MustCompile(`\{\{.*\}\}`)
	apiVersionLine = regexp.MustCompile(`(?m)^["']?apiVersion["']?[ \t]*:[ \t]*["']?([A-Za-z0-9./-]+)`)
	kindLine       = regexp.MustCompile(`(?m)^["']?kind["']?[ \t]*:[ \t]*["']?([A-Za-z0-9]+)`)
	includedFile   = regexp.MustCompile(`Include(?:Embed)?File\s+"([^"]+)"`)
)

// bodies keeps the templates of objects and the bodies made of them.
type bodies struct {
	*importer
	out       *scenario.Scenario
	templates map[string]*objectTemplate
}

// readTemplate reads and compiles the file of an object; nil, with a fault, when
// that cannot be done.
func (l *bodies) readTemplate(o *config.Object) *objectTemplate {
	path := o.ObjectTemplatePath
	if t, ok := l.templates[path]; ok {
		return t
	}
	l.templates[path] = nil
	raw, err := l.read(path)
	if err == nil && !utf8.Valid(raw) {
		err = errors.New("is not UTF-8")
	}
	if err != nil {
		l.faults.addAt(o.At("objectTemplatePath"), "objectTemplatePath: %s: %v", path, err)
		return nil
	}
	t := &objectTemplate{path: path, text: trimLines(string(raw))}
	if t.compiled, err = template.Compile(l.shownPath(path), t.text, 1, dialect.New()); err != nil {
		l.faults.list = append(l.faults.list, flagFault("%v", err))
		return nil
	}
	bare := placeholders.ReplaceAllString(t.text, "")
	for _, f := range []struct {
		line *regexp.Regexp
		to   *string
	}{{apiVersionLine, &t.apiVersion}, {kindLine, &t.kind}} {
		if m := f.line.FindStringSubmatch(bare); m != nil {
			*f.to = m[1]
		}
	}
	t.reads, t.readsAll = t.compiled.Variables()
	for _, m := range includedFile.FindAllStringSubmatch(t.text, -1) {
		content, err := l.includeFile(m[1])
		if err != nil {
			l.faults.addFault(l.shownPath(path), 1, "IncludeFile: %v", err)
			return nil
		}
		if t.files == nil {
			t.files = map[string]any{}
		}
		t.files[m[1]] = content
	}
	l.templates[path] = t
	return t
}

// blockScalar begins a text of several lines, in which each space counts.
var blockScalar = regexp.MustCompile(`(?m)[|>][-+0-9]*[ \t\r]*$`)

// trimLines takes away the spaces at the ends of lines where YAML does not look at
// them: people will read the text inside of a scenario.
func trimLines(text string) string {
	text = strings.TrimRight(text, " \t\r\n") + "\n"
	if blockScalar.MatchString(text) {
		return text
	}
	return lineEnd.ReplaceAllString(text, "\n")
}

var lineEnd = regexp.MustCompile(`[ \t\r]+\n`)

// readVariables returns the variables that a template reads, but those of every object.
func (l *bodies) readVariables(t *objectTemplate, o *config.Object) map[string]any {
	all := maps.Clone(l.variables)
	maps.Copy(all, o.TemplateFillMap.Values)
	all["BaseName"] = o.Basename
	l.reads.Add(t.reads, t.readsAll, o.TemplateFillMap.Values)
	out := map[string]any{}
	for name, value := range all {
		if (t.readsAll || slices.Contains(t.reads, name)) && !slices.Contains([]string{"Name", "Namespace", "Index"}, name) {
			out[name] = value
		}
	}
	if t.files != nil {
		out[dialect.FilesVariable] = t.files
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// bodyName returns the name under which bodies has a template. Two objects of one
// bundle have two names, so that steps can tell them apart.
func (l *bodies) bodyName(t *objectTemplate, taken []string) string {
	base := dnsLabel(displayName(t.path))
	if base == "" {
		base = "body"
	}
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		if have, ok := l.out.Bodies[name]; ok && have.Text != t.text || slices.Contains(taken, name) {
			continue
		}
		l.out.Bodies[name] = scenario.Body{Text: t.text, Dialect: dialect.Name}
		return name
	}
}

// sample is what an object comes out as.
type sample struct {
	empty             bool
	kind              string
	labels, podLabels map[string]string
	pods              int // that it makes, in all
	everyNode         bool
	random            bool    // its values are drawn for each object
	cpu, memory       float64 // requests of one pod, in cores and bytes
	volumes           bool    // it is or has claims of volumes
	template          bool    // it has a template of pods
	node              placement.Pod
}

// sampled is how many objects are tried for one that is not empty: a template
// may leave out some indices.
const sampled = 20

// renderSample renders the first object that there is; false, with a fault, when that fails.
func (l *bodies) renderSample(t *objectTemplate, o *config.Object, with map[string]any) (sample, bool) {
	var raw []byte
	err := template.ErrEmpty
	for i := 0; errors.Is(err, template.ErrEmpty); i++ {
		if i == sampled {
			return sample{empty: true}, true
		}
		raw, err = t.compiled.Render(nil, template.Vars{Name: fmt.Sprintf("%s-%d", o.Basename, i), Namespace: "namespace", Index: i, Seed: l.seedOf(), With: with})
	}
	if err != nil {
		l.faults.list = append(l.faults.list, flagFault("%v", err))
		return sample{}, false
	}
	var v struct {
		Kind     string
		Metadata struct{ Labels map[string]any }
		Spec     json.RawMessage
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		l.faults.addFault(l.shownPath(t.path), 1, "the object %s-0 is not an object: %v", o.Basename, err)
		return sample{}, false
	}
	s := sample{kind: v.Kind, labels: labelTexts(v.Metadata.Labels), random: strings.Contains(t.text, "RandInt")}
	s.podSpec(v.Spec)
	return s, true
}

type podTemplate struct {
	Metadata struct{ Labels map[string]any }
	Spec     podSpec
}

type podSpec struct {
	placement.Pod
	Containers []struct {
		Resources struct{ Requests map[string]any }
	}
}

// podSpec looks for pods in an object's spec.
func (s *sample) podSpec(raw json.RawMessage) {
	var v struct {
		Replicas, Parallelism *float64
		Template              *podTemplate
		VolumeClaimTemplates  []any
	}
	var own podSpec
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	if json.Unmarshal(raw, &v) != nil || json.Unmarshal(raw, &own) != nil {
		return // of another form: it has no pods that we know of
	}
	if s.template = v.Template != nil; !s.template {
		v.Template = &podTemplate{}
	}
	s.podLabels = labelTexts(v.Template.Metadata.Labels)
	s.volumes = len(v.VolumeClaimTemplates) > 0 || s.kind == "PersistentVolumeClaim" || s.kind == "PersistentVolume"
	spec := v.Template.Spec
	count := func(n *float64) {
		s.pods = 1
		if n != nil {
			s.pods = max(0, int(*n))
		}
	}
	switch s.kind {
	case "Pod":
		s.pods, spec, s.podLabels = 1, own, s.labels
	case "DaemonSet":
		s.everyNode = true
	case "Job":
		count(v.Parallelism)
	default:
		if len(spec.Containers) > 0 {
			count(v.Replicas)
		}
	}
	s.node = spec.Pod
	for _, c := range spec.Containers {
		s.cpu += unit.Amount(fmt.Sprint(c.Resources.Requests["cpu"]))
		s.memory += unit.Amount(fmt.Sprint(c.Resources.Requests["memory"]))
	}
}

// labelTexts returns labels, which YAML may take for numbers.
func labelTexts(m map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = fmt.Sprint(v)
	}
	return out
}

// dnsLabel makes a DNS label of a text: "WaitForPods of x" is wait-for-pods-of-x.
func dnsLabel(text string) string {
	var b strings.Builder
	dash, lower := false, false // a dash is due; the last one was a small letter
	for _, c := range text {
		small, large := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z'
		if !small && !large && (c < '0' || c > '9') {
			dash, lower = true, false
			continue
		}
		if (dash || lower && large) && b.Len() > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
		dash, lower = false, small
	}
	out := b.String()
	return strings.TrimRight(out[:min(len(out), 55)], "-")
}
