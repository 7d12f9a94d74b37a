package member

import (
	"testing"
)

// Members at an address that this machine does not have are an error and no server.
func TestHollowMembersThatCannotBeMade(t *testing.T) {
	server, reach, err := ServeHollow(HollowGroup{Names: []string{"a"}}, "203.0.113.1")
	if err == nil || server != nil || len(reach.Addresses) > 0 {
		t.Errorf("server %v, addresses %v, error %v", server != nil, reach.Addresses, err)
	}
}
