package configuration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Limits of what is read.
const (
	maxFile  = 64 << 20 // bytes of one file
	maxDepth = 16       // folders that name folders
)

// Read reads files in order, on top of the defaults. A path may be a file, a
// folder with a kustomization.yaml that only lists resources, or - for stdin.
// Fields of a later KwokConfiguration come before those of an earlier one. The
// error joins what is wrong with any of them.
func Read(stdin io.Reader, paths ...string) (*Configuration, error) {
	r := reader{stdin: stdin, out: &Configuration{Options: Default(), Objects: &Objects{}}}
	for _, path := range paths {
		r.readPath(path, 0)
	}
	return r.out, errors.Join(r.faults...)
}

// reader puts files together.
type reader struct {
	stdin  io.Reader
	out    *Configuration
	faults []error
}

func (r *reader) addFault(err error) { r.faults = append(r.faults, err) }

func (r *reader) readPath(path string, depth int) {
	if path == "-" && depth == 0 {
		r.readContent("standard input", r.stdin)
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.addFault(fmt.Errorf("read configuration: %w", err))
	case info.IsDir():
		r.readFolder(path, depth)
	default:
		file, err := os.Open(path)
		if err != nil {
			r.addFault(fmt.Errorf("read configuration: %w", err))
			return
		}
		defer file.Close()
		r.readContent(path, file)
	}
}

// loadFile reads the documents of one file; nil when it has faults.
func (r *reader) loadFile(name string, from io.Reader) *kwok.File {
	if from == nil {
		from = strings.NewReader("")
	}
	content, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	if err != nil {
		r.addFault(fmt.Errorf("read configuration: %w", err))
		return nil
	}
	f, err := kwok.Load(name, content)
	if err != nil {
		r.addFault(err)
		return nil
	}
	return f
}

func (r *reader) readContent(name string, from io.Reader) {
	f := r.loadFile(name, from)
	if f == nil {
		return
	}
	r.out.Objects.Stages = append(r.out.Objects.Stages, f.Stages...)
	for _, d := range f.Others {
		if err := r.takeDocument(d); err != nil {
			r.addFault(err)
		}
	}
}

// kustomizationNames returns the names that a folder's list of files may have.
func kustomizationNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// readFolder follows the resources of a kustomization; whatever else one may do is
// kustomize's work.
func (r *reader) readFolder(path string, depth int) {
	if depth == maxDepth {
		r.addFault(fmt.Errorf("%s: %s deep: does it name itself?", path, unit.Count(depth, "folders")))
		return
	}
	for _, name := range kustomizationNames() {
		name = filepath.Join(path, name)
		file, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			r.addFault(fmt.Errorf("read configuration: %w", err))
			return
		}
		f := r.loadFile(name, file)
		_ = file.Close()
		if f != nil {
			r.readResources(path, f, depth)
		}
		return
	}
	r.addFault(fmt.Errorf("%s: a folder without kustomization.yaml", path))
}

func (r *reader) readResources(path string, f *kwok.File, depth int) {
	for _, d := range f.Others {
		var body struct {
			Resources []string `yaml:"resources"`
		}
		if err := d.Decode(&body); err != nil {
			r.addFault(err)
			r.addFault(fmt.Errorf("%s: only resources are followed: build the rest with kubectl kustomize and give it as -", d.Path))
			continue
		}
		for i, resource := range body.Resources {
			if strings.Contains(resource, "://") {
				r.addFault(d.Fault(fmt.Sprintf("resources[%d]", i), fmt.Errorf("%s: only files are followed", resource)))
				continue
			}
			r.readPath(filepath.Join(path, filepath.FromSlash(resource)), depth+1)
		}
	}
}

// takeDocument takes one document of another kind than Stage.
func (r *reader) takeDocument(d kwok.Document) error {
	known, err := r.out.Objects.addDocument(d)
	if known {
		return err
	}
	if d.Kind == "KwokConfiguration" {
		return r.takeOptions(d)
	}
	if own := []string{"KwokctlConfiguration", "KwokctlResource"}; slices.Contains(own, d.Kind) {
		r.addNote(d, "is for kwokctl, and ignored")
		return nil
	}
	if group, _, _ := strings.Cut(d.APIVersion, "/"); strings.HasSuffix("."+group, ".kwok.x-k8s.io") {
		return d.Fault("kind", kwok.Unknown("kind", d.Kind, append(kindNames(), "KwokConfiguration")))
	}
	r.addNote(d, "is no configuration, and ignored")
	return nil
}

func (r *reader) addNote(d kwok.Document, sentence string) {
	r.out.Notes = append(r.out.Notes, fmt.Sprintf("%s:%d: %s", d.Path, d.Line, strings.Join(strings.Fields(d.Kind+" "+d.Name+" "+sentence), " ")))
}

// takeOptions takes a KwokConfiguration: what it says comes before what was said.
func (r *reader) takeOptions(d kwok.Document) error {
	if d.APIVersion != ConfigAPIVersion {
		return d.Fault("apiVersion", fmt.Errorf("want %s, got %q", ConfigAPIVersion, d.APIVersion))
	}
	var body struct {
		Options Options `yaml:"options"`
		Tracing struct {
			Endpoint               string `yaml:"endpoint"`
			SamplingRatePerMillion int32  `yaml:"samplingRatePerMillion"`
		} `yaml:"tracing"`
	}
	body.Options = r.out.Options
	body.Tracing.Endpoint = body.Options.TracingEndpoint
	body.Tracing.SamplingRatePerMillion = body.Options.TracingSamplingRatePerMillion
	if err := d.Decode(&body); err != nil {
		return err
	}
	r.out.Options = body.Options
	r.out.Options.TracingEndpoint = body.Tracing.Endpoint
	r.out.Options.TracingSamplingRatePerMillion = body.Tracing.SamplingRatePerMillion
	return nil
}

// checkAll says what is wrong between options and objects.
func (c *Configuration) checkAll() error {
	faults := []error{c.Options.Validate()}
	for _, name := range c.Options.EnableCRDs {
		if place, ok := c.Objects.firstOfKind(name); ok {
			faults = append(faults, fmt.Errorf("%s: a %s stands here and enable-crds names %s: take one of them away", place, name, name))
		}
	}
	c.Notes = append(c.Notes, c.Options.Ignored()...)
	return errors.Join(faults...)
}

// firstOfKind returns the place of the first object of a kind.
func (o *Objects) firstOfKind(name string) (string, bool) {
	if name == KindStage {
		for _, s := range o.Stages {
			return fmt.Sprintf("%s:%d", s.Path, s.Line("")), true
		}
		return "", false
	}
	for _, d := range o.listDocuments() {
		if d.Kind == name {
			return fmt.Sprintf("%s:%d", d.Path, d.Line), true
		}
	}
	return "", false
}

func (o *Objects) listDocuments() []kwok.Document {
	out := slices.Concat(o.Logs.ruleDocuments(), o.Execs.ruleDocuments(), o.Attaches.ruleDocuments(), o.PortForwards.ruleDocuments(), o.Usages.ruleDocuments())
	for _, m := range o.Metrics {
		out = append(out, m.document)
	}
	return out
}

func (r *Rules[T]) ruleDocuments() []kwok.Document {
	var out []kwok.Document
	for _, rule := range slices.Concat(r.Pods, r.Cluster) {
		out = append(out, rule.document)
	}
	return out
}

func kindNames() []string {
	var out []string
	for _, k := range crdKinds() {
		out = append(out, k.name)
	}
	return out
}
