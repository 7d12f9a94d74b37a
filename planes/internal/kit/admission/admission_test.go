package admission

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

func TestHandler(t *testing.T) {
	var operations []string
	h := Hook{
		Decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			switch q.Operation {
			case admissionv1.Create:
				return Patch([]any{map[string]any{"op": "add", "path": "/a", "value": 1}})
			case admissionv1.Update:
				return Deny(errors.New("not so"))
			}
			return Allow()
		},
		Took: func(operation string, _ time.Duration) { operations = append(operations, operation) },
	}
	for body, want := range map[string]string{
		`{"request":{"uid":"q","operation":"CREATE"}}`: `"uid":"q","allowed":true,"patch":`,
		`{"request":{"uid":"r","operation":"UPDATE"}}`: `"uid":"r","allowed":false,"status":{"metadata":{},"message":"not so","code":400}`,
		`{"request":{"uid":"s","operation":"DELETE"}}`: `"uid":"s","allowed":true}`,
		`{}`:   "want an AdmissionReview",
		`{"a`:  "want an AdmissionReview",
		`null`: "want an AdmissionReview",
	} {
		w := httptest.NewRecorder()
		Handler(h, clock.Start(), slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
	if len(operations) != 3 {
		t.Errorf("told of %v", operations)
	}
}

func TestRegistration(t *testing.T) {
	_, ca, err := issueCertificate(Options{Name: "a-webhook", Env: process.Env{Clock: clock.Start()}})
	repotest.NoError(t, err)
	h := Hook{Configuration: "c", Name: "m.example.org", Path: "/m", Rule: registrationv1.RuleWithOperations{Operations: []registrationv1.OperationType{registrationv1.Create}}, Labels: map[string]string{"a": "b"}}
	m, v := mutatingConfiguration(h, "https://127.0.0.1:1", ca), validatingConfiguration(h, "https://127.0.0.1:1", ca)
	if w := m.Webhooks[0]; m.Name != "c" || !bytes.Equal(w.ClientConfig.CABundle, ca) || *w.ClientConfig.URL != "https://127.0.0.1:1/m" || len(w.Rules[0].Operations) != 1 || *w.FailurePolicy != registrationv1.Fail || w.ObjectSelector.MatchLabels["a"] != "b" {
		t.Errorf("%+v", w)
	}
	if w := v.Webhooks[0]; v.Name != "c" || w.Name != "m.example.org" || *w.ClientConfig.URL != "https://127.0.0.1:1/m" {
		t.Errorf("%+v", w)
	}
}

func TestReachable(t *testing.T) {
	for _, tt := range []struct {
		server, listen string
		elsewhere      bool
	}{
		{"https://127.0.0.1:6443", "127.0.0.1:0", false},
		{"https://localhost:6443", "127.0.0.1:0", false},
		{"https://prod.example.org:6443", "127.0.0.1:0", true},
		{"https://prod.example.org:6443", "[::1]:0", true},
		{"https://prod.example.org:6443", "10.0.0.7:9443", false},
	} {
		if err := requireReachable(tt.server, tt.listen); errors.Is(err, errElsewhere) != tt.elsewhere {
			t.Errorf("%s, %s: %v", tt.server, tt.listen, err)
		}
	}
}
