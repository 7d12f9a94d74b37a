package flight

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// A cluster in which nobody makes service accounts ends a run with a sentence.
func TestNamespaceThatStaysUnusable(t *testing.T) {
	client := apitest.Client(t, apitest.New(t).Endpoint(), clock.Start())
	err := awaitUsable(t.Context(), client, "n", 100*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "namespace n did not become usable: it has no service account") {
		t.Errorf("%v", err)
	}
}

// TestANamespaceOfAKilledRunNamesClean tells a namespace of somebody from one that a run left.
func TestANamespaceOfAKilledRunNamesClean(t *testing.T) {
	s := apitest.New(t)
	s.Add("/api/v1/namespaces/left-1", metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "left-1", Labels: map[string]string{object.RunLabel: "r0"}}})
	s.Add("/api/v1/namespaces/theirs", metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
	client := apitest.Client(t, s.Endpoint(), clock.Start())
	for name, want := range map[string]string{
		"left-1": "it was made by run r0; if that run was killed, windtunnel clean --kubeconfig FILE --run r0 deletes what it left",
		"theirs": "set namespaces.prefix to another name",
	} {
		if err := existsError(t.Context(), client, name); err == nil || !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
