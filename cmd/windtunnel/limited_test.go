package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// limited are planes that are limited on purpose, one way each.
func limited(t *testing.T) []limitedPlane {
	return []limitedPlane{
		{"client-throttle", diagnose.ClientThrottle, "kube-controller-manager", nil},
		{"cpu-limit", diagnose.CPULimit, "kube-apiserver", nil},
		{"work-queue", diagnose.WorkQueue, "kube-controller-manager namespace", nil},
		{"webhook", diagnose.Webhook, "slow.windtunnel.dev", slowWebhook(t, 200*time.Millisecond)},
		{"etcd-latency", diagnose.EtcdLatency, "etcd", nil},
		{"apf", diagnose.APF, "kube-apiserver", nil},
		{"memory", diagnose.Memory, "kube-apiserver", nil},
		{"fleet-late", diagnose.FleetLate, "windtunnel", nil},
	}
}

type limitedPlane struct {
	scenario  string
	cause     diagnose.Cause
	component string
	set       []string
}

// fly returns the findings of a run on the plane, the first first.
func (l limitedPlane) fly(t *testing.T, u *tunnel) []diagnose.Finding {
	t.Helper()
	file := repotest.Must(filepath.Abs("../../examples/limited/" + l.scenario + ".yaml"))(t)
	args := []string{"run", file, "--out", "run"}
	for _, s := range l.set {
		args = append(args, "--set", s)
	}
	cmd, said := u.start(args...)
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	raw := repotest.Must(os.ReadFile(filepath.Join(u.dir, "run", diagnose.File)))(t)
	var found []diagnose.Finding
	repotest.NoError(t, json.Unmarshal(raw, &found))
	return found
}

// is says whether a finding is the plane's limit.
func (l limitedPlane) is(f diagnose.Finding) bool {
	return f.Cause == l.cause && f.Component == l.component
}

// TestLimited holds that the limit of each plane is found, whatever else limited
// it: on a busy machine something else may rightly come first.
func TestLimited(t *testing.T) {
	t.Parallel()
	for _, l := range limited(t) {
		t.Run(l.scenario, func(t *testing.T) {
			t.Parallel()
			u := newTunnel(t)
			found := l.fly(t, u)
			n := slices.IndexFunc(found, l.is)
			if n < 0 {
				t.Fatalf("%s of %s is not among %+v", l.cause, l.component, found)
			}
			t.Logf("finding %d of %d: %.3f %s", n+1, len(found), found[n].Score, found[n].Sentence)
		})
	}
}

// TestProofLimitComesFirst holds that on a quiet machine the limit comes before all
// else that was found.
func TestProofLimitComesFirst(t *testing.T) {
	repotest.Proof(t)
	for _, l := range limited(t) {
		t.Run(l.scenario, func(t *testing.T) {
			u := newTunnel(t)
			if found := l.fly(t, u); len(found) == 0 || !l.is(found[0]) {
				t.Errorf("%s of %s does not come first: %+v", l.cause, l.component, found)
			}
		})
	}
}

// calm is a plane with little to do, whose limits nothing comes near.
func calm() limitedPlane {
	return limitedPlane{"../density", diagnose.Nothing, "", []string{"nodes=20", "podsPerNode=5"}}
}

// TestProofCalmPlanesAreNotAccused holds that of planes with little to do, on a
// quiet machine, each is said to be limited by nothing.
func TestProofCalmPlanesAreNotAccused(t *testing.T) {
	repotest.Proof(t)
	for n := range 20 {
		u := newTunnel(t)
		if found := calm().fly(t, u); len(found) != 1 || !calm().is(found[0]) {
			t.Errorf("run %d: %+v", n, found)
		}
	}
}

// TestProofBusyMachineComesFirst holds that of the same planes, with busy loops on
// all cores beside them, the machine is what limited each.
func TestProofBusyMachineComesFirst(t *testing.T) {
	repotest.Proof(t)
	var quit atomic.Bool
	var loops sync.WaitGroup
	for range runtime.NumCPU() {
		loops.Go(func() {
			for !quit.Load() { // it is to take all of a core
			}
		})
	}
	defer loops.Wait()
	defer quit.Store(true)
	for n := range 10 {
		u := newTunnel(t)
		if found := calm().fly(t, u); len(found) == 0 || found[0].Cause != diagnose.Machine {
			t.Errorf("run %d: %+v", n, found)
		}
	}
}

// slowWebhook serves an admission webhook that allows everything after some time,
// and returns the parameters that say where.
func slowWebhook(t *testing.T, takes time.Duration) []string {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, _ := review["request"].(map[string]any)
		delete(review, "request")
		review["response"] = map[string]any{"uid": request["uid"], "allowed": true}
		time.Sleep(takes)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return []string{"url=" + s.URL, "caBundle=" + base64.StdEncoding.EncodeToString(ca)}
}
