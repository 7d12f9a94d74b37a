package kubeburner

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	texttemplate "text/template"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/load/template"
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

// variables are those of the config's own template: the environment, then the
// user data, then what was set, then the UUID; later ones win.
func (o Options) variables() (map[string]any, error) {
	out := map[string]any{}
	for name, value := range o.Env {
		out[name] = value
	}
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
			out[key] = typed(value)
		}
	}
	out["UUID"] = o.UUID
	return out, nil
}

// ofTree tells whether a --set names a place in the config, and not a variable
// of its template.
func ofTree(key string) bool {
	first, _, more := strings.Cut(key, ".")
	return more && (first == "global" || first == "jobs" || first == "metricsEndpoints")
}

// render executes a config's template.
func (o Options) render(f *findings, raw []byte, vars map[string]any) (*linemap.Text, bool) {
	functions := template.KubeBurnerFunctions(o.Seed)
	functions["env"] = func(name string) string { return o.Env[name] }
	functions["expandenv"] = func(s string) string { return os.Expand(s, func(name string) string { return o.Env[name] }) }
	functions["ReadFile"] = func(path string) (string, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(f.file), path)
		}
		text, err := readFile(path)
		return string(text), err
	}
	missing := "error"
	if o.AllowMissing {
		missing = "zero"
	}
	t := texttemplate.New("config").Option("missingkey=" + missing).Funcs(limit.Functions(functions))
	out, at := linemap.Execute(t, string(raw), vars, maxFile, errTooLarge)
	if at == nil {
		return out, true
	}
	if strings.Contains(at.Text, "map has no entry for key") {
		at.Text += " (give it by the environment, --set NAME=VALUE or --overrides FILE)"
	}
	f.add(at.Line, "%s", at.Text)
	return nil, false
}
