package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
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
	patch := repotest.Must(jsonpatch.DecodePatch(answer.Patch))(t)
	raw := repotest.Must(patch.Apply([]byte(object)))(t)
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
			repotest.NoError(t, json.Unmarshal([]byte(raw), &vmi))
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
		repotest.Equal(t, o.at(annotations[name]...), topology, "%s: annotation", name)
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
	repotest.Equal(t, w.Code, http.StatusBadRequest, "code")
}

func TestFormerFinalizer(t *testing.T) {
	o := Default()
	o.Words().Apply(api.PresetV044)
	answer := mutate(&admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"v"},"spec":{}}`)}}, time.Unix(1, 0), &o)
	if !strings.Contains(string(answer.Patch), `["`+api.FinalizerFormer+`"]`) || o.Pods {
		t.Errorf("review pods: %v, patch %s", o.Pods, answer.Patch)
	}
}

// TestPodReview holds which instance is read for a pod, and that the pod is created whatever comes of it.
func TestPodReview(t *testing.T) {
	owned := `{"metadata":{"ownerReferences":[{"apiVersion":"%s","kind":"%s","name":"v","uid":"u","controller":true}]}}`
	for pod, want := range map[string]string{
		fmt.Sprintf(owned, "kubevirt.io/v1", "VirtualMachineInstance"): "n/v",
		fmt.Sprintf(owned, "apps/v1", "ReplicaSet"):                    "",
		`{"metadata":{}}`: "",
		`{"metadata":1}`:  "",
	} {
		o, got := Options{Env: process.Env{Log: slog.New(slog.DiscardHandler)}}, ""
		decide := podHook(o.podReview(t.Context(), func(_ context.Context, namespace, name string) (*api.Instance, error) {
			got = namespace + "/" + name
			return nil, errors.New("gone")
		})).Decide
		answer := decide(&admissionv1.AdmissionRequest{Namespace: "n", Object: runtime.RawExtension{Raw: []byte(pod)}})
		if !answer.Allowed || answer.Patch != nil || got != want {
			t.Errorf("%s: read %q, want %q; answer %+v", pod, got, want, answer)
		}
	}
}

// TestReviewsAreThoseOfTheRelease counts the reviews of a life, whose calls are those of the
// controller and three updates of the agent, one of them at the end. Counted on the real virt-api of
// HEAD, with what was refused and repeated: 19.4 until Ready and 6.0 for a deletion, 33.8 and 12.0 with a machine.
func TestReviewsAreThoseOfTheRelease(t *testing.T) {
	o := Default()
	hooks := append(newHooks(o), podHook(nil))
	calls := callsOf(t)
	for life, want := range map[string][2]int{"life": {19, 6}, "machine": {32, 12}} {
		begin := map[string]string{"life": "POST virtualmachineinstances", "machine": "POST virtualmachines"}[life]
		agent := slices.Repeat([]string{"UPDATE virtualmachineinstances"}, 3)
		until, end := append(append(calls[life][0], agent...), begin), append(calls[life][1], agent[0])
		if i := slices.Index(end, "UPDATE virtualmachines/status created=false, Ready=False VMINotExists"); i >= 0 {
			end = slices.Delete(end, i, i+1) // the machine is gone: there is nothing to review
		}
		repotest.Equal(t, [2]int{reviews(hooks, until), reviews(hooks, end)}, want, "%s: reviews", life)
	}
}

// callsOf reads the calls of the controller's default, until Ready and after, by life.
func callsOf(t *testing.T) map[string][2][]string {
	t.Helper()
	raw := repotest.Must(os.ReadFile("../controller/testdata/calls.trace"))(t)
	out := map[string][2][]string{}
	for section := range strings.SplitSeq(string(raw), "\n\n") {
		lines := strings.Split(section, "\n")
		i := slices.Index(lines, "----")
		if i < 1 {
			continue
		}
		var calls [2][]string
		part := 0
		for _, line := range lines[i:] {
			if call, ok := strings.CutPrefix(line, "  "); ok {
				calls[part] = append(calls[part], call)
			} else if strings.Contains(line, " writes,") {
				part = min(part+1, 1)
			}
		}
		out[lines[i-1]] = calls
	}
	return out
}

// reviews counts how many of the hooks are asked for calls such as "PATCH pods/status gate".
func reviews(hooks []admission.Hook, calls []string) (n int) {
	operations := map[string]registrationv1.OperationType{"POST": registrationv1.Create, "UPDATE": registrationv1.Update, "PATCH": registrationv1.Update}
	for _, call := range calls {
		words := strings.Fields(call)
		for _, h := range hooks {
			if slices.Contains(h.Rule.Operations, operations[words[0]]) && slices.Contains(h.Rule.Resources, words[1]) {
				n++
			}
		}
	}
	return n
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
