package scenario

import (
	"strings"
	"testing"
)

// TestMembersInPlaceOfARelease holds that a whole number for etcd is a number of members.
func TestMembersInPlaceOfARelease(t *testing.T) {
	for text, want := range map[string]Plane{
		"{etcd: 3}":                       {EtcdMembers: 3},
		"{etcd: '5'}":                     {EtcdMembers: 5},
		"{etcd: 3, etcdMembers: 3}":       {EtcdMembers: 3},
		"{etcd: v3.6.12}":                 {EtcdMembers: 1, Etcd: "v3.6.12"},
		"{etcd: v3.6.12, etcdMembers: 3}": {EtcdMembers: 3, Etcd: "v3.6.12"},
		"{etcd: '${n}'}":                  {EtcdMembers: 3},
	} {
		s, err := Parse("x.yaml", []byte("scenario: x\nparameters: {n: 3}\nplane: "+text+"\nsteps:\n- pause: 1s\n"), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if s.Plane.EtcdMembers != want.EtcdMembers || s.Plane.Etcd != want.Etcd {
			t.Errorf("%s: %d members of %q, want %d of %q", text, s.Plane.EtcdMembers, s.Plane.Etcd, want.EtcdMembers, want.Etcd)
		}
	}
	for _, bad := range []string{"0", "12", "-1"} { // the message names the key that was written
		_, err := Parse("x.yaml", []byte("scenario: x\nplane: {etcd: "+bad+"}\nsteps:\n- pause: 1s\n"), nil)
		if err == nil || !strings.Contains(err.Error(), "plane.etcd: "+bad+" is not between 1 and 9") || strings.Contains(err.Error(), "etcdMembers") {
			t.Errorf("%s members: %v", bad, err)
		}
	}
}
