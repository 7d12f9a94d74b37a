package clusterloader2_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text/environ"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestNativeForms holds what becomes of our own configs, with the notes first.
func TestNativeForms(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		o          clusterloader2.Options
	}{
		{"load", "load/config.yaml", clusterloader2.Options{Nodes: 20}},
		{"load-slow", "load/config.yaml", clusterloader2.Options{Set: map[string]string{"Nodes": "200", "CL2_SLOW": "5"}, Env: environ.New([]string{"CL2_SIZE=40", "HOME=/"}, nil)}},
		{"suite-plain", "suite/suite.yaml", clusterloader2.Options{Nodes: 10, Scenario: "plain"}},
		{"suite-spread", "suite/suite.yaml", clusterloader2.Options{Nodes: 10, Scenario: "spread", Seed: 7}},
		{"paces", "paces/config.yaml", clusterloader2.Options{Nodes: 10, Env: environ.New([]string{"HOME=/home/x"}, nil)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, notes, err := clusterloader2.Import(filepath.Join("testdata", filepath.FromSlash(tt.file)), tt.o)
			repotest.NoError(t, err)
			var b bytes.Buffer
			for _, n := range notes {
				fmt.Fprintf(&b, "# %s\n", filepath.ToSlash(n.String()))
			}
			b.Write(native(t, s))
			repotest.Golden(t, filepath.Join("testdata", tt.name+".golden.yaml"), b.Bytes())
		})
	}
}

// native writes a scenario and reads it again as the same.
func native(t testing.TB, s *scenario.Scenario) []byte {
	t.Helper()
	var b bytes.Buffer
	repotest.NoError(t, scenario.Write(&b, s))
	again, err := scenario.Parse("made.yaml", b.Bytes(), nil)
	if err != nil {
		t.Fatalf("it is not read again: %v\n%s", err, b.Bytes())
	}
	if !reflect.DeepEqual(again.Fleet, s.Fleet) || len(again.Steps) != len(s.Steps) || len(again.Objectives) != len(s.Objectives) {
		t.Errorf("it is read as another one: %+v, %+v", again.Fleet, s.Fleet)
	}
	for i := range s.Objectives {
		if a, b := again.Objectives[i], s.Objectives[i]; a.Query != b.Query || a.Name != b.Name || a.Since != b.Since {
			t.Errorf("objective %d is read as %+v, it was %+v", i, a, b)
		}
	}
	return b.Bytes()
}

// TestCompat imports the samples of the project itself.
func TestCompat(t *testing.T) {
	root := repotest.Compat(t, "clusterloader2")
	for _, tt := range []struct {
		name       string
		nodes      int
		namespaces int
		steps      []string
		pods       string // room on a node
		objectives int
	}{
		{"density", 100, 1, []string{"creating-saturation-pods", "waiting-for-saturation-pods-to-be-running", "creating-latency-pods",
			"waiting-for-latency-pods-to-be-running", "deleting-latency-pods", "waiting-for-latency-pods-to-be-deleted",
			"deleting-saturation-pods", "waiting-for-saturation-pods-to-be-deleted"}, "110", 4},
		{"density", 1000, 10, nil, "110", 4},
		{"node-throughput", 1, 100, []string{"creating-pods", "waiting-for-pods-to-be-running", "deleting-pods", "waiting-for-pods-to-be-deleted"}, "200", 3},
		{"scheduler-throughput", 100, 1, []string{"create-scheduler-throughput-pods", "waiting-for-scheduler-throughput-pods-to-be-created",
			"delete-scheduler-throughput-pods"}, "110", 2},
	} {
		t.Run(fmt.Sprint(tt.name, tt.nodes), func(t *testing.T) {
			file := filepath.Join(root, tt.name, "config.yaml")
			raw := repotest.Must(os.ReadFile(file))(t)
			if !clusterloader2.Is(raw) {
				t.Error("it is not recognised")
			}
			s, notes, err := clusterloader2.Import(file, clusterloader2.Options{Nodes: tt.nodes})
			repotest.NoError(t, err)
			native(t, s)
			var steps []string
			for _, one := range s.Steps {
				steps = append(steps, one.Name)
			}
			if tt.steps != nil && !reflect.DeepEqual(steps, tt.steps) {
				t.Errorf("steps %q", steps)
			}
			if s.Fleet.Nodes != tt.nodes || s.Namespaces.Count != tt.namespaces || s.Fleet.Capacity["pods"] != tt.pods || len(s.Objectives) != tt.objectives {
				t.Errorf("%d nodes of %v, %d namespaces, %d objectives: %+v", s.Fleet.Nodes, s.Fleet.Capacity, s.Namespaces.Count, len(s.Objectives), s.Objectives)
			}
			for _, n := range notes {
				t.Log(n)
			}
		})
	}
}

func TestIs(t *testing.T) {
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"name: x\nsteps:\n- phases:\n", true},
		{"{{$a := 1}}\nName: x\nSteps:\n- name: a\n  Measurements:\n", true},
		{"name: x\nsteps:\n- module:\n    path: a\n", true},
		{"name: x\nsteps:\n- {name: a, phases: [{tuningSet: u}]}\n", true},
		{"name: x\nsteps: [{\"measurements\": []}]\n", true},
		{"scenario: x\nsteps: [{name: a, phases: b}]\n", false},
		{"- identifier: a\n  configPath: b\n", true},
		{"- configPath: b\n", true},
		{"scenario: x\nsteps:\n- create: {body: phases}\n", false},
		{"scenario: x\nsteps:\n- wait:\n    pods: a\n  module:\n", false},
		{"jobs:\n- name: x\n", false},
		{"global:\n  gc: true\njobs:\n- steps:\n", false},
		{"apiVersion: v1\nkind: Pod\n", false},
		{"", false},
	} {
		if got := clusterloader2.Is([]byte(tt.text)); got != tt.want {
			t.Errorf("%q: %v", tt.text, got)
		}
	}
}
