package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Subject is a program that runs on top of the plane and is tested with it,
// such as an operator. It is started after the plane and before the fleet with a
// kubeconfig of its own; it is measured and can be disturbed as a component is,
// and its death ends the run. In args, env and URLs $(NAME) stands for a
// variable of env or for one of those that every subject gets: KUBECONFIG,
// METRICS_PORT and PROBE_PORT (free ports, unless metrics.port says which),
// LOGS, the run's folder of logs, MEMBERS, a folder with a kubeconfig of each
// member, NAME.kubeconfig, and members.kubeconfig with a context for each, and SEED, that of the run. $$(NAME) stands
// for the text $(NAME).
type Subject struct {
	Name       string            `yaml:"name"`       // a DNS label; its samples, log and faults go by it
	Command    string            `yaml:"command"`    // an executable: a path with / in it is relative to the file, another name is looked for in PATH
	Windtunnel []string          `yaml:"windtunnel"` // in place of command: the arguments with which windtunnel itself is the program
	External   bool              `yaml:"external"`   // in place of command: whoever started windtunnel is the program, such as a Go test
	Args       []string          `yaml:"args"`       // of the command
	Env        map[string]string `yaml:"env"`        // beside PATH, HOME and TMPDIR; it stands in the manifest: no place for secrets
	Limits     Limits            `yaml:"limits"`     // by a control group
	Metrics    *Metrics          `yaml:"metrics"`    // where it serves its own metrics, without asking for credentials; default: nowhere
	Ready      Ready             `yaml:"ready"`      // how it is known to be ready, beside that its metrics can be read; default: it runs
	CRDs       []string          `yaml:"crds"`       // files of CustomResourceDefinitions, applied and waited for before any subject starts; relative to the file
	Manifests  []string          `yaml:"manifests"`  // files of any objects, several documents each, applied after the definitions; relative to the file
	Version    []string          `yaml:"version"`    // arguments with which it prints its version; default: what Go wrote into the executable
	Count      int               `yaml:"count"`      // so many alike, NAME-1, NAME-2 ...; $(INDEX) in args, windtunnel, env and URLs says which; 0: none; default: one, NAME
	Sharable   bool              `yaml:"sharable"`   // only for subjects run by windtunnel: spread over fleet workers round-robin; no effect without --fleet-workers
	Needs      Needs             `yaml:"needs"`      // what it is going to take of the machine, as far as it is known: --plan and the run say beforehand where that is not there
}

// Needs is what a program is going to take of the machine. 0 is not known.
type Needs struct {
	Memory      unit.Bytes `yaml:"memory"`      // resident
	OpenFiles   int        `yaml:"openFiles"`   // at the same time: a process has a limit of them
	Connections int        `yaml:"connections"` // that it opens from one address to the same address and port: each takes one of the machine's ports
}

// Limits bound a program.
type Limits struct {
	CPU    float64    `yaml:"cpu"`    // cores, 0 = no limit
	Memory unit.Bytes `yaml:"memory"` // 0 = no limit
}

// Metrics says where a program serves its metrics on this machine.
type Metrics struct {
	URL    string `yaml:"url"`    // such as http://127.0.0.1:8080/metrics
	Port   int    `yaml:"port"`   // in place of url: of 127.0.0.1, path /metrics; 0: a free one, $(METRICS_PORT)
	Scheme string `yaml:"scheme"` // with port: http (default) or https, whose certificate is not verified
}

// Ready says how a program is known to be ready. With several fields all must
// hold.
type Ready struct {
	HTTP   string        `yaml:"http"`   // a URL that answers with a status below 400; with only a path, at $(PROBE_PORT)
	TCP    string        `yaml:"tcp"`    // an address such as 127.0.0.1:$(PROBE_PORT) that takes connections
	Wait   *Wait         `yaml:"wait"`   // for objects, when the first two hold; not asked again after a restart
	Within unit.Duration `yaml:"within"` // for http and tcp; default 2m
}

// DefaultReadyWithin is how long a subject has to become ready.
const DefaultReadyWithin = 2 * time.Minute

// The variables that every subject has.
const (
	VarKubeconfig  = "KUBECONFIG"
	VarMetricsPort = "METRICS_PORT"
	VarProbePort   = "PROBE_PORT"
	VarLogs        = "LOGS"
	VarMembers     = "MEMBERS"
	VarMember      = "MEMBER" // of a command that runs in members: the name of its own
	VarSeed        = "SEED"
)

