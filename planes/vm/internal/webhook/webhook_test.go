package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/admission"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// newHandler answers the reviews of all hooks.
func newHandler(what string) http.Handler {
	c, mux := clock.Start(), http.NewServeMux()
	for _, h := range newHooks(Options{Env: process.Env{Clock: c}, Review: what}) {
		mux.Handle(h.Path, admission.Handler(h, c, slog.New(slog.DiscardHandler)))
	}
	return mux
}

// review asks the handler and returns the code and the answer.
func review(t *testing.T, h http.Handler, path, request string) (int, *admissionv1.AdmissionResponse) {
	t.Helper()
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"q",` + request + `}}`
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	out := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), out); w.Code == http.StatusOK && err != nil {
		t.Fatal(err)
	}
	return w.Code, out.Response
}

// created returns an object as it is after its creation was reviewed.
func created(t *testing.T, what, resource, object string) string {
	t.Helper()
	_, answer := review(t, newHandler(what), routeMutate, `"operation":"CREATE","resource":{"resource":"`+resource+`"},"object":`+object)
	if answer == nil || !answer.Allowed || answer.UID != "q" {
		t.Fatalf("%s: answer %+v", object, answer)
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestNewInstancesGetPhaseAndFinalizer(t *testing.T) {
	for _, object := range []string{
		`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"v"},"spec":{"domain":{"x":1}}}`,
		`{"metadata":{"name":"v","finalizers":["another"]},"spec":{},"status":{"phase":"Running","virtualMachineRevisionName":"r"}}`,
		`{"metadata":{"name":"v","finalizers":["` + api.FinalizerInstance + `"]},"spec":{}}`,
	} {
		for _, what := range []string{ReviewAll, ReviewPhase} {
			raw := created(t, what, api.ResourceInstances, object)
			if strings.Contains(object, "RevisionName") != strings.Contains(raw, "RevisionName") {
				t.Errorf("the name of the machine's revision is lost: %s", raw)
			}
			var vmi api.Instance
			if err := json.Unmarshal([]byte(raw), &vmi); err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, f := range vmi.Finalizers {
				if f == api.FinalizerInstance {
					n++
				}
			}
			if vmi.Status.Phase != api.Pending || n != 1 || api.Entered(vmi.Status.PhaseTransitionTimestamps, api.Pending).IsZero() {
				t.Errorf("%s became %s", object, raw)
			}
			if strings.Contains(raw, "q35") != (what == ReviewAll) {
				t.Errorf("%s: %s became %s", what, object, raw)
			}
		}
	}
}

// TestDefaults holds what is filled in, and that nothing that was sent is changed.
func TestDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		resource, sent string
		want           map[string]string // by path
	}{
		"instance": {
			api.ResourceInstances,
			`{"metadata":{"name":"v","annotations":{"a":"b"}},"spec":{"x":9007199254740993,"domain":{"cpu":{"cores":2},"resources":{"requests":{"memory":"90Mi"}}},
				"volumes":[{"name":"d","containerDisk":{"image":"i"}},{"name":"e","emptyDisk":{}}]}}`,
			map[string]string{
				"spec.x": "9007199254740993", "metadata.annotations.a": "b",
				"spec.architecture": "amd64", "spec.domain.cpu.cores": "2", "spec.domain.cpu.sockets": "1", "spec.domain.cpu.threads": "1",
				"spec.domain.cpu.model": "host-model", "spec.domain.cpu.maxSockets": "4", "spec.domain.features.acpi.enabled": "true",
				"spec.domain.machine.type": "q35", "spec.domain.memory.guest": "90Mi", "spec.evictionStrategy": "None",
				"status.currentCPUTopology.cores": "2", "status.currentCPUTopology.sockets": "1", "status.currentCPUTopology.threads": "1",
				"status.memory.guestAtBoot": "90Mi", "status.memory.guestCurrent": "90Mi", "status.memory.guestRequested": "90Mi", "status.runtimeUser": "107",
				"spec.volumes": "[map[containerDisk:map[image:i imagePullPolicy:IfNotPresent] name:d] map[emptyDisk:map[] name:e]]",
			},
		},
		"machine": {
			api.ResourceMachines,
			`{"metadata":{"name":"v","namespace":"n"},"spec":{"running":true,"template":{"spec":{"domain":{"machine":{"type":"pc"}}}}}}`,
			map[string]string{
				"spec.running": "true", "spec.template.spec.domain.machine.type": "pc", "spec.template.spec.architecture": "amd64",
				"spec.template.spec.domain.firmware.serial": "56310e0e-c47a-3625-b412-072c85a518d5",
			},
		},
	} {
		o := readObject([]byte(created(t, ReviewAll, c.resource, c.sent)))
		for path, want := range c.want {
			if got := fmt.Sprint(o.at(strings.Split(path, ".")...)); got != want {
				t.Errorf("%s: %s is %s, want %s", name, path, got, want)
			}
		}
		annotations := map[string][]string{"instance": {"metadata", "annotations", topologyAnnotation}, "machine": {"spec", "template", "metadata", "annotations", topologyAnnotation}}
		if got := o.at(annotations[name]...); got != topology {
			t.Errorf("%s: annotation %v", name, got)
		}
	}
}

func TestLaterWritesPassUnchanged(t *testing.T) {
	for _, resource := range []string{api.ResourceInstances, api.ResourceMachines} {
		code, answer := review(t, newHandler(ReviewAll), routeMutate, `"operation":"UPDATE","resource":{"resource":"`+resource+`"},"object":{"metadata":{"name":"v"},"spec":{},"status":{"phase":"Running"}}`)
		if code != http.StatusOK || !answer.Allowed || answer.Patch != nil {
			t.Errorf("%s: %d %+v", resource, code, answer)
		}
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	twice := `{"volumes":[{"name":"a"},{"name":"a"}]}`
	for request, path := range map[string]string{
		`"operation":"CREATE","object":{"spec":{"domain":"text"}}`:                                                             routeMutate,
		`"operation":"CREATE","object":{"spec":{"domain":{"machine":"text"}}}`:                                                 routeMutate,
		`"operation":"CREATE","object":{"spec":{"template":"text"}},"resource":{"resource":"virtualmachines"}`:                 routeMutate,
		`"operation":"UPDATE","object":{"spec":` + twice + `}`:                                                                 routeValidate,
		`"operation":"CREATE","object":{"spec":{"template":{"spec":` + twice + `}}},"resource":{"resource":"virtualmachines"}`: routeValidate,
		`"operation":"UPDATE","object":{"status":"text"},"subResource":"status"`:                                               routeValidate,
	} {
		if code, answer := review(t, newHandler(ReviewAll), path, request); code != http.StatusOK || answer.Allowed || answer.Result.Message == "" {
			t.Errorf("%s: %d %+v", request, code, answer)
		}
	}
	if code, answer := review(t, newHandler(ReviewAll), routeValidate, `"operation":"UPDATE","object":{"spec":{"volumes":[{"name":"a"},{"name":"b"}]}}`); code != http.StatusOK || !answer.Allowed {
		t.Errorf("what can run: %d %+v", code, answer)
	}
	w := httptest.NewRecorder()
	newHandler(ReviewAll).ServeHTTP(w, httptest.NewRequest(http.MethodPost, routeMutate, strings.NewReader("{}")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("code %d", w.Code)
	}
}

func TestRegistration(t *testing.T) {
	for createOnly, want := range map[bool]int{false: 2, true: 1} {
		hooks := newHooks(Options{CreateOnly: createOnly, Review: ReviewAll})
		if len(hooks) != 2 || hooks[0].Validating || !hooks[1].Validating || len(hooks[0].Rule.Operations) != want || len(hooks[1].Rule.Operations) != want {
			t.Errorf("create only %v: %+v", createOnly, hooks)
		}
	}
	if hooks := newHooks(Options{Review: ReviewPhase}); len(hooks) != 1 || len(hooks[0].Rule.Resources) != 1 {
		t.Errorf("phase only: %+v", hooks)
	}
}

func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"request":{"operation":"CREATE","object":{"spec":{}}}}`))
	f.Add([]byte(`{"request":{"operation":"UPDATE"}}`))
	f.Add([]byte(`{"request":{"operation":"CREATE","resource":{"resource":"virtualmachines"},"object":{"spec":{"template":{"spec":{"volumes":[1]}}}}}}`))
	h := newHandler(ReviewAll)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{routeMutate, routeValidate} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
				t.Errorf("code %d", w.Code)
			}
		}
	})
}
