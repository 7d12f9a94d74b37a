package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"hash"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/scenario"
)

// workerPlan is what a worker is given when it joins: all that the load of the run is
// made of, and where it goes. It holds secrets.
type workerPlan struct {
	Text        []byte            `json:"text"`
	Set         map[string]string `json:"set,omitempty"`
	Seed        uint64            `json:"seed"`
	Files       map[string][]byte `json:"files,omitempty"` // bodies and due times, by the names that the scenario has for them
	Stamp       object.Stamp      `json:"stamp"`
	Destructive bool              `json:"destructive,omitempty"`
	Kubeconfig  []byte            `json:"kubeconfig,omitempty"` // empty: the file at Cluster
	Cluster     string            `json:"cluster,omitempty"`    // path of a kubeconfig on this machine
	Senders     int               `json:"senders"`              // workers that send load; those after them keep nodes alive

	FleetKubeconfig []byte `json:"fleetKubeconfig,omitempty"` // as Kubeconfig, with the fleet's identity
	FleetName       string `json:"fleetName,omitempty"`       // of its nodes
	Version         string `json:"version,omitempty"`         // of the program, for templates of stages
}

// order is what workers are told of a part of the load, or one of them of the end of a
// path.
type order struct {
	Part   steps.Part        `json:"part"`
	Known  inventory.Changes `json:"known,omitempty"`
	Answer *answerOrder      `json:"answer,omitempty"`
}

// prepared is what a worker says of a part that it has planned.
type prepared struct {
	Digest string `json:"digest"`
}

// sentPart is what it says of the part's end.
type sentPart struct {
	Seen inventory.Changes `json:"seen,omitempty"`
}

// filesOf reads the files that a scenario's load is made of, and with stages those that
// its fleet's nodes are.
func filesOf(s *scenario.Scenario, file string, stages bool) (map[string][]byte, error) {
	out := map[string][]byte{}
	played := slices.Clone(s.Fleet.Stages)
	for i := range s.Members {
		if s.Members[i].Kind == scenario.HollowMember {
			played = append(played, s.Members[i].Stages...)
		}
	}
	for _, name := range played {
		if !stages || slices.Contains(builtin.Names(), name) {
			continue
		}
		raw, err := readBeside(file, name)
		if err != nil {
			return nil, fmt.Errorf("read stages: %w", err)
		}
		out[name] = raw
	}
	for _, body := range s.Bodies {
		if body.File == "" {
			continue
		}
		raw, err := s.ReadBody(file, body)
		if err != nil {
			return nil, err
		}
		out[body.File] = raw
	}
	for step := range s.AllSteps() {
		if p := step.Pace(); p != nil && p.Replay != "" {
			raw, err := s.ReadReplay(file, p.Replay)
			if err != nil {
				return nil, err
			}
			out[p.Replay] = raw
		}
	}
	return out, nil
}

// readBeside reads a file of the folder that another one is in, or of one below it.
func readBeside(file, name string) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(name)
}

// writeFiles writes the scenario's files to a folder, since that is where it looks for them.
func (p workerPlan) writeFiles(folder string) error {
	for name, raw := range p.Files {
		path := filepath.Join(folder, name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("file %q of the scenario cannot be written: it is outside of its folder", name)
		}
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err != nil {
			return fmt.Errorf("file %q of the scenario cannot be written: %w", name, err)
		}
	}
	return nil
}

// compileScenario reads the scenario as the leader has read it.
func (p workerPlan) compileScenario(folder string) (*steps.Workload, error) {
	if err := p.writeFiles(folder); err != nil {
		return nil, err
	}
	file := filepath.Join(folder, record.ScenarioFile)
	s, err := scenario.Parse(file, p.Text, p.Set)
	if err != nil {
		return nil, err
	}
	s.Seed = p.Seed
	w, err := steps.Compile(s, file, p.Stamp)
	if err == nil {
		w.Destructive = p.Destructive
	}
	return w, err
}

// sampled is how many calls of a plan its digest is made of.
const sampled = 32

// planDigest tells plans apart: what they ask for, and some of their calls, from the first
// to the last. Two processes whose plans are the same send the same.
func planDigest(asked record.Detail, p load.Plan) string {
	h := fnv.New128a()
	fmt.Fprintf(h, "%+v %+v\n", asked, p.Ops)
	count := asked.Count
	if count == 0 { // a pool that only time ends
		count = sampled
	}
	for k := range min(sampled, count) {
		digestCall(h, p, k*(count-1)/max(1, min(sampled, count)-1))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func digestCall(h hash.Hash, p load.Plan, i int) {
	var req load.Request
	wanted, err := p.Build(i, &req)
	fmt.Fprintf(h, "%d %d %v %s %s %x %v\n", i, p.Pace.Due(i), wanted, req.Method, req.Path, req.Body, err)
}

// encodeJSON returns the plan as bytes.
func (p workerPlan) encodeJSON() ([]byte, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the workers' plan: %w", err)
	}
	return raw, nil
}

// planPart plans a part on the worker's side: what others have seen is applied first,
// and what planning itself changed is none of the worker's news.
func planPart(ctx context.Context, s *steps.Session, o order) (load.Plan, error) {
	s.Created.Apply(o.Known)
	p, err := s.PlanPart(ctx, o.Part)
	_ = s.Created.TakeChanges()
	return p, err
}
