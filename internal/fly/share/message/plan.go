// Package message is what a run's leader and its workers tell each other: the plan that a
// worker is given when it joins, the parts of the run that it is told to do, and what it says
// of them. How they talk is package protocol's.
package message

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/folder"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/scenario"
)

// Plan is what a worker is given when it joins: all that the load of the run is
// made of, and where it goes. It holds secrets.
type Plan struct {
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

// FilesOf reads the files that a scenario's load is made of, and with stages those that
// its fleet's nodes are.
func FilesOf(s *scenario.Scenario, file string, stages bool) (map[string][]byte, error) {
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

// maxFile bounds a file that a scenario names, in bytes: the largest are due times.
const maxFile = 64 << 20

// readBeside reads a file of the folder that another one is in, or of one below it.
func readBeside(file, name string) ([]byte, error) {
	return folder.Read(filepath.Dir(file), name, maxFile)
}

// WriteFiles writes the scenario's files to a folder, since that is where it looks for them.
func (p Plan) WriteFiles(folder string) error {
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

// Encode returns the plan as bytes.
func (p Plan) Encode() ([]byte, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the workers' plan: %w", err)
	}
	return raw, nil
}
