package clusterloader2_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
)

func ExampleImport() {
	s, notes, err := clusterloader2.Import("testdata/suite/density/config.yaml", clusterloader2.Options{Nodes: 10})
	if err != nil {
		panic(err)
	}
	for _, step := range s.Steps {
		fmt.Println(step.Name)
	}
	for _, o := range s.Objectives {
		fmt.Println(o.Name, o.SLI, o.Statistic)
	}
	fmt.Println(len(notes), "notes")
	// Output:
	// create
	// wait
	// Startup pod-startup p99
	// Throughput pods-bound-rate max
	// 0 notes
}
