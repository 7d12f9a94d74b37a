package plane

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/scenario"
)

// withConnection returns the settings of a kube-scheduler with its configuration
// file, if the scenario gives one, replaced by a copy that says how to reach
// the plane: with --config the scheduler ignores --kubeconfig and
// --leader-elect, and a scenario cannot know the kubeconfig.
func withConnection(process string, own scenario.Component, s site, baseDir string) (scenario.Component, error) {
	path, ok := valueOf(own.Flags, "config")
	if !ok {
		return own, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(baseDir, path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return own, fmt.Errorf("kube-scheduler: flag config: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return own, fmt.Errorf("kube-scheduler: flag config: %s: %w", path, err)
	}
	if config == nil {
		return own, fmt.Errorf("kube-scheduler: flag config: %s is empty", path)
	}
	setDefault(config, "clientConnection", "kubeconfig", s.pki.File("scheduler.conf"))
	setDefault(config, "leaderElection", "leaderElect", s.several(component.Scheduler))
	if raw, err = yaml.Marshal(config); err != nil {
		return own, fmt.Errorf("kube-scheduler: flag config: %w", err)
	}
	complete := filepath.Join(s.folder, process+"-config.yaml")
	if err := os.WriteFile(complete, raw, 0o600); err != nil {
		return own, fmt.Errorf("kube-scheduler: flag config: %w", err)
	}
	own.Flags = maps.Clone(own.Flags)
	for name := range own.Flags {
		if flagName(name) == "config" {
			own.Flags[name] = complete
		}
	}
	return own, nil
}

// setDefault sets config[section][key] unless it is set.
func setDefault(config map[string]any, section, key string, value any) {
	inner, ok := config[section].(map[string]any)
	if !ok {
		inner = map[string]any{}
		config[section] = inner
	}
	if _, ok := inner[key]; !ok {
		inner[key] = value
	}
}
