package planes

import (
	"slices"
	"testing"
)

// Systems without the planes know all of their verbs, to say that they need Linux.
func TestNames(t *testing.T) {
	var got []string
	for _, verb := range Verbs(Host{}) {
		got = append(got, verb.Name())
	}
	if !slices.Equal(got, names()) {
		t.Errorf("the verbs are %q, the names %q", got, names())
	}
}
