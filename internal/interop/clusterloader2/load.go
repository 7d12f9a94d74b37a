package clusterloader2

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	texttemplate "text/template"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/text/limit"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// flagFault is a fault of what stands in no file.
func flagFault(format string, args ...any) *scenario.ValidationError {
	return &scenario.ValidationError{Text: fmt.Sprintf(format, args...)}
}

// decodeSuite decodes a suite.
func (im *importer) decodeSuite(file string, raw []byte) config.Suite {
	var out config.Suite
	if _, err := im.decodeFile(file, linemap.Verbatim(raw), &out); err != nil {
		im.faults.addFault(file, err.Line, "%s", err.Text)
		return nil
	}
	for i, s := range out {
		switch {
		case s.ConfigPath == "":
			im.faults.addAt(s.Position(), "[%d].configPath: a config is needed", i)
		case strings.Contains(s.Identifier, "_"):
			im.faults.addAt(s.At("identifier"), "[%d].identifier: %q has an underscore, which separates the parts of result files' names", i, s.Identifier)
		case slices.ContainsFunc(out[:i], func(o config.SuiteScenario) bool { return o.Identifier == s.Identifier }):
			im.faults.addAt(s.At("identifier"), "[%d].identifier: %q stands twice", i, s.Identifier)
		}
	}
	return out
}

// suiteScenario is the variable of --set that says which scenario of a suite is meant.
const suiteScenario = "Scenario"

// chooseScenario picks the scenario of a suite that is meant.
func (im *importer) chooseScenario(file string, raw []byte) (config.SuiteScenario, bool) {
	all := im.decodeSuite(file, raw)
	if len(im.faults.list) > 0 {
		return config.SuiteScenario{}, false
	}
	wanted := cmp.Or(im.options.Scenario, im.options.Set[suiteScenario])
	var names []string
	for _, s := range all {
		names = append(names, s.Identifier)
		if s.Identifier == wanted || len(all) == 1 && wanted == "" {
			im.suffix = s.Identifier
			return s, true
		}
	}
	if wanted == "" {
		im.faults.addFault(file, 1, "the suite has %s: choose one with --set Scenario=NAME: %s", unit.Count(len(all), "scenarios"), strings.Join(names, ", "))
	} else {
		im.faults.addFault(file, 1, "the suite has no scenario %q; it has %s", wanted, strings.Join(names, ", "))
	}
	return config.SuiteScenario{}, false
}

// followSuite reads the config that a suite's scenario names. Paths in a suite are
// relative to where ClusterLoader2 is started; where that is not known they are
// taken from the suite's folder or the nearest one above it that has them.
func (im *importer) followSuite(file string, s config.SuiteScenario) (string, []byte, error) {
	path, err := findFile(filepath.Dir(file), s.ConfigPath)
	if err != nil {
		im.faults.addAt(s.At("configPath"), "configPath: %v", err)
		return "", nil, im.faults.joinErrors()
	}
	for _, o := range s.OverridePaths {
		own, err := findFile(filepath.Dir(file), o)
		if err != nil {
			im.faults.addAt(s.At("overridePaths"), "overridePaths: %v", err)
			return "", nil, im.faults.joinErrors()
		}
		im.own = append(im.own, own)
	}
	raw, err := readAny(path)
	return path, raw, err
}

func findFile(folder, name string) (string, error) {
	for _, dir := range slices.Concat([]string{"."}, foldersAbove(folder)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%q is neither here nor in %s nor in a folder above it", name, folder)
}

// readConfig renders and decodes a config and puts the steps of modules in place.
func (im *importer) readConfig(file string, raw []byte) *config.Config {
	c := &config.Config{}
	if !im.renderFile(file, raw, nil, c) && len(im.faults.list) == 0 {
		im.faults.addFault(file, 1, "it renders to nothing")
	}
	if len(im.faults.list) > 0 {
		return c
	}
	c.File = file
	c.Steps = im.expandModules(c.Steps, nil)
	return c
}

// maxRendered bounds what a config may grow to.
const maxRendered = 16 << 20

var errTooLong = errors.New("it renders to more than 16 MiB")

// renderConfig executes a config or module: it is a text template as a whole.
func renderConfig(text string, functions texttemplate.FuncMap, data map[string]any) (*texttemplate.Template, *linemap.Text, *linemap.Error) {
	t := texttemplate.New("config").Funcs(limit.Functions(functions))
	out, err := linemap.Execute(t, text, data, maxRendered, errTooLong)
	return t, out, err
}

// renderFile renders a config or module and decodes it; false when it renders to nothing.
// A module has variables of its own beside those that were given.
func (im *importer) renderFile(name string, raw []byte, own map[string]any, to any) bool {
	variables := maps.Clone(im.variables)
	maps.Copy(variables, own)
	t, text, err := renderConfig(string(raw), im.templateFunctions(), variables)
	found := false
	if err == nil {
		names, whole := template.VariablesOf(t)
		im.reads.Add(names, whole, own)
		found, err = im.decodeFile(name, text, to)
	}
	if err != nil {
		im.faults.addFault(name, err.Line, "%s", err.Text)
	}
	return found
}

// Bounds of modules: how deep they nest, how many are read, how many steps
// they make.
const (
	maxDepth   = 20
	maxModules = 1_000
	maxSteps   = 10_000
)

// expandModules replaces steps that name modules by the modules' steps. around are
// the modules that this one is in. A module sees the variables of the run and its
// own parameters, not those of the modules around it.
func (im *importer) expandModules(steps []config.Step, around []string) []config.Step {
	var out []config.Step
	for _, s := range steps {
		if s.Module.Path == "" {
			out = append(out, s)
			continue
		}
		if len(s.Phases)+len(s.Measurements) > 0 {
			im.faults.addAt(s.Position(), "step %q: exactly one of phases, measurements and module is needed", s.Name)
			continue
		}
		out = append(out, im.readModule(s.Module, around)...)
		if len(out) > maxSteps {
			im.faults.addAt(s.Position(), "modules make more than %d steps", maxSteps)
			return nil
		}
	}
	return out
}

func (im *importer) readModule(m config.ModuleRef, around []string) []config.Step {
	if len(around) >= maxDepth || len(im.faults.list) > 0 {
		if len(im.faults.list) == 0 {
			im.faults.addAt(m.Position(), "module.path: modules nest deeper than %d: %s", maxDepth, m.Path)
		}
		return nil
	}
	if im.modules++; im.modules > maxModules {
		im.faults.addAt(m.Position(), "module.path: more than %d modules", maxModules)
		return nil
	}
	raw, err := im.read(m.Path)
	if err != nil {
		im.faults.addAt(m.At("path"), "module.path: %s: %v", m.Path, err)
		return nil
	}
	var content config.Module
	im.renderFile(im.shownPath(m.Path), raw, m.Params.Values, &content) // to nothing where it is switched off: a module of no steps
	return im.expandModules(content.Steps, append(slices.Clip(around), m.Path))
}
