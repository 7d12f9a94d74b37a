package api_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

func TestSpecificationsAreKeptAsTheyWereSent(t *testing.T) {
	const text = `{"spec":{"domain":{"cpu":{"cores":2,"model":"host"},"firmware":{"uuid":"u"}},"volumes":[{"name":"d","cloudInitNoCloud":{"userData":"x"}}],"unknown":[1,{"a":null}]}}`
	var vmi api.Instance
	repotest.NoError(t, json.Unmarshal([]byte(text), &vmi))
	if vmi.Spec.VCPUs() != 2 || len(vmi.Spec.Volumes) != 1 {
		t.Errorf("read: %+v", vmi.Spec.View)
	}
	raw := repotest.Must(json.Marshal(vmi.Copy()))(t)
	var before, after map[string]any
	repotest.NoError(t, json.Unmarshal([]byte(text), &before))
	repotest.NoError(t, json.Unmarshal(raw, &after))
	if !reflect.DeepEqual(before["spec"], after["spec"]) {
		t.Errorf("written: %s", raw)
	}
}

// TestStatusesKeepWhatOthersWrite reads and writes statuses with fields of other programs
// and other releases.
func TestStatusesKeepWhatOthersWrite(t *testing.T) {
	for name, o := range map[string]struct {
		text string
		into any
	}{
		"instance": {`{"phase":"Running","virtualMachineRevisionName":"r","volumeStatus":[{"name":"d","target":""}],"memory":{"guestRequested":"1Gi"},` +
			`"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"Ready"}],` +
			`"migrationState":{"migrationUid":"u","mode":"PreCopy","targetState":{"node":"n"}}}`, &api.InstanceStatus{}},
		"machine":   {`{"created":true,"observedGeneration":2,"volumeSnapshotStatuses":[{"name":"d","enabled":false}]}`, &api.MachineStatus{}},
		"migration": {`{"phase":"Running","migrationState":{"mode":"PreCopy"}}`, &api.MigrationStatus{}},
	} {
		if err := json.Unmarshal([]byte(o.text), o.into); err != nil {
			t.Fatal(name, err)
		}
		raw, err := json.Marshal(o.into)
		if err != nil {
			t.Fatal(name, err)
		}
		var before, after any
		if err := errors.Join(json.Unmarshal([]byte(o.text), &before), json.Unmarshal(raw, &after)); err != nil {
			t.Fatal(name, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s: read %s, written %s", name, o.text, raw)
		}
	}
	var s api.InstanceStatus
	repotest.NoError(t, json.Unmarshal([]byte(`{"conditions":[{"type":"Ready","status":"False","lastProbeTime":null,"lastTransitionTime":null}]}`), &s))
	raw, err := json.Marshal(api.With(s.Conditions, api.Condition{Type: "Ready", Status: "True"}, time.Unix(0, 0).UTC()))
	if want := `[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"1970-01-01T00:00:00Z"}]`; err != nil || string(raw) != want {
		t.Errorf("a changed condition is written as %s, want %s (%v)", raw, want, err)
	}
}

func TestGuestMemory(t *testing.T) {
	for text, want := range map[string]int64{
		`{"domain":{"memory":{"guest":"1Gi"},"resources":{"requests":{"memory":"90Mi"}}}}`: 1 << 30,
		`{"domain":{"resources":{"requests":{"memory":"90Mi"}}}}`:                          90 << 20,
		`{"domain":{"resources":{"limits":{"memory":"64Mi"}}}}`:                            64 << 20,
		`{}`: 0,
	} {
		var s api.InstanceSpec
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.GuestMemory() != want {
			t.Errorf("%s: %d, %v", text, s.GuestMemory(), err)
		}
	}
}

func TestConditionsKeepTheirTime(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	list := api.With(nil, api.Condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "A"}, early)
	same := api.With(list, api.Condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "A"}, late)
	reason := api.With(list, api.Condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "B"}, late)
	status := api.With(list, api.Condition{Type: "Ready", Status: corev1.ConditionTrue}, late)
	if &same[0] != &list[0] || !reason[0].LastTransitionTime.Time.Equal(early) || reason[0].Reason != "B" || !status[0].LastTransitionTime.Time.Equal(late) || list[0].Reason != "A" {
		t.Errorf("%v %v %v %v", list, same, reason, status)
	}
	if !api.True(status, "Ready") || api.True(list, "Ready") || api.True(list, "Other") {
		t.Error("True is wrong")
	}
}

func TestDefinitions(t *testing.T) {
	for _, sub := range []bool{false, true} {
		all, err := api.Definitions(sub)
		if err != nil || len(all) != 4 {
			t.Fatalf("%d definitions, %v", len(all), err)
		}
		for _, o := range all {
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			v := versions[0].(map[string]any)
			_, has := v["subresources"]
			if want := o.GetName() != "virtualmachineinstances.kubevirt.io" || sub; has != want {
				t.Errorf("%s: status subresource %v", o.GetName(), has)
			}
		}
	}
}

func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"domain":{"cpu":{"cores":4294967295,"sockets":4294967295}}}`))
	f.Add([]byte(`{"domain":{"resources":{"requests":{"memory":"-1"}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s api.InstanceSpec
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		s.GuestMemory()
		s.VCPUs()
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
	})
}

func TestPatchOfWhatCannotBeWritten(t *testing.T) {
	if _, err := (&api.Patch{}).Set("/x", func() {}).Bytes(); err == nil {
		t.Error("what cannot be written is no error")
	}
}
