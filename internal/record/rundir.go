package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/text"
)

// The files of a run directory.
const (
	StreamFile   = "records.wt"
	ManifestFile = "manifest.json"
	ScenarioFile = "scenario.yaml" // the scenario as it was read, byte for byte, with the files that it includes behind
	VerdictFile  = "verdict.json"
	SummaryFile  = "summary.txt"
	JUnitFile    = "junit.xml"
	ReportFile   = "report.html"
	OwnerFile    = "owner.json"  // which process flies the run; it is there only while one does, or when it was killed
	StatusFile   = "status.json" // where the run stands; it is there as long as the other
	LogFolder    = "logs"
)

// ErrNotRun says that a folder is not a run directory.
var ErrNotRun = errors.New("not a run directory")

// Dir is the path of a run directory.
type Dir string

// CreateDir makes a new run directory, mode 0700, with its logs folder. The
// folder must not exist yet or be empty.
func CreateDir(path string) (Dir, error) {
	if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
		return "", fmt.Errorf("create run directory: %s is not empty", path)
	}
	if err := os.MkdirAll(filepath.Join(path, LogFolder), 0o700); err != nil {
		return "", fmt.Errorf("create run directory: %w", err)
	}
	return Dir(path), nil
}

// OpenDir checks that path is a run directory and returns it with its manifest.
func OpenDir(path string) (Dir, Manifest, error) {
	d := Dir(path)
	var m Manifest
	raw, err := d.Read(ManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", m, fmt.Errorf("%s: %w: it has no %s", path, ErrNotRun, ManifestFile)
	}
	if info, statErr := os.Stat(path); err != nil && statErr == nil && !info.IsDir() {
		return "", m, fmt.Errorf("%s: %w: it is a file", path, ErrNotRun)
	}
	if err != nil {
		return "", m, fmt.Errorf("open run directory: %w", err)
	}
	if err := text.DecodeJSON(d.File(ManifestFile), raw, &m); err != nil {
		return "", m, err
	}
	if m.Format < 1 || m.Format > Format {
		return "", m, fmt.Errorf("%s: format %d, this version reads formats 1 to %d", d.File(ManifestFile), m.Format, Format)
	}
	return d, m, nil
}

// File returns the path of a file of the run directory.
func (d Dir) File(name string) string { return filepath.Join(string(d), name) }

// Format is the version of the manifest and of the record stream that is
// written. Those of format 1 are read too: they have marks for events.
const Format = 2

// Manifest is all that a reader needs to repeat a run and to judge how far its
// figures carry. It is written before the first request and completed at the end.
type Manifest struct {
	Format     int               `json:"format"`
	Run        string            `json:"run,omitempty"` // its id, by which it marks what it makes in a cluster that is not its own
	Scenario   string            `json:"scenario"`
	File       string            `json:"file"`               // base name of the scenario file
	Imported   string            `json:"imported,omitempty"` // whose file it was: clusterloader2, kube-burner; empty: a scenario
	Command    []string          `json:"command"`
	Parameters map[string]any    `json:"parameters"` // values in force, defaults included
	Seed       uint64            `json:"seed"`
	Started    time.Time         `json:"started"`          // wall time of the run clock's zero, UTC
	Versions   map[string]string `json:"versions"`         // windtunnel, go, kubernetes, etcd as linked or as reported
	SHA256     string            `json:"sha256,omitempty"` // of the executable of windtunnel; empty: not known
	Machine    Machine           `json:"machine"`
	Plane      PlaneFacts        `json:"plane"`
	Members    []MembersFact     `json:"members,omitempty"`
	Subjects   []SubjectFact     `json:"subjects,omitempty"`
	Fleet      FleetFacts        `json:"fleet"`
	Preflight  *PreflightFacts   `json:"preflight,omitempty"` // nil: the run did not get that far
	Workers    *WorkersFact      `json:"workers,omitempty"`   // nil: the process that led the run sent the load
	Warnings   []string          `json:"warnings,omitempty"`
	// MaxNeighbours is the share of all cores' time that other processes may take
	// before a miss is unknown; 0: DefaultMaxNeighbours.
	MaxNeighbours float64 `json:"max_neighbours,omitempty"`
}

// DefaultMaxNeighbours is the share of all cores' time that processes other than
// the plane, what is tested on it and windtunnel may take before the machine counts
// as not the run's own.
const DefaultMaxNeighbours = 0.1

// Neighbours returns the share of all cores' time that other processes may take.
func (m Manifest) Neighbours() float64 { return cmp.Or(m.MaxNeighbours, DefaultMaxNeighbours) }

// Machine is where the run took place.
type Machine struct {
	Cores       int    `json:"cores"`
	CPU         string `json:"cpu"`
	MemoryBytes uint64 `json:"memory_bytes"`
	Kernel      string `json:"kernel"`
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Cgroup      string `json:"cgroup"` // "v1", "v2" or "none"
}

// PlaneFacts says what control plane was flown.
type PlaneFacts struct {
	Kind       string          `json:"kind"`                 // embedded (built by windtunnel), binaries or kubeconfig
	Durability string          `json:"durability,omitempty"` // fsync or memory
	DataOn     string          `json:"data_on,omitempty"`    // tmpfs or disk
	Ready      float64         `json:"ready_seconds,omitempty"`
	Components []ComponentFact `json:"components,omitempty"`
	// Of all components together.
	CPULimit    float64 `json:"cpu_limit,omitempty"`    // cores; 0 = none
	MemoryLimit uint64  `json:"memory_limit,omitempty"` // bytes; 0 = none
	Limited     bool    `json:"limited,omitempty"`      // the limits above are in force

	Build *BuildFact `json:"build,omitempty"` // nil: windtunnel has not built or imported it
}

