package main

import (
	"os"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

// What was given back is read again when it is needed, and is the same.
func TestTrim(t *testing.T) {
	before, err := usage.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	trimExecutablePages()
	after, err := usage.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.Resident >= before.Resident {
		t.Errorf("%d bytes resident, %d before", after.Resident, before.Resident)
	}
	if got := strings.Repeat("ab", 2); got != "abab" {
		t.Error(got)
	}
}
