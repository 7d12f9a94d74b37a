package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/diagnose"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// TestLimited flies planes that are limited on purpose, one way each, and holds
// that the cause is found.
func TestLimited(t *testing.T) {
	u := newTunnel(t)
	for _, c := range []struct {
		scenario  string
		cause     diagnose.Cause
		component string
		set       []string
	}{
		{"client-throttle", diagnose.ClientThrottle, "kube-controller-manager", nil},
		{"cpu-limit", diagnose.CPULimit, "kube-apiserver", nil},
		{"work-queue", diagnose.WorkQueue, "kube-controller-manager namespace", nil},
		{"webhook", diagnose.Webhook, "slow.windtunnel.dev", slowWebhook(t, 200*time.Millisecond)},
		{"etcd-latency", diagnose.EtcdLatency, "etcd", nil},
		{"apf", diagnose.APF, "kube-apiserver", nil},
		{"memory", diagnose.Memory, "kube-apiserver", nil},
		{"fleet-late", diagnose.FleetLate, "windtunnel", nil},
	} {
		out := c.scenario
		t.Run(out, func(t *testing.T) {
			file, err := filepath.Abs("../../examples/limited/" + c.scenario + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"run", file, "--out", out}
			for _, s := range c.set {
				args = append(args, "--set", s)
			}
			cmd, said := u.start(args...)
			if code := exitOf(cmd.Wait()); code > 2 {
				t.Fatalf("exit code %d: %s", code, said)
			}
			found := u.diagnosis(t, out)
			if first := found[0]; first.Cause != c.cause || first.Component != c.component {
				t.Errorf("%s of %s comes first, want %s of %s: %+v", first.Cause, first.Component, c.cause, c.component, found)
			} else {
				t.Logf("%.3f %s", first.Score, first.Sentence)
			}
		})
	}
}

// diagnosis returns what a run was diagnosed with. Where a verdict would be
// unknown for what else the machine did, that may rightly come before what the
// plane was limited by, and is taken away.
func (u *tunnel) diagnosis(t *testing.T, run string) (found []diagnose.Finding) {
	t.Helper()
	var j slo.Judgement
	for name, into := range map[string]any{diagnose.File: &found, record.VerdictFile: &j} {
		raw, err := os.ReadFile(filepath.Join(u.dir, run, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	others := j.Measures["host_others_share"].Value
	if len(found) > 1 && found[0].Cause == diagnose.Machine && others > slo.NoisyShare {
		t.Logf("others took %.0f %% of the machine: %.3f %s", 100*others, found[0].Score, found[0].Sentence)
		found = found[1:]
	}
	if len(found) == 0 {
		t.Fatal("nothing was found")
	}
	return found
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
