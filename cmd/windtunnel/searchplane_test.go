package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// cluster is a server that says of kube-system what a cluster says; it returns
// the path of a kubeconfig.
func cluster(t *testing.T, status int, uid string) (kubeconfig, server string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/kube-system" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"kind":"Namespace","metadata":{"name":"kube-system","uid":%q}}`, uid)
	}))
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, endpoint.Plain(s.URL).WriteKubeconfig(path))
	return path, s.URL
}

// A search that was begun on one cluster goes on there, at whatever address, and
// not on another or on planes of its own.
func TestSearchGoesOnOnItsOwnClusterOnly(t *testing.T) {
	a, _ := cluster(t, http.StatusOK, "uid-a")
	moved, _ := cluster(t, http.StatusOK, "uid-a")
	b, _ := cluster(t, http.StatusOK, "uid-b")
	folder := t.TempDir()
	f := &searchFlights{edge: 450}
	try := func(kubeconfig string, most int) error {
		x, _ := newSearching(t, folder, f)
		x.cluster.kubeconfig, x.state.Plan.MaxRuns = kubeconfig, most
		return x.flySearch(t.Context(), "text")
	}
	if err := try(a, 2); err == nil || err.Error() != "verdict unknown" {
		t.Fatal(err)
	}
	for name, kubeconfig := range map[string]string{"another cluster": b, "its own planes": ""} {
		if err := try(kubeconfig, 3); !errors.Is(err, capacity.ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(f.flown) != 2 {
		t.Errorf("flown %q", f.flown)
	}
	if err := try(moved, 3); err == nil || err.Error() != "verdict unknown" || len(f.flown) != 3 {
		t.Errorf("the same cluster at another address: %v after %q", err, f.flown)
	}
}

func TestSearchPlane(t *testing.T) {
	forbidden, server := cluster(t, http.StatusForbidden, "")
	if p, err := searchPlane(t.Context(), forbidden); err != nil || p != (capacity.Plane{Kind: capacity.Cluster, Identity: server}) {
		t.Errorf("kube-system may not be read: %+v, %v", p, err)
	}
	if p, err := searchPlane(t.Context(), ""); err != nil || p != (capacity.Plane{Kind: capacity.OwnPlane}) {
		t.Errorf("no kubeconfig: %+v, %v", p, err)
	}
	ill, _ := cluster(t, http.StatusInternalServerError, "")
	if p, err := searchPlane(t.Context(), ill); err == nil {
		t.Errorf("a cluster that does not answer: %+v", p)
	}
}
