package plane

import "testing"

func TestSaysLeader(t *testing.T) {
	for metrics, want := range map[string]bool{
		"": false,
		"# HELP etcd_server_is_leader x\n# TYPE etcd_server_is_leader gauge\netcd_server_is_leader 1\n":                         true,
		"etcd_server_is_leader 0\netcd_server_has_leader 1\n":                                                                   false,
		"leader_election_master_status{name=\"kube-scheduler\"} 1\n":                                                            true,
		"leader_election_master_status{name=\"kube-scheduler\"} 0\nleader_election_slowpath_total{name=\"kube-scheduler\"} 1\n": false,
	} {
		if got := saysLeader(metrics); got != want {
			t.Errorf("%q: %v", metrics, got)
		}
	}
}
