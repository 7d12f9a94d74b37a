package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/record"
)

// neighbours is the share of all cores' time that other processes may take before a
// miss is unknown; 0: the default.
type neighbours float64

func (n *neighbours) addFlag(verb *cobra.Command) {
	verb.Flags().Var(n, "max-neighbours", fmt.Sprintf("`SHARE` of the CPU that other processes may use before a missed objective is unknown, such as 30%%; raise it on laptops and shared runners (default %.0f%%)",
		100*record.DefaultMaxNeighbours))
}

// Set takes 30% or 0.3.
func (n *neighbours) Set(text string) error {
	v, err := parseShare("--max-neighbours", text)
	if err != nil {
		return fmt.Errorf("want a share such as 30%%")
	}
	if v > 1 {
		return fmt.Errorf("want at most 100%%, all of the machine")
	}
	*n = neighbours(v)
	return nil
}

// String writes it as a flag's default: none, as the help text says it.
func (n *neighbours) String() string {
	if *n == 0 {
		return ""
	}
	return fmt.Sprintf("%g%%", 100*float64(*n))
}

// Type is the kind of value.
func (*neighbours) Type() string { return "SHARE" }
