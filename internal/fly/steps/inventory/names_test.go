package inventory

import (
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

// TestNames: what an item's objects are called says which they are, and nothing else does.
func TestNames(t *testing.T) {
	for _, it := range []scenario.Item{{Name: "a"}, {Name: "a-1", Every: 3}, {Name: "a", Replicas: 2}, {Name: "a", Every: 2, Replicas: 12}} {
		for index := 0; index < 30; index += Every(it) {
			for replica := 1; replica <= Replicas(it); replica++ {
				want := Ordinal{Index: index, Replica: replica}
				if got, ok := ParseName(it, NameOf(it, want)); !ok || got != want {
					t.Errorf("%+v: %s is %+v, want %+v", it, NameOf(it, want), got, want)
				}
			}
		}
	}
	for name, it := range map[string]scenario.Item{
		"b-0": {Name: "a"}, "a": {Name: "a"}, "a-": {Name: "a"}, "a--1": {Name: "a"}, "a-0-1": {Name: "a"}, "a-x": {Name: "a"}, "a-1": {Name: "a", Every: 2},
		"a-0": {Name: "a", Replicas: 2}, "a-0-0": {Name: "a", Replicas: 2}, "a-0-3": {Name: "a", Replicas: 2},
	} {
		if got, ok := ParseName(it, name); ok {
			t.Errorf("%s is %+v of %+v", name, got, it)
		}
	}
}
