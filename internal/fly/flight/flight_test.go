package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
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
	repotest.NoError(t, s.Endpoint().WriteKubeconfig(kubeconfig))
	for resource, refused := range map[string]bool{"nodes": true, "things.example.com": true, "configmaps": false} {
		repotest.NoError(t, os.WriteFile(file, fmt.Appendf(nil, text, resource), 0o600))
		if _, err := Plan(Options{File: file, Kubeconfig: kubeconfig}); errors.Is(err, workload.ErrForeign) != refused {
			t.Errorf("%s: %v", resource, err)
		}
		if _, err := Plan(Options{File: file, Kubeconfig: kubeconfig, Trust: Trust{Destructive: true}}); errors.Is(err, discovery.ErrNotServed) != refused {
			t.Errorf("%s with --allow-destructive: %v", resource, err)
		}
	}
}

// plannedHead is what the scenarios of TestPlansSayWhatRunsSay begin with.
const plannedHead = `scenario: x
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{.Name}}'}}"}
  wrong: {text: "{apiVersion: v1, kind: Deployment, metadata: {name: '{{.Name}}'}}"}
  widget: {text: "{apiVersion: example.org/v1, kind: Widget, metadata: {name: '{{.Name}}'}}"}
  crd: {text: "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.org}, spec: {group: example.org, names: {kind: Widget, plural: widgets}, scope: Namespaced, versions: [{name: v1, served: true, storage: true}]}}"}
steps:
`

// TestPlansSayWhatRunsSay plans and runs scenarios that ask for what nobody serves and what
// is not on this machine: both refuse them with the same sentence, and the run starts nothing.
func TestPlansSayWhatRunsSay(t *testing.T) {
	const lack = "no plane has this kind by itself"
	for name, tt := range map[string]struct{ steps, says string }{
		"a call of a kind that nobody has":   {"- {name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: widgets.example.org}]}}", `s.yaml:8: step "a": widgets.example.org: ` + lack + ": add its CustomResourceDefinition"},
		"a call in parallel":                 {"- parallel: [{name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: pods}, {verb: list, resource: widgets.example.org}]}}]", `step "a": widgets.example.org: ` + lack},
		"a call without its group":           {"- {name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: deployments}]}}", `step "a": deployments: ` + lack + " (did you mean deployments.apps?)"},
		"a call of a kind for a resource":    {"- {name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: deployment.apps}]}}", "(did you mean deployments.apps?)"},
		"a patch of a kind that nobody has":  {"- {name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: patch, patch: apply, resource: widgets.example.org, name: w, body: widget}]}}", `step "a": widgets.example.org: ` + lack},
		"a wait for a kind that nobody has":  {"- {name: a, wait: {objects: widgets.example.org, condition: 'true', count: 1}}", `step "a": widgets.example.org: ` + lack},
		"a wait in the wrong group":          {"- {name: a, wait: {objects: jobs.apps, condition: 'true', count: 1}}", `step "a": jobs.apps: ` + lack + " (did you mean jobs.batch?)"},
		"an object in the wrong group":       {"- {name: a, create: {body: wrong, count: 1, pace: {burst: true}}}", `body "wrong" is a Deployment of v1, and ` + lack + " (did you mean Deployment of apps/v1?)"},
		"a version that is not defined":      {"- {name: d, create: {body: crd, count: 1, pace: {burst: true}}}\n- {name: a, wait: {objects: widgets.v2.example.org, condition: 'true', count: 1}}", "what is installed defines widgets.v1.example.org"},
		"a kind that the steps define":       {"- {name: d, create: {body: crd, count: 1, pace: {burst: true}}}\n- {name: a, wait: {objects: widgets.example.org, condition: 'true', count: 1}}", ""},
		"a kind that a command may bring":    {"- {name: e, exec: {command: [sh, -c, exit 0]}}\n- {name: a, wait: {objects: widgets.example.org, condition: 'true', count: 1}}", ""},
		"kinds that every plane has":         {"- {name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: leases.coordination.k8s.io}, {verb: list, resource: componentstatuses}, {verb: list, resource: deployments.v1.apps}]}}", ""},
		"a kind that not every release has":  {"- {name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: podschedulingcontexts.resource.k8s.io}]}}", ""},
		"a command that is not there":        {"- {name: a, exec: {command: [a-program-that-is-nowhere]}}", `s.yaml:8: step "a": command ` + "`a-program-that-is-nowhere`: exec: \"a-program-that-is-nowhere\": executable file not found"},
		"a command of the scenario's folder": {"- {name: a, exec: {command: [./absent.sh]}}", "step \"a\": command `./absent.sh`: "},
		"a command that cannot be executed":  {"- {name: a, exec: {command: [./s.yaml]}}", "step \"a\": command `./s.yaml`: "},
		"a command that a command may make":  {"- {name: e, exec: {command: [sh, -c, exit 0]}}\n- {name: a, exec: {command: [./absent.sh]}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{File: filepath.Join(t.TempDir(), "s.yaml"), Out: filepath.Join(t.TempDir(), "out")}
			repotest.NoError(t, os.WriteFile(o.File, []byte(plannedHead+tt.steps), 0o600))
			_, err := Plan(o)
			if tt.says == "" {
				if err != nil {
					t.Errorf("the plan: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the plan: %v, want %q", err, tt.says)
			}
			if _, again := Run(t.Context(), o); again == nil || err == nil || again.Error() != err.Error() {
				t.Errorf("the run: %v, the plan: %v", again, err)
			}
			if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the run left something: %v", err)
			}
		})
	}
}

