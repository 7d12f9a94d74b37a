package kubeburner

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	texttemplate "text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/folder"
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/dialect"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/text/limit"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
)

// maxFile bounds a config, and what a template makes of it, and each file that
// it names.
const maxFile = 4 << 20

// errTooLarge says that a file is beyond that.
var errTooLarge = errors.New("more than 4 MiB")

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a file")
	case info.Size() > maxFile:
		return nil, errTooLarge
	}
	return os.ReadFile(path)
}

// templateVariables returns those of the config's own template but for the environment: the
// user data, then what was set, then the UUID; later ones win.
func (o Options) templateVariables() (map[string]any, error) {
	out := map[string]any{}
	for _, path := range o.Overrides {
		raw, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read overrides: %w", err)
		}
		var data map[string]any
		if err := yaml.Unmarshal(raw, &data); err != nil {
			return nil, fmt.Errorf("%s: not a mapping of names to values: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		maps.Copy(out, data)
	}
	for key, value := range o.Set {
		if !ofTree(key) {
			out[key] = typedValue(value)
		}
	}
	out["UUID"] = o.UUID // which may be that of --set
	return out, nil
}

// ofTree tells whether a --set names a place in the config, and not a variable
// of its template.
func ofTree(key string) bool {
	first, _, more := strings.Cut(key, ".")
	return more && (first == "global" || first == "jobs" || first == "metricsEndpoints")
}

// renderConfig executes a config's template.
func (o Options) renderConfig(f *findings, raw []byte, vars map[string]any) (*linemap.Text, bool) {
	functions := dialect.Functions(template.NewSource(o.Seed))
	look := func(name string) string { value, _ := o.Env.Lookup(name); return value }
	functions["env"] = look
	functions["expandenv"] = func(s string) string { return os.Expand(s, look) }
	functions["ReadFile"] = func(path string) (string, error) {
		text, err := readBeside(filepath.Dir(f.file), path)
		return string(text), err
	}
	missing := "error"
	if o.AllowMissing {
		missing = "zero"
	}
	t := texttemplate.New("config").Option("missingkey=" + missing).Funcs(limit.Functions(functions))
	o.addEnvironment(t, raw, vars)
	out, at := linemap.Execute(t, string(raw), vars, maxFile, errTooLarge)
	if at == nil {
		names, whole := template.VariablesOf(t)
		f.reads.Add(names, whole, nil)
		return out, true
	}
	if strings.Contains(at.Text, "map has no entry for key") {
		at.Text += " (give it by the environment, --set NAME=VALUE or --overrides FILE)"
		for _, note := range o.Env.Notes() {
			at.Text += "; " + note
		}
	}
	f.addFaultAt(at.Line, "%s", at.Text)
	return nil, false
}

// checkRead refuses what --set gives and the config does not read, and notes what files of
// variables give in vain: they may be those of several configs.
func (s *source) checkRead(vars map[string]any) bool {
	own := []string{"Nodes", "UUID"}
	others := maps.Clone(vars)
	for _, name := range sortedKeys(s.opts.Set) {
		delete(others, name)
	}
	delete(others, "UUID")
	for _, name := range kit.Unread(&s.reads, s.opts.Set) {
		if !ofTree(name) && !slices.Contains(own, name) {
			s.addFault("", 0, kit.UnreadFault(s.file, name, s.opts.Set[name], s.reads.Known(own...)))
		}
	}
	if unread := kit.Unread(&s.reads, others); len(unread) > 0 {
		s.addNote(0, "overrides", "the config does not read %s", kit.ListSome(unread))
	}
	return len(s.faults) == 0
}

// addEnvironment puts those variables of the environment among a template's that it names.
func (o Options) addEnvironment(t *texttemplate.Template, raw []byte, vars map[string]any) {
	probe, err := t.Clone()
	if err == nil {
		probe, err = probe.Parse(string(raw))
	}
	if err != nil {
		return // the execution says so
	}
	for _, part := range probe.Templates() {
		if part.Tree == nil || part.Root == nil {
			continue
		}
		for _, name := range namesIn(part.Root) {
			if _, ok := vars[name]; ok {
				continue
			}
			if value, ok := o.Env.Lookup(name); ok {
				vars[name] = value
			}
		}
	}
}

// namesIn lists what may be the name of a variable in a template: fields, and texts
// such as those of index.
func namesIn(n parse.Node) (out []string) {
	for _, action := range actions.FindAllString(n.String(), -1) {
		for _, m := range name.FindAllStringSubmatch(action, -1) {
			out = append(out, m[1]+m[2])
		}
	}
	return out
}

var (
	actions = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	name    = regexp.MustCompile(`\.([A-Za-z_][A-Za-z0-9_]*)|["` + "`" + `]([A-Za-z_][A-Za-z0-9_]*)["` + "`" + `]`)
)

// readBeside reads a file of a folder, by a path inside of it.
func readBeside(dir, path string) ([]byte, error) {
	if filepath.IsAbs(path) {
		abs, err := filepath.Abs(dir)
		if err == nil {
			path, err = filepath.Rel(abs, path)
		}
		if err != nil {
			return nil, err
		}
	}
	if !filepath.IsLocal(filepath.Clean(path)) {
		return nil, fmt.Errorf("%s: it is not in the config's folder", path)
	}
	return folder.Read(dir, filepath.Clean(path), maxFile)
}
