package api

import (
	"encoding/json"
	"testing"
)

// TestClusterKeepsForeignFields holds that a Cluster that is read and written loses nothing
// of what the network-manager or its users put there.
func TestClusterKeepsForeignFields(t *testing.T) {
	const spec = `{"kubeconfig":"eA==","clusterLinkOptions":{"enable":true,"networkType":"p2p"},"clusterTreeOptions":{"enable":true}}`
	const status = `{"clusterLinkStatus":{"podCIDRs":["10.0.0.0/8"]}}`
	var c Cluster
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"m"},"spec":`+spec+`,"status":`+status+`}`), &c); err != nil {
		t.Fatal(err)
	}
	if string(c.Spec.Kubeconfig) != "x" || c.Spec.Tree == nil || !c.Spec.Tree.Enable {
		t.Errorf("the spec is %+v", c.Spec)
	}
	text, err := json.Marshal(c.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Spec, Status json.RawMessage }
	if err := json.Unmarshal(text, &got); err != nil || string(got.Spec) != spec || string(got.Status) != status {
		t.Errorf("written is %s (%v)", text, err)
	}
}
