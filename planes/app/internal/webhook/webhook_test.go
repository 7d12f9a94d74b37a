package webhook

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

func request(object string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{Namespace: "n", Object: runtime.RawExtension{Raw: []byte(object)}}
}

func TestShards(t *testing.T) {
	second := func(string, int) int { return 1 }
	for _, tt := range []struct {
		object, want string
		shards       []string
	}{
		{`{"metadata":{"name":"a"}}`, `"controller.core.oam.dev/scheduled-shard-id":"y"`, []string{"x", "y"}},
		{`{"metadata":{"name":"a","labels":{"b":"c"}}}`, `"b":"c"`, []string{"x", "y"}},
		{`{"metadata":{"name":"a","labels":{"controller.core.oam.dev/scheduled-shard-id":"z"}}}`, "", []string{"x", "y"}},
		{`{"metadata":{"name":"a"}}`, "", nil},
	} {
		got := Options{Schedulable: tt.shards}.mutateApplication(request(tt.object), second)
		if !got.Allowed || !strings.Contains(string(got.Patch), tt.want) || (tt.want == "") != (got.Patch == nil) {
			t.Errorf("%s, %v: %+v %s", tt.object, tt.shards, got, got.Patch)
		}
	}
	if got := (Options{}).mutateApplication(request(`{"spec":1}`), second); got.Allowed {
		t.Error("what cannot be read passes")
	}
}

// TestChance holds that a seed gives an application the same shard always, another
// seed perhaps another, and every shard its share.
func TestChance(t *testing.T) {
	same, of := 0, map[int]int{}
	for i := range 900 {
		key := fmt.Sprint("load-test/app-", i)
		shard, again := choiceBySeed(7)(key, 3), choiceBySeed(7)(key, 3)
		of[shard]++
		if shard != again {
			t.Fatalf("%s has two shards", key)
		}
		if shard == choiceBySeed(8)(key, 3) {
			same++
		}
	}
	if len(of) != 3 || of[0] < 240 || of[1] < 240 || of[2] < 240 || same > 400 { // 300 each, and 300 alike, by chance
		t.Errorf("shards have %v, %d are alike under another seed", of, same)
	}
}

func TestValidation(t *testing.T) {
	there := map[string]bool{
		api.KindComponent + " vela-system webservice": true, api.KindTrait + " n mine": true, api.KindTrait + " vela-system scaler": true,
		api.KindStep + " vela-system suspend": true, api.KindPolicy + " vela-system apply-once": true,
	}
	find := func(kind, namespace, name string) error {
		if there[kind+" "+namespace+" "+name] {
			return nil
		}
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
	}
	const app = `{"metadata":{"name":"a"%s},"spec":{"components":[{"name":"c","type":"%s","traits":[{"type":"%s"}]}],"policies":[{"name":"p","type":"%s"}],"workflow":{"steps":[{"name":"s","type":"%s"}]}}}`
	for _, tt := range []struct{ object, refused string }{
		{fmt.Sprintf(app, "", "webservice", "scaler", "apply-once", "suspend"), ""},
		{fmt.Sprintf(app, "", "webservice", "mine", "apply-once", "suspend"), ""},
		{fmt.Sprintf(app, "", "webservise", "scaler", "apply-once", "suspend"), `component c: ComponentDefinition "webservise"`},
		{fmt.Sprintf(app, "", "webservice", "scalar", "apply-once", "suspend"), `component c: TraitDefinition "scalar"`},
		{fmt.Sprintf(app, "", "webservice", "scaler", "apply-twice", "suspend"), `policy p: PolicyDefinition "apply-twice"`},
		{fmt.Sprintf(app, "", "webservice", "scaler", "apply-once", "resume"), `step s: WorkflowStepDefinition "resume"`},
		{fmt.Sprintf(app, `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, "webservise", "scaler", "apply-once", "suspend"), ""},
		{`{"spec":{"components":[],"workflow":{"steps":[{"name":"g","type":"suspend","subSteps":[{"name":"s","type":"resume"}]}]}}}`, `step s: WorkflowStepDefinition "resume"`},
		{`{"spec":1}`, "cannot unmarshal"},
	} {
		got := validateApplication(request(tt.object), find)
		if got.Allowed != (tt.refused == "") || !got.Allowed && !strings.Contains(got.Result.Message, tt.refused) {
			t.Errorf("%s: %+v, want %q", tt.object, got, tt.refused)
		}
	}
}
