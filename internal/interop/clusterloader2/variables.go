package clusterloader2

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	texttemplate "text/template"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/dialect"
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
)

// imageRegistry is what .ImageRegistry is unless a variable says otherwise. No
// image is pulled here; it only has to be a name.
const imageRegistry = "registry.k8s.io"

// makeVariables makes the variables of the templates: those of override files, then
// those of the environment, which may not contradict them, then --set. The file
// is the config, for messages.
func (im *importer) makeVariables(file string) map[string]any {
	out := map[string]any{"ImageRegistry": imageRegistry}
	for _, overrides := range slices.Concat(im.options.Overrides, im.own) {
		maps.Copy(out, im.readOverride(overrides))
	}
	im.addEnvironment(file, out)
	nodes := im.options.Nodes
	for _, name := range slices.Sorted(maps.Keys(im.options.Set)) {
		out[name] = readVariable(im.options.Set[name])
	}
	if v, ok := im.options.Set["Nodes"]; ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			im.faults.list = append(im.faults.list, flagFault("--set Nodes=%s: %q is not a whole number", v, v))
		}
		nodes = n
	}
	if nodes <= 0 && len(im.faults.list) == 0 {
		im.faults.addFault(file, 1, "the number of simulated nodes is not given: add --set Nodes=100")
	}
	im.options.Nodes = nodes
	out["Nodes"] = nodes
	return out
}

// readOverride reads one file of variables.
func (im *importer) readOverride(file string) map[string]any {
	raw, err := readAny(file)
	if err != nil {
		im.faults.list = append(im.faults.list, flagFault("--overrides: %v", err))
		return nil
	}
	var p config.Params
	if _, err := im.decodeFile(file, linemap.Verbatim(raw), &p); err != nil {
		im.faults.addFault(file, err.Line, "%s", err.Text)
	}
	names := map[string]bool{}
	for name := range p.Values {
		names[name] = true
	}
	im.overrides = append(im.overrides, overrides{"overrides " + filepath.Base(file), names})
	return p.Values
}

// addEnvironment adds the CL2_ variables.
func (im *importer) addEnvironment(file string, to map[string]any) {
	for _, name := range im.options.Env.Names("CL2_") {
		text, ok := im.options.Env.Lookup(name)
		if !ok {
			im.noteDifference(config.Position{File: file, Line: 1}, "environment", "the templates do not see %s, because it looks like a secret: --env %s gives it to them", name, name)
			continue
		}
		value := readVariable(text)
		if have, ok := to[name]; ok && !sameValue(have, value) {
			if _, set := im.options.Set[name]; !set {
				im.faults.list = append(im.faults.list, flagFault("%s is %v in the override files and %v in the environment", name, have, value))
			}
		}
		to[name] = value
	}
}

// sameValue tells whether two variables have one value; numbers of files are
// float64 and those of the environment int64.
func sameValue(a, b any) bool {
	if whole, ok := b.(int64); ok {
		b = float64(whole)
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// checkRead refuses what --set gives and nothing reads, and notes what other sources give
// in vain: they may be those of several configs. A config with other faults was not read
// to its end.
func (im *importer) checkRead(file string) {
	if len(im.faults.list) > 0 {
		return
	}
	own := []string{"Nodes", nodeLabels}
	if im.suffix != "" {
		own = append(own, suiteScenario)
	}
	for _, name := range kit.Unread(&im.reads, im.options.Set) {
		if !slices.Contains(own, name) {
			im.faults.list = append(im.faults.list, flagFault("%s", kit.UnreadFault(file, name, im.options.Set[name], im.reads.Known(own...))))
		}
	}
	environment := map[string]bool{}
	for _, name := range im.options.Env.Names("CL2_") {
		environment[name] = true
	}
	for _, given := range append(im.overrides, overrides{"environment", environment}) {
		if unread := kit.Unread(&im.reads, given.names); len(unread) > 0 {
			im.addNote(config.Position{File: file, Line: 1}, given.where, "no template reads %s", kit.ListSome(unread))
		}
	}
}

// overrides are the names of the variables that one source gives.
type overrides struct {
	where string
	names map[string]bool
}

// readVariable reads a text as ClusterLoader2 reads environment variables.
func readVariable(text string) any {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	if v, err := strconv.ParseBool(text); err == nil {
		return v
	}
	return text
}

// templateFunctions returns those of configs and modules.
func (im *importer) templateFunctions() texttemplate.FuncMap {
	out := dialect.Functions(template.NewSource(im.seedOf()))
	out["IncludeFile"] = im.includeFile
	out["IncludeEmbedFile"] = im.includeFile
	out["ExpandEnv"] = im.expandVariables
	return out
}

// includeFile returns a file as it is. ClusterLoader2 looks beside its own binary
// for one of these functions; here both look beside the config.
func (im *importer) includeFile(file string) (string, error) {
	raw, err := im.read(im.expandVariables(file))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return string(raw), nil
}

// expandVariables puts variables of the environment into a text.
func (im *importer) expandVariables(text string) string {
	return os.Expand(text, func(name string) string {
		value, _ := im.options.Env.Lookup(name)
		return value
	})
}

func (im *importer) seedOf() uint64 {
	if im.options.Seed == 0 {
		return 1
	}
	return im.options.Seed
}