// BuildFact says what a plane was built of.
type BuildFact struct {
	Go          string            `json:"go,omitempty"`      // that compiled it, such as go1.26.8; empty: not known
	Flags       []string          `json:"flags,omitempty"`   // of the compilation, such as -tags=notest
	Modules     map[string]string `json:"modules,omitempty"` // of Kubernetes and etcd: version and sum by path
	Executables map[string]string `json:"executables"`       // SHA-256 by name
}

// KindAttached is the kind of a plane that a kubeconfig reaches.
const KindAttached = "kubeconfig"

// WholePlane is what samples and figures of all components together are called.
const WholePlane = "plane"

// Whole is the plane as if it were one component, with its limits; false without any.
func (p PlaneFacts) Whole() (ComponentFact, bool) {
	return ComponentFact{Name: WholePlane, CPULimit: p.CPULimit, MemoryLimit: p.MemoryLimit, Limited: p.Limited}, p.CPULimit > 0 || p.MemoryLimit > 0
}

// MembersFact is one group of the clusters beside the plane: NAME-1 to NAME-COUNT.
type MembersFact struct {
	Name             string            `json:"name"`
	Count            int               `json:"count"`
	Kind             string            `json:"kind"` // real or hollow
	Labels           map[string]string `json:"labels,omitempty"`
	Spread           map[string]int    `json:"spread,omitempty"`
	RoundTripSeconds float64           `json:"round_trip_seconds,omitempty"`
	Etcd             string            `json:"etcd,omitempty"`   // of real ones: shared or own
	APIs             []string          `json:"apis,omitempty"`   // of real ones, beside v1: what they serve; all: everything
	Args             []string          `json:"args,omitempty"`   // of real ones: of the first API server
	Models           []string          `json:"models,omitempty"` // of hollow ones: what stands in for controllers, such as binder
	Nodes            int               `json:"nodes,omitempty"`
	Workers          int               `json:"workers,omitempty"` // of hollow ones: so many workers share them; 0: they are one process
	ReadySeconds     float64           `json:"ready_seconds"`     // from the start of the first member of the run to the group's last being ready
}

// ComponentFact is one process of the plane as it was started. Arguments hold
// no secrets: those are in files.
type ComponentFact struct {
	Name        string   `json:"name"`
	Args        []string `json:"args"`
	Env         []string `json:"env,omitempty"`
	CPULimit    float64  `json:"cpu_limit,omitempty"`    // cores; 0 = none
	MemoryLimit uint64   `json:"memory_limit,omitempty"` // bytes; 0 = none
	Limited     bool     `json:"limited"`                // the limits above are in force

	Client *ClientLimit `json:"client,omitempty"` // of the configuration file that it was started with; nil: none is known
}

// ClientLimit is the rate limit of a component's client of the API server.
type ClientLimit struct {
	QPS   float64 `json:"qps"`             // below 0: none
	Burst float64 `json:"burst,omitempty"` // 0: not known
}

// SubjectFact is a program that was tested on the plane, as it was started.
type SubjectFact struct {
	ComponentFact
	Command string `json:"command"`           // the executable; empty: whoever started windtunnel, such as a test
	Version string `json:"version,omitempty"` // as it prints it or as it was built; empty: it says none
	Worker  *int   `json:"worker,omitempty"`  // whose process it is; nil: the leader's
	SHA256  string `json:"sha256,omitempty"`  // of the executable; empty: not known, or it is windtunnel's own
}

// Program is an executable that took part in a run.
type Program struct {
	Name, SHA256 string
	Path         string // where it was; empty: of windtunnel and of a plane's, which it finds itself
}

// Programs are the executables whose digests are known: windtunnel, those of the plane by
// their names, and those of the subjects by the names of the subjects.
func (m Manifest) Programs() (out []Program) {
	if m.SHA256 != "" {
		out = append(out, Program{Name: "windtunnel", SHA256: m.SHA256})
	}
	if b := m.Plane.Build; b != nil {
		for _, name := range slices.Sorted(maps.Keys(b.Executables)) {
			out = append(out, Program{Name: name, SHA256: b.Executables[name]})
		}
	}
	for _, s := range m.Subjects {
		if s.SHA256 != "" {
			out = append(out, Program{s.Name, s.SHA256, s.Command})
		}
	}
	return out
}

// Processes are the components of the plane and the subjects.
func (m Manifest) Processes() []ComponentFact {
	out := slices.Clone(m.Plane.Components)
	for _, s := range m.Subjects {
		out = append(out, s.ComponentFact)
	}
	return out
}

// FleetFacts says what fleet was simulated.
type FleetFacts struct {
	Nodes              int     `json:"nodes"`
	LeaseSeconds       float64 `json:"lease_seconds"`                  // 0 = no leases
	RenewEverySeconds  float64 `json:"renew_every_seconds"`            // 0 = never
	StatusEverySeconds float64 `json:"status_every_seconds,omitempty"` // 0 = as the stages say
	StretchedHeartbeat bool    `json:"stretched_heartbeat"`            // renewed less often than a kubelet's 10 s
}