// TestPlansOfOtherToolsSayItOnce plans a config that names one kind in several steps, and a
// hook that is not there: a step that the importer made stands in no line.
func TestPlansOfOtherToolsSayItOnce(t *testing.T) {
	for want, config := range map[string]string{
		`config.yml: step "gone": things.nobody.example: no plane has this kind by itself`:                          "jobs:\n- {name: gone, jobType: delete, qps: 1, burst: 1, waitForDeletion: true, objects: [{kind: Thing, apiVersion: nobody.example/v1, labelSelector: {a: b}}]}\n",
		`config.yml: step "gone-before-job-execution": command ` + "`a-program-that-is-nowhere`: exec: \"a-program": "jobs:\n- {name: gone, jobType: delete, qps: 1, burst: 1, hooks: [{cmd: [a-program-that-is-nowhere], when: beforeJobExecution}], objects: [{kind: ConfigMap, labelSelector: {a: b}}]}\n",
	} {
		file := filepath.Join(t.TempDir(), "config.yml")
		repotest.NoError(t, os.WriteFile(file, []byte(config), 0o600))
		if _, err := Plan(Options{File: file}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q once", err, want)
		}
	}
}

// TestPlansAskTheCluster plans for a cluster that serves a kind of its own, and lacks others.
func TestPlansAskTheCluster(t *testing.T) {
	s := apitest.New(t, apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
		apitest.Resource{Version: "other.example/v1", Plural: "gadgets", Kind: "Gadget", Namespaced: true})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, s.Endpoint().WriteKubeconfig(kubeconfig))
	for name, tt := range map[string]struct{ steps, says string }{
		"served":           {"- {name: a, wait: {objects: gadgets.other.example, condition: 'true', count: 1}}", ""},
		"defined":          {"- {name: d, create: {body: crd, count: 1, pace: {burst: true}}}\n- {name: a, create: {body: widget, count: 1, pace: {burst: true}}}", "CustomResourceDefinition of apiextensions.k8s.io/v1, and the plane does not serve it"},
		"not served":       {"- {name: a, wait: {objects: widgets.example.org, condition: 'true', count: 1}}", `s.yaml:8: step "a": widgets.example.org: the plane does not serve it`},
		"another group":    {"- {name: a, requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: jobs}]}}", `step "a": jobs: the plane does not serve it (did you mean jobs.batch?)`},
		"an object's kind": {"- {name: a, create: {body: widget, count: 1, pace: {burst: true}}}", `body "widget" is a Widget of example.org/v1, and the plane does not serve it`},
		"after a command":  {"- {name: e, exec: {command: [sh, -c, exit 0]}}\n- {name: a, create: {body: widget, count: 1, pace: {burst: true}}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.yaml")
			repotest.NoError(t, os.WriteFile(file, []byte(plannedHead+tt.steps), 0o600))
			if _, err := Plan(Options{File: file, Kubeconfig: kubeconfig}); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}
