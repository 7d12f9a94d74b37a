package main

import (
	"os"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What was given back is read again when it is needed, and is the same.
func TestTrim(t *testing.T) {
	before := repotest.Must(usage.Of(os.Getpid()))(t)
	trimExecutablePages()
	after := repotest.Must(usage.Of(os.Getpid()))(t)
	if after.Resident >= before.Resident {
		t.Errorf("%d bytes resident, %d before", after.Resident, before.Resident)
	}
	if got := strings.Repeat("ab", 2); got != "abab" {
		t.Error(got)
	}
}
