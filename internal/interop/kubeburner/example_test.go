package kubeburner_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/interop/kubeburner"
)

// A config becomes a scenario, and notes on what is not done as it says.
func ExampleImport() {
	s, notes, err := kubeburner.Import("testdata/churn.yml", kubeburner.Options{Set: map[string]string{"Nodes": "10"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Name, "has", len(s.Steps), "steps and", s.Fleet.Nodes, "nodes")
	for _, n := range notes {
		fmt.Println(n)
	}
	// Output:
	// churn has 6 steps and 10 nodes
	// testdata/churn.yml:4: job.preLoadImages: simulated nodes pull no images: nothing is loaded before a job
}
