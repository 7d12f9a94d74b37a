package machine_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// A stage is chosen for an object, and played when its delay has passed.
func Example() {
	file, err := kwok.Load("boiler.yaml", []byte(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: warm-up}
spec:
  resourceRef: {apiGroup: example.com/v1, kind: Boiler}
  selector:
    matchExpressions:
    - jq: {key: .status.phase, operator: DoesNotExist}
  delay: {durationMilliseconds: 1500}
  next:
    statusTemplate: |
      phase: Warm
      since: {{ Now }}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := machine.Compile(file.Stages)
	if err != nil {
		fmt.Println(err)
		return
	}
	object, err := machine.Decode([]byte(`{"apiVersion": "example.com/v1", "kind": "Boiler", "metadata": {"name": "one"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	choice, err := m.Match(object, now, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(choice.Stage.Name(), "after", choice.Delay)
	for step := range choice.Stage.Steps() {
		effects, err := choice.Stage.Play(step, object, &machine.Env{Now: now.Add(choice.Delay)})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range effects {
			fmt.Printf("%s %s %s\n", e.Kind, e.Subresource, e.Body)
		}
	}
	// Output:
	// warm-up after 1.5s
	// patch status {"status":{"phase":"Warm","since":"2026-01-02T03:04:06.5Z"}}
}
