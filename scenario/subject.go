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

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Subject is a program that runs on the plane and is tested with it, such as an
// operator. It starts after the plane and before the fleet, with its own kubeconfig.
// It is measured and can have faults as a component; if it dies, the run ends. In
// args, env and URLs $(NAME) is a variable of env, or one that each subject has:
// KUBECONFIG; METRICS_PORT, PROBE_PORT and WEBHOOK_PORT (free ports, unless metrics.port
// is set); LOGS, the run's folder of logs; FILES, a folder of its own with files, and with
// tls.crt, tls.key and ca.crt, a certificate for localhost and 127.0.0.1; MEMBERS, a folder with a kubeconfig for each member,
// NAME.kubeconfig, and members.kubeconfig with a context for each; SEED, that of the
// run. $$(NAME) is the text $(NAME).
type Subject struct {
	Name       string            `yaml:"name"`       // a DNS label; the name in metrics, logs and faults
	Command    string            `yaml:"command"`    // an executable: a path with / is relative to the file, a name without / is looked up in PATH
	Build      *Build            `yaml:"build"`      // instead of command: a program that windtunnel builds from a Go module; a run builds it if the cache does not have it
	Windtunnel []string          `yaml:"windtunnel"` // instead of command: run windtunnel itself with these arguments
	External   bool              `yaml:"external"`   // instead of command: the process that started windtunnel is the program, such as a Go test
	Args       []string          `yaml:"args"`       // arguments of the command
	Env        map[string]string `yaml:"env"`        // environment in addition to PATH, HOME and TMPDIR; the manifest contains it, so use no secrets
	Files      map[string]string `yaml:"files"`      // texts of files in $(FILES), by name, such as a configuration that contains ports; variables are replaced
	Limits     Limits            `yaml:"limits"`     // by a control group
	Metrics    *Metrics          `yaml:"metrics"`    // where the program serves metrics, without authentication; default: nowhere
	Ready      Ready             `yaml:"ready"`      // conditions for readiness, in addition to readable metrics; default: the process runs
	CRDs       []string          `yaml:"crds"`       // files of CustomResourceDefinitions, applied and waited for before any subject starts; relative to the file
	Manifests  []string          `yaml:"manifests"`  // files of any objects, several documents each, applied after the definitions; relative to the file
	Webhooks   []string          `yaml:"webhooks"`   // files of ValidatingWebhookConfigurations, MutatingWebhookConfigurations and CustomResourceDefinitions with a conversion: the API server calls the program at $(WEBHOOK_PORT) of 127.0.0.1 in place of the services in them, and trusts the certificate in $(FILES); conversions from its start, the others once it is ready. Only on a plane that windtunnel starts; relative to the file
	Version    []string          `yaml:"version"`    // arguments that print the program's version; default: Go's build information in the executable
	Count      int               `yaml:"count"`      // number of equal subjects, NAME-1, NAME-2 ...; $(INDEX) in args, windtunnel, env and URLs is the number; 0: none; default: one, NAME
	Sharable   bool              `yaml:"sharable"`   // only for subjects run by windtunnel: spread over fleet workers round-robin; no effect without --fleet-workers
	Needs      Needs             `yaml:"needs"`      // resources that the program needs; --plan and the run say before the start if the machine lacks them
	When       Asked             `yaml:"when"`       // condition on the parameters: the subject is left out unless it holds; default: always
}

// Needs are the resources that a program will use. 0 means unknown.
type Needs struct {
	Memory      unit.Bytes `yaml:"memory"`      // resident memory
	OpenFiles   int        `yaml:"openFiles"`   // maximum of open files at the same time
	Connections int        `yaml:"connections"` // connections from one address to the same address and port: each takes a port of the machine
}

// Limits are the limits of a program.
type Limits struct {
	CPU    float64    `yaml:"cpu"`    // cores, 0 = no limit
	Memory unit.Bytes `yaml:"memory"` // 0 = no limit
}

// Metrics says where a program serves its metrics on this machine.
type Metrics struct {
	URL    string `yaml:"url"`    // such as http://127.0.0.1:8080/metrics
	Port   int    `yaml:"port"`   // instead of url: port on 127.0.0.1, path /metrics; 0: a free port, $(METRICS_PORT)
	Scheme string `yaml:"scheme"` // with port: http (default) or https, without verification of the certificate
}

// Ready says when a program is ready. All given fields must hold.
type Ready struct {
	HTTP   string        `yaml:"http"`   // a URL that answers with a status below 400; with only a path, at $(PROBE_PORT)
	TCP    string        `yaml:"tcp"`    // an address such as 127.0.0.1:$(PROBE_PORT) that takes connections
	Wait   *Wait         `yaml:"wait"`   // for objects, after the first two hold; not repeated after a restart
	Within unit.Duration `yaml:"within"` // timeout for http and tcp; default 2m
}

// DefaultReadyWithin is how long a subject has to become ready.
const DefaultReadyWithin = 2 * time.Minute

// The variables that every subject has.
const (
	VarKubeconfig  = "KUBECONFIG"
	VarMetricsPort = "METRICS_PORT"
	VarProbePort   = "PROBE_PORT"
	VarWebhookPort = "WEBHOOK_PORT"
	VarFiles       = "FILES"
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
	return []string{VarKubeconfig, VarMetricsPort, VarProbePort, VarWebhookPort, VarFiles, VarLogs, VarMembers, VarSeed}
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

// ReadManifest returns the text of a file of objects that the list at a path such as
// subjects[0].crds names, under the rules of ReadBody. file is the path of the scenario file.
func (s *Scenario) ReadManifest(file, path, name string) ([]byte, error) {
	raw, err := readInside(filepath.Dir(file), name, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.PlaceOfList(file, path), err)
	}
	return raw, nil
}

// PlaceOfList says in which line of the scenario file an item of a list stands, by a path such
// as subjects[0].crds[2], and the list's name: FILE:LINE: crds.
func (s *Scenario) PlaceOfList(file, path string) string {
	field, _, _ := strings.Cut(path[strings.LastIndex(path, ".")+1:], "[")
	if line := s.lineOf(path); line > 0 { // else it was made by a program
		at, line := s.Place(file, line)
		return fmt.Sprintf("%s:%d: %s", at, line, field)
	}
	return file + ": " + field
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
		if d.isEmptyItem(item, at) {
			continue
		}
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
	for _, texts := range []map[string]string{x.Env, x.Files} {
		for name, value := range texts {
			is(&value)
			texts[name] = value
		}
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

// isTaken tells whether samples and logs of something else have a name.
func isTaken(name string) bool {
	of, _ := component.Of(name)
	return slices.Contains(Components(), of) || slices.Contains([]string{"windtunnel", "host", "load", "fleet", "observe", "admin"}, name)
}