// VarRun is, in a cluster that is not the run's own, the run's id: what carries it
// as the label windtunnel.dev/run is taken away with all else of the run.
const VarRun = "WINDTUNNEL_RUN"

// VarFleet is, in a cluster that is not the run's own, the value of the label and of the
// taint windtunnel.dev/fleet of the run's simulated nodes. It is not set if the run has no
// such nodes, or if they have no taint.
const VarFleet = "WINDTUNNEL_FLEET"

func subjectVariables() []string {
	return []string{VarKubeconfig, VarMetricsPort, VarProbePort, VarLogs, VarMembers, VarSeed}
}

// subjectNames are the names of the subjects.
func (s *Scenario) subjectNames() []string {
	var out []string
	for _, x := range s.Subjects {
		out = append(out, x.Name)
	}
	return out
}

var (
	variableUse = regexp.MustCompile(`\$?\$\([^()]*\)`)
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// errVariable says that a variable is not known.
var errVariable = errors.New("there is no such variable")

// ExpandVariables replaces each $(NAME) in a text; the error names one that vars
// does not have.
func ExpandVariables(text string, vars map[string]string) (string, error) {
	var missing error
	out := variableUse.ReplaceAllStringFunc(text, func(use string) string {
		if strings.HasPrefix(use, "$$") {
			return use[1:]
		}
		value, ok := vars[use[2:len(use)-1]]
		if !ok && missing == nil {
			missing = fmt.Errorf("%s: %w", use, errVariable)
		}
		return value
	})
	return out, missing
}

// ReadManifest returns the text of a file of objects, under the rules of
// ReadBody.
func (s *Scenario) ReadManifest(file, name string) ([]byte, error) {
	raw, err := readInside(filepath.Dir(file), name, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return raw, nil
}

// maxManifest bounds a file of objects, in bytes: some definitions are large.
const maxManifest = 16 << 20

// maxAlike is how many programs one subject may stand for.
const maxAlike = 64

// varIndex says which of several alike a program is.
const varIndex = "INDEX"

// subjectList decodes subjects. One with a count becomes as many as it says.
func (d *decoder) subjectList(n *yaml.Node, to *[]Subject, at place) {
	if n.Kind != yaml.SequenceNode {
		d.add(n.Line, "%s: %s is not a list", at.Name, nodeShape(n))
		return
	}
	for _, item := range n.Content {
		for i, count := 1, 1; i <= count && d.Budget > 0; i++ {
			var x Subject
			before := len(d.problems.list)
			d.Value(item, reflect.ValueOf(&x).Elem(), at.Item(len(*to)))
			if said := strictyaml.Child(item, "count"); said != nil {
				if count = x.Count; count < 0 || count > maxAlike {
					d.add(said.Line, "subject.count: %d is not 0 to %d", count, maxAlike)
				} else if count == 0 {
					break
				}
				x.setIndex(i)
			}
			*to = append(*to, x)
			if len(d.problems.list) > before {
				break // all of them have it
			}
		}
	}
}

// setIndex makes a subject the i-th of several alike.
func (x *Subject) setIndex(i int) {
	x.Count = 0
	x.Name = fmt.Sprintf("%s-%d", x.Name, i)
	is := func(text *string) {
		*text = variableUse.ReplaceAllStringFunc(*text, func(use string) string {
			if use == "$("+varIndex+")" {
				return strconv.Itoa(i)
			}
			return use
		})
	}
	for _, list := range [][]string{x.Args, x.Windtunnel} {
		for k := range list {
			is(&list[k])
		}
	}
	for name, value := range x.Env {
		is(&value)
		x.Env[name] = value
	}
	if x.Metrics != nil {
		is(&x.Metrics.URL)
	}
	is(&x.Ready.HTTP)
	is(&x.Ready.TCP)
}

func (s *Subject) setDefaults() { s.Ready.setDefaults() }

func (r *Ready) setDefaults() { r.Within = unit.Duration(DefaultReadyWithin) }

// Scheme's default depends on whether there is a port.
func (m Metrics) schemeOrDefault() string { return cmp.Or(m.Scheme, fieldWords("metrics.scheme")[0]) }

// At returns the URL of the metrics, in which port stands for one that is 0.
func (m Metrics) At(port string) string {
	if m.URL != "" {
		return m.URL
	}
	return m.schemeOrDefault() + "://127.0.0.1:" + port + "/metrics"
}

// takenNames are those that samples and logs of others have.
func takenNames() []string {
	return slices.Concat(Components(), []string{"windtunnel", "host", "load", "fleet", "observe", "admin"})
}
