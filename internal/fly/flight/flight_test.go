package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

func TestHowARunEnded(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want record.EndReason
	}{
		{nil, record.Done}, {fmt.Errorf("x: %w", ErrInterrupted), record.Interrupted}, {errors.New("etcd died"), record.Broken},
	} {
		if got := endReason(tt.err); got != tt.want {
			t.Errorf("endReason(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
	boot := bootError{errors.New("no etcd")}
	if !errors.Is(boot, ErrBoot) || boot.Error() != "no etcd" {
		t.Errorf("boot error: %v", boot)
	}
}

// TestExamplesCanBePlanned compiles every example, and counts what it would send.
func TestExamplesCanBePlanned(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	limited, err := filepath.Glob("../../../examples/limited/*.yaml")
	if err != nil || len(limited) < 8 {
		t.Fatalf("%d limited planes: %v", len(limited), err)
	}
	files = append(files, limited...)
	for _, file := range files {
		f, err := Plan(Options{File: file})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if f.Estimate.Total == 0 || f.Estimate.Objects == 0 || f.Estimate.EtcdBytes == 0 {
			t.Errorf("%s: %+v", file, f.Estimate)
		}
	}
}

// TestPlansRefuseWhatRunsRefuse has requests that name something which others have made.
func TestPlansRefuseWhatRunsRefuse(t *testing.T) {
	file, kubeconfig := filepath.Join(t.TempDir(), "s.yaml"), filepath.Join(t.TempDir(), "kubeconfig")
	const text = "scenario: x\nsteps:\n- name: away\n  requests: {count: 1, pace: {burst: true}, mix: [{verb: delete, resource: %s, name: a}]}\n"
	s := apitest.New(t, apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true})
	if err := s.Endpoint().WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	for resource, refused := range map[string]bool{"nodes": true, "things.example.com": true, "configmaps": false} {
		if err := os.WriteFile(file, fmt.Appendf(nil, text, resource), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Plan(Options{File: file, Kubeconfig: kubeconfig}); errors.Is(err, workload.ErrForeign) != refused {
			t.Errorf("%s: %v", resource, err)
		}
		if _, err := Plan(Options{File: file, Kubeconfig: kubeconfig, Trust: Trust{Destructive: true}}); err != nil {
			t.Errorf("%s with --allow-destructive: %v", resource, err)
		}
	}
}
