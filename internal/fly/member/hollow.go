package member

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// HollowArg is the first argument with which windtunnel is the process of a group of
// hollow members. The second is the path of a file with a HollowGroup in JSON; it
// writes a HollowReach beside it, HollowReachFile, when they can be reached.
const (
	HollowArg       = "hollow-members"
	HollowReachFile = "reach.json"
)

// HollowGroup says what hollow members are to be.
type HollowGroup struct {
	Names           []string      `json:"names"`
	Nodes           int           `json:"nodes,omitempty"`            // that each begins with
	Heartbeats      time.Duration `json:"heartbeats,omitempty"`       // how often nodes' leases are renewed; 0: never
	Binder          bool          `json:"binder,omitempty"`           // a model binds pods
	ServiceAccounts bool          `json:"service_accounts,omitempty"` // a model gives namespaces theirs
	Stages          []string      `json:"stages,omitempty"`           // what objects become by themselves
	Folder          string        `json:"folder,omitempty"`           // of files in Stages
}

// HollowReach is how hollow members are reached.
type HollowReach struct {
	CA        []byte            `json:"ca"` // PEM
	Token     string            `json:"token"`
	Addresses map[string]string `json:"addresses"` // by the member's name
	Client    string            `json:"client"`    // the token of those whose credentials can expire
	// Control is where members can be broken, and the token for that.
	Control      string `json:"control"`
	ControlToken string `json:"control_token"`
}

// modelNames names what goes on in hollow members, beside the removal of namespaces and
// of what belongs to an owner.
func modelNames(m *scenario.Members) (out []string) {
	for name, on := range map[string]bool{"binder": m.Binder, "heartbeats": m.Heartbeats > 0, "service accounts": m.ServiceAccounts} {
		if on {
			out = append(out, name)
		}
	}
	for _, set := range m.Stages {
		out = append(out, "stages "+set)
	}
	slices.Sort(out)
	return out
}

// startHollow starts a group of hollow members.
func (g *group) startHollow(ctx context.Context, fact *record.MembersFact) (err error) {
	fact.Models = modelNames(g.spec)
	base, err := filepath.Abs(g.options.BaseDir)
	if err != nil {
		return fmt.Errorf("folder of hollow-%s: %w", g.spec.Name, err)
	}
	group := HollowGroup{
		Names: g.spec.MemberNames(), Nodes: g.spec.Nodes, Heartbeats: time.Duration(g.spec.Heartbeats), Binder: g.spec.Binder,
		ServiceAccounts: g.spec.ServiceAccounts, Stages: g.spec.Stages, Folder: base,
	}
	start := g.hollowProcess
	if g.options.Hollow != nil {
		start = g.options.Hollow
	}
	reach, workers, err := start(ctx, group)
	if err != nil {
		return err
	}
	fact.Workers = workers
	controls := map[string]hollowControl{} // by address: the members of a process share one
	return g.eachMember(ctx, 1, func(_ context.Context, i int, m *Member) error {
		control, known := controls[reach[i].Control]
		if !known {
			var err error
			if control, err = reach[i].newControl(); err != nil {
				return err
			}
			controls[reach[i].Control] = control
		}
		return g.reachHollow(m, reach[i], control)
	})
}

// reachHollow gives a member its endpoints.
func (g *group) reachHollow(m *Member, reach HollowReach, control hollowControl) error {
	e := endpoint.Bearer(reach.Addresses[m.Name], reach.CA, reach.Token)
	client := endpoint.Bearer(reach.Addresses[m.Name], reach.CA, reach.Client)
	m.server = control.of(m.Name)
	m.endpoints = map[string]endpoint.Endpoint{plane.Admin: e, plane.Observe: e, plane.Fleet: e, plane.Load: client, plane.Client: client}
	return g.linkMember(m, nil)
}

// hollowProcess starts the members as one process, whose CPU and memory are measured as
// a component's.
func (g *group) hollowProcess(ctx context.Context, group HollowGroup) (out []HollowReach, workers int, err error) {
	name := "hollow-" + g.spec.Name
	folder, err := g.plane.Folder(name)
	if err != nil {
		return nil, 0, err
	}
	said, err := json.Marshal(group)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "group.json"), said, 0o600)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("make a folder for %s: %w", name, err)
	}
	executable := g.options.Executable
	if executable == "" {
		if executable, err = os.Executable(); err != nil {
			return nil, 0, fmt.Errorf("find own executable: %w", err)
		}
	}
	var reach HollowReach
	ready := func(context.Context) error {
		raw, err := os.ReadFile(filepath.Join(folder, HollowReachFile))
		if err != nil {
			return fmt.Errorf("not there yet: %w", err)
		}
		return json.Unmarshal(raw, &reach)
	}
	program := plane.Program{Name: name, Path: executable, Args: []string{HollowArg, filepath.Join(folder, "group.json")}, Ready: ready, LogFile: filepath.Join(g.options.LogDir, name+".log")}
	if err := g.plane.LaunchStore(ctx, program); err != nil {
		return nil, 0, err
	}
	return slices.Repeat([]HollowReach{reach}, len(group.Names)), 0, nil
}
