package inventory

import (
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/scenario"
)

// NameOf returns the name that the scenario gives an object of an item.
func NameOf(it scenario.Item, n Ordinal) string {
	if Replicas(it) > 1 {
		return it.Name + "-" + strconv.Itoa(n.Index) + "-" + strconv.Itoa(n.Replica)
	}
	return it.Name + "-" + strconv.Itoa(n.Index)
}

// ParseName returns the index and the replica of an object of an item by its name; false: the
// scenario gives none of them this name.
func ParseName(it scenario.Item, name string) (n Ordinal, ok bool) {
	rest, ok := strings.CutPrefix(name, it.Name+"-")
	if !ok {
		return n, false
	}
	n.Replica = 1
	if Replicas(it) > 1 {
		first, second, _ := strings.Cut(rest, "-")
		replica, err := strconv.Atoi(second)
		if err != nil || replica < 1 || replica > Replicas(it) {
			return n, false
		}
		rest, n.Replica = first, replica
	}
	index, err := strconv.Atoi(rest)
	n.Index = index
	return n, err == nil && index >= 0 && index%Every(it) == 0
}
