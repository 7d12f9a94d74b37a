package definitions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/definitions"
	"github.com/windtunnel/windtunnel/planes/app/internal/template"
)

func named(t *testing.T, name string) *api.Definition {
	t.Helper()
	all := repotest.Must(definitions.All())(t)
	for _, d := range all {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("no definition %s", name)
	return nil
}

// TestSizes holds that what a revision copies is as large as KubeVela's, within a
// tenth: its memory, its bytes in etcd and its share of a pass follow from it.
func TestSizes(t *testing.T) {
	for name, want := range map[string]int{"webservice": 17500, "worker": 13500, "k8s-objects": 500, "scaler": 500, "deploy": 1200} {
		raw := repotest.Must(json.Marshal(named(t, name)))(t)
		if slack := max(want/10, 150); len(raw) < want-slack || len(raw) > want+slack {
			t.Errorf("%s has %d bytes, want about %d", name, len(raw), want)
		}
	}
}

func TestTemplatesRender(t *testing.T) {
	context := map[string]any{"name": "c", "appName": "a", "namespace": "n"}
	for _, tt := range []struct{ name, parameter, field, want string }{
		{"webservice", `{"image":"nginx"}`, "output", `"containers":[{"name":"c","image":"nginx"}]`},
		{"webservice", `{"image":"nginx"}`, "outputs", `{}`},
		{"webservice", `{"image":"nginx","ports":[{"port":80,"expose":true}]}`, "outputs", `"port":80`},
		{"webservice", `{"image":"nginx","ports":[{"port":80}]}`, "output", `"ports":[{"containerPort":80,"protocol":"TCP","name":"tcp-80"}]`},
		{"webservice", `{"image":"nginx","cpu":"1","limit":{"cpu":"2"}}`, "output", `"limits":{"cpu":"2"}`},
		{"webservice", `{"image":"nginx","livenessProbe":{"tcpSocket":{"port":1}}}`, "output", `"livenessProbe":{"tcpSocket":{"port":1}`},
		{"webservice", `{"image":"nginx","volumeMounts":{"configMap":[{"name":"v","mountPath":"/v","cmName":"m"}]}}`, "output", `"volumes":[{"name":"v","configMap":{"name":"m","defaultMode":420}}]`},
		{"webservice", `{"image":"nginx","volumeMounts":{"emptyDir":[{"name":"v","mountPath":"/v"}]}}`, "output", `"volumeMounts":[{"name":"v","mountPath":"/v","readOnly":false}]`},
		{"webservice", `{"image":"nginx","nodeSelector":{"a":"b"}}`, "output", `"nodeSelector":{"a":"b"}`},
		{"worker", `{"image":"busybox","cmd":["sleep","1"]}`, "output", `"command":["sleep","1"]`},
		{"scaler", `{"replicas":0}`, "patch", `{"spec":{"replicas":0}}`},
		{"sidecar", `{"name":"log","image":"busybox","cmd":["sleep"]}`, "patch", `"containers":[{"name":"log","image":"busybox","command":["sleep"]}]`},
		{"k8s-objects", `{"objects":[{"kind":"Secret"},{"kind":"ConfigMap"}]}`, "output", `{"kind":"Secret"}`},
		{"k8s-objects", `{"objects":[{"kind":"Secret"},{"kind":"ConfigMap"}]}`, "outputs", `{"object-1":{"kind":"ConfigMap"}}`},
		{"ingress", `{"domain":"a.example","http":{"/":80}}`, "outputs", `"number":80`},
	} {
		got, err := template.Evaluator{}.Evaluate(named(t, tt.name).Template(), template.Input{Parameter: json.RawMessage(tt.parameter), Context: context}, tt.field)
		if err != nil || !strings.Contains(string(got[tt.field]), tt.want) {
			t.Errorf("%s %s: %s (%v), want %s", tt.name, tt.parameter, got[tt.field], err, tt.want)
		}
	}
}

func TestDeploymentHealth(t *testing.T) {
	health := named(t, "webservice").Spec.Status.HealthPolicy
	for output, want := range map[string]string{
		`{"metadata":{"generation":1},"spec":{"replicas":0}}`:                                                                                      "false",
		`{"metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`:                                                    "true",
		`{"metadata":{"generation":2},"spec":{"replicas":0},"status":{"observedGeneration":1}}`:                                                    "false",
		`{"metadata":{"generation":1},"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":1,"updatedReplicas":2,"replicas":2}}`: "false",
		`{"metadata":{"generation":1},"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":2,"replicas":2}}`: "true",
	} {
		var o map[string]any
		repotest.NoError(t, json.Unmarshal([]byte(output), &o))
		got, err := template.Evaluator{}.Evaluate(health, template.Input{Context: map[string]any{"output": o}}, "isHealth")
		if err != nil || string(got["isHealth"]) != want {
			t.Errorf("%s: %s (%v), want %s", output, got["isHealth"], err, want)
		}
	}
}
