package usage_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

func ExampleMachine() {
	m := usage.Machine()
	fmt.Println(m.Cores > 0, m.MemoryBytes > 0)
	// Output: true true
}
