package main

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// limitedApps are planes on which applications are delivered with one thing in the
// way, on purpose: the bottlenecks of KubeVela's own guide, each as parameters of
// one of its scenarios.
func limitedApps() map[string]limitedPlane {
	return map[string]limitedPlane{
		"limiter":    {"../app/steady", diagnose.ClientThrottle, "app-controller", []string{"apps=15", "qps=20", "burst=20", "option=--limiter-scope=client", "resync=5s", "hold=5s"}},
		"shard":      {"../app/index", diagnose.CPULimit, "app-controller", []string{"others=1", "apps=40", "rate=20", "cpu=0.1"}},
		"distance":   {"../app/distance", diagnose.Distance, "app-controller", []string{"profile=v175", "apps=60", "resync=3s", "hold=20s"}},
		"imbalance":  {"../app/gateway-balance", diagnose.Imbalance, "app-gateway", []string{"shards=1", "gateways=4", "apps=40", "cpu=0.03", "resync=3s", "hold=10s"}},
		"proxying":   {"../app/gateway-direct", diagnose.Proxying, "kube-apiserver", []string{"url=", "hub=0.3", "apps=30", "resync=500ms", "hold=15s"}},
		"revisions":  {"../app/updates", diagnose.Memory, "app-controller", []string{"profile=v175", "template=light", "apps=40", "rate=10", "updates=3", "revisions=10", "memory=48Mi", "managerQPS=300", "managerBurst=300"}},
		"scan":       {"../app/index", diagnose.Scan, "app-controller", []string{"others=15000", "fill=300", "apps=5", "index=false", "option=--feature-gates=ApplyOnce=true", "resync=10ms", "cpu=0.3"}},
		"state-keep": {"../app/steady", diagnose.Stage, "app-controller", []string{"profile=v175", "template=heavy", "option=--concurrent-reconciles=1", "apps=15", "resync=250ms", "hold=25s", "managerQPS=300", "managerBurst=300"}},
		"webhook":    {"../app/webhook", diagnose.Webhook, "validating.core.oam.dev.v1beta1.applications", []string{"apps=60", "rate=5", "inController=false", "delay=500ms", "managerQPS=300", "managerBurst=300"}},
	}
}

// TestProofLimitedApps flies each of them so many times as WINDTUNNEL_REPEATS says, and
// holds that in nine of ten its limit comes before all else that was found.
func TestProofLimitedApps(t *testing.T) {
	repotest.Proof(t)
	repeats := repotest.Times(t, "WINDTUNNEL_REPEATS", 10)
	for name, l := range limitedApps() {
		t.Run(name, func(t *testing.T) {
			first := 0
			for n := range repeats {
				found := l.fly(t, newTunnel(t))
				if len(found) > 0 && l.is(found[0]) {
					first++
					continue
				}
				for i, f := range found {
					t.Logf("run %d: finding %d is %s of %s, %.3f: %s", n, i+1, f.Cause, f.Component, f.Score, f.Sentence)
				}
			}
			t.Logf("%s of %s came first in %d of %d", l.cause, l.component, first, repeats)
			if 10*first < 9*repeats {
				t.Errorf("%s of %s came first in %d of %d, want nine of ten", l.cause, l.component, first, repeats)
			}
		})
	}
}
