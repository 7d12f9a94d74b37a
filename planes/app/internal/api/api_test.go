package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/definitions"
)

// TestCompression holds that revisions and trackers read as they were written,
// whatever way they are stored in, and that a stored one is smaller.
func TestCompression(t *testing.T) {
	all := repotest.Must(definitions.All())(t)
	r := &api.Revision{Spec: api.RevisionSpec{RevisionContent: api.RevisionContent{
		Application:          api.Application{Spec: api.ApplicationSpec{Components: []api.Component{{Name: "c", Type: "webservice", Properties: json.RawMessage(`{"image":"nginx"}`)}}}},
		ComponentDefinitions: map[string]*api.Definition{"webservice": all[0]},
	}}}
	tracker := &api.Tracker{Spec: api.TrackerSpec{Type: api.TrackerVersioned, ApplicationGeneration: 3, ManagedResources: []api.ManagedResource{
		{ResourceReference: api.ResourceReference{APIVersion: "v1", Kind: "Secret", Name: "s"}, Component: "c", Raw: json.RawMessage(`{"a":"` + strings.Repeat("b", 500) + `"}`)},
	}}}
	plain := sizes(t, r, tracker)
	for _, kind := range []string{api.Uncompressed, api.Gzip, api.Zstd} {
		r.Spec.Compression.Type, tracker.Spec.Compression.Type = kind, kind
		for i, size := range sizes(t, r, tracker) {
			if (kind == api.Uncompressed) != (size == plain[i]) || size > plain[i] {
				t.Errorf("%q: %d bytes, plain %d", kind, size, plain[i])
			}
		}
		var gotRevision api.Revision
		var gotTracker api.Tracker
		again(t, r, &gotRevision)
		again(t, tracker, &gotTracker)
		if !reflect.DeepEqual(&gotRevision, r) || !reflect.DeepEqual(&gotTracker, tracker) {
			t.Errorf("%q: other than it was:\n%+v\n%+v", kind, gotRevision, gotTracker)
		}
	}
}

// BenchmarkCompression writes and reads a revision with its definitions, as a cache does for
// each that it watches.
func BenchmarkCompression(b *testing.B) {
	all := repotest.Must(definitions.All())(b)
	for _, kind := range []string{api.Uncompressed, api.Gzip, api.Zstd} {
		r := &api.Revision{Spec: api.RevisionSpec{Compression: api.Compression{Type: kind}, RevisionContent: api.RevisionContent{
			ComponentDefinitions: map[string]*api.Definition{"webservice": all[0]},
		}}}
		b.Run("write/"+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				repotest.Must(json.Marshal(r))(b)
			}
		})
		raw := repotest.Must(json.Marshal(r))(b)
		b.Run("read/"+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				repotest.NoError(b, json.Unmarshal(raw, &api.Revision{}))
			}
		})
	}
}

func sizes(t *testing.T, all ...any) (out []int) {
	t.Helper()
	for _, o := range all {
		raw := repotest.Must(json.Marshal(o))(t)
		out = append(out, len(raw))
	}
	return out
}

func again(t *testing.T, o, into any) {
	t.Helper()
	repotest.NoError(t, json.Unmarshal(repotest.Must(json.Marshal(o))(t), into))
}

func TestBadCompression(t *testing.T) {
	w := repotest.Must(zstd.NewWriter(nil))(t)
	large := base64.StdEncoding.EncodeToString(w.EncodeAll(bytes.Repeat([]byte(" "), 65<<20), nil)) // some kB
	for raw, want := range map[string]string{
		`{"spec":{"compression":{"type":"zstd","data":"` + large + `"}}}`: "exceeds",
		`{"spec":{"compression":{"type":"zstd","data":"!"}}}`:             "compressed data",
		`{"spec":{"compression":{"type":"zstd","data":"AAAA"}}}`:          "compressed data",
		`{"spec":{"compression":{"type":"gzip","data":"AAAA"}}}`:          "compressed data",
		`{"spec":{"compression":{"type":"lzma","data":"AAAA"}}}`:          `compression "lzma"`,
	} {
		for _, into := range []any{&api.Revision{}, &api.Tracker{}} {
			if err := json.Unmarshal([]byte(raw), into); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.80s: %v, want %q", raw, err, want)
			}
		}
	}
}

func TestCustomResources(t *testing.T) {
	all, err := api.CustomResources()
	if err != nil || len(all) != 8 {
		t.Fatalf("%d, %v", len(all), err)
	}
	known := api.Scheme().KnownTypes(api.GroupVersion())
	for _, o := range all {
		kind := strings.TrimSuffix(o.GetName(), "."+api.Group)
		found := kind == api.Resource(api.KindWorkflow) // which is read into api.Workflow as it stands
		for name := range known {
			found = found || api.Resource(name) == kind
		}
		if !found {
			t.Errorf("%s has no Go type", o.GetName())
		}
	}
}

// TestCopies holds that a copy can be changed without its original.
func TestCopies(t *testing.T) {
	a := &api.Application{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"a"}}, Status: api.ApplicationStatus{
		Workflow: &api.WorkflowStatus{Steps: []api.StepStatus{{Name: "s", SubSteps: []api.StepStatus{{Name: "s"}}}}}, LatestRevision: &api.RevisionName{Name: "a-v1"}, Services: []api.Service{{Name: "c"}},
	}}
	b := a.Copy()
	b.Finalizers[0], b.Status.Workflow.Steps[0].Name, b.Status.LatestRevision.Name, b.Status.Services[0].Name = "b", "t", "a-v2", "d"
	b.Status.Workflow.Steps[0].SubSteps[0].Name = "t"
	if a.Finalizers[0] != "a" || a.Status.Workflow.Steps[0].Name != "s" || a.Status.Workflow.Steps[0].SubSteps[0].Name != "s" || a.Status.LatestRevision.Name != "a-v1" || a.Status.Services[0].Name != "c" {
		t.Errorf("changed with its copy: %+v", a)
	}
}
