package webhook

import (
	"bytes"
	"encoding/json"
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

func newHandler() http.Handler {
	c := clock.Start()
	return admission.Handler(newHook(Options{Env: process.Env{Clock: c}}), c, slog.New(slog.DiscardHandler))
}

// review asks the handler and returns the code and the answer.
func review(t *testing.T, operation, object string) (int, *admissionv1.AdmissionResponse) {
	t.Helper()
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"q","operation":"` + operation + `","object":` + object + `}}`
	w := httptest.NewRecorder()
	newHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, route, strings.NewReader(body)))
	out := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), out); w.Code == http.StatusOK && err != nil {
		t.Fatal(err)
	}
	return w.Code, out.Response
}

func TestNewInstancesGetPhaseAndFinalizer(t *testing.T) {
	for _, object := range []string{
		`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"v"},"spec":{"domain":{"x":1}}}`,
		`{"metadata":{"name":"v","finalizers":["another"]},"spec":{},"status":{"phase":"Running","virtualMachineRevisionName":"r"}}`,
		`{"metadata":{"name":"v","finalizers":["` + api.FinalizerInstance + `"]},"spec":{}}`,
	} {
		_, answer := review(t, "CREATE", object)
		if answer == nil || !answer.Allowed || answer.UID != "q" {
			t.Fatalf("answer %+v", answer)
		}
		patch, err := jsonpatch.DecodePatch(answer.Patch)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := patch.Apply([]byte(object))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(object, "RevisionName") != strings.Contains(string(raw), "RevisionName") {
			t.Errorf("the name of the machine's revision is lost: %s", raw)
		}
		var vmi api.Instance
		if err := json.Unmarshal(raw, &vmi); err != nil {
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
	}
}

func TestLaterWritesPassUnchanged(t *testing.T) {
	code, answer := review(t, "UPDATE", `{"metadata":{"name":"v"},"spec":{},"status":{"phase":"Running"}}`)
	if code != http.StatusOK || !answer.Allowed || answer.Patch != nil {
		t.Errorf("%d %+v", code, answer)
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	if code, answer := review(t, "CREATE", `{"spec":{"domain":"text"}}`); code != http.StatusOK || answer.Allowed || answer.Result.Message == "" {
		t.Errorf("%d %+v", code, answer)
	}
	w := httptest.NewRecorder()
	newHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, route, strings.NewReader("{}")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("code %d", w.Code)
	}
}

func TestRegistration(t *testing.T) {
	for createOnly, want := range map[bool]int{false: 2, true: 1} {
		if h := newHook(Options{CreateOnly: createOnly}); len(h.Rule.Operations) != want || h.Validating {
			t.Errorf("create only %v: %+v", createOnly, h.Rule)
		}
	}
}

func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"request":{"operation":"CREATE","object":{"spec":{}}}}`))
	f.Add([]byte(`{"request":{"operation":"UPDATE"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		newHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, route, bytes.NewReader(body)))
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("code %d", w.Code)
		}
	})
}
