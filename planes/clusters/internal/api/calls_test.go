package api

import (
	"net/http/httptest"
	"testing"
)

// TestClassOf holds which of Kubernetes' SLOs a call comes under.
func TestClassOf(t *testing.T) {
	for call, want := range map[string]string{
		"POST /api/v1/namespaces/default/pods":                            classMutating,
		"PATCH /apis/kosmos.io/v1alpha1/clusters/m0":                      classMutating,
		"GET /api/v1/namespaces/default/pods/p":                           classGet,
		"GET /api/v1/namespaces/default":                                  classGet,
		"GET /apis/coordination.k8s.io/v1/namespaces/n/leases/l":          classGet,
		"GET /api/v1/namespaces/default/pods":                             classNamespace,
		"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn":                classCluster,
		"GET /api/v1/namespaces":                                          classCluster,
		"GET /apis/kosmos.io/v1alpha1/clusters":                           classCluster,
		"GET /api/v1/pods?watch=true&resourceVersion=7":                   "",
		"GET /apis/coordination.k8s.io/v1/namespaces/n/leases?watch=true": "",
		"GET /version": "",
		"GET /api":     "",
		"GET /apis":    "",
	} {
		var method, url string
		for i := range call {
			if call[i] == ' ' {
				method, url = call[:i], call[i+1:]
				break
			}
		}
		if got := classOf(httptest.NewRequest(method, url, nil)); got != want {
			t.Errorf("%s is %q, want %q", call, got, want)
		}
	}
}
