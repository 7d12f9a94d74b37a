package plane

import (
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/record"
)

// ClientLimitOf returns the rate limit that the configuration file of a program's
// flag --config gives its client (clientConnection, as Kubernetes' component
// configuration has it); nil without that flag or where the file says none. A file
// that cannot be read is the program's to complain about. Dir is what a relative path
// is relative to.
func ClientLimitOf(args []string, dir string) *record.ClientLimit {
	path := ""
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case name != "config" || !strings.HasPrefix(arg, "-"):
		case given:
			path = value
		case i+1 < len(args):
			path = args[i+1]
		}
	}
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var config struct {
		Kind             string `json:"kind"`
		ClientConnection *struct {
			QPS   float64 `json:"qps"`
			Burst float64 `json:"burst"`
		} `json:"clientConnection"`
	}
	if yaml.Unmarshal(raw, &config) != nil {
		return nil
	}
	var out record.ClientLimit
	if c := config.ClientConnection; c != nil {
		out = record.ClientLimit{QPS: c.QPS, Burst: c.Burst}
	}
	if config.Kind == "KubeSchedulerConfiguration" { // its own defaults, where the file says nothing
		if out.QPS == 0 {
			out.QPS = 50
		}
		if out.Burst == 0 {
			out.Burst = 100
		}
	}
	if out.QPS == 0 {
		return nil
	}
	return &out
}
