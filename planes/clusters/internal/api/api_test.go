package api

import (
	"encoding/json"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestClusterKeepsForeignFields holds that a Cluster that is read and written loses nothing
// of what the network-manager or its users put there.
func TestClusterKeepsForeignFields(t *testing.T) {
	const spec = `{"kubeconfig":"eA==","clusterLinkOptions":{"enable":true,"networkType":"p2p"},"clusterTreeOptions":{"enable":true}}`
	const status = `{"clusterLinkStatus":{"podCIDRs":["10.0.0.0/8"]}}`
	var c Cluster
	repotest.NoError(t, json.Unmarshal([]byte(`{"metadata":{"name":"m"},"spec":`+spec+`,"status":`+status+`}`), &c))
	if string(c.Spec.Kubeconfig) != "x" || c.Spec.Tree == nil || !c.Spec.Tree.Enable {
		t.Errorf("the spec is %+v", c.Spec)
	}
	text := repotest.Must(json.Marshal(c.DeepCopyObject()))(t)
	var got struct{ Spec, Status json.RawMessage }
	if err := json.Unmarshal(text, &got); err != nil || string(got.Spec) != spec || string(got.Status) != status {
		t.Errorf("written is %s (%v)", text, err)
	}
}
