package behind_test

import (
	"encoding/json"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/steps/behind"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestBehindSaysWhatObjectsWaitFor(t *testing.T) {
	for _, tt := range []struct{ object, condition, want string }{
		{`{"metadata":{"name":"w","namespace":"n"},"status":{"conditions":[{"type":"Accepted","status":"True"},
			{"type":"Ready","status":"False","reason":"NoRoom","message":"0 of 3\nnodes"}]}}`, `self.status.conditions.exists(c, c.type == "Redy" && c.status == "True")`,
			`; behind: n/w Accepted True, Ready False (NoRoom: 0 of 3 nodes); no condition of type "Redy": seen Accepted, Ready (did you mean "Ready"?)`},
		{`{"metadata":{"name":"n"},"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Lost","message":"it posts nothing"},
			{"type":"Memory","status":"Unknown","reason":"Lost","message":"it posts nothing"}]}}`,
			`{.status.conditions[?(@.type=='Ready')].status}=True`, "; behind: n Ready Unknown (Lost: it posts nothing), Memory Unknown"},
		{`{"metadata":{"name":"w"},"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Gone"}]}}`,
			`{.status.conditions[?(@.type=='Ready')].status}=True`, "; behind: w Ready Unknown (Gone)"},
		{`{"metadata":{"name":"p","namespace":"n","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b","c"]},"status":{"phase":"Pending"}}`,
			"", "; behind: n/p terminating, finalizer a/b, finalizer c, Pending"},
		{`{"metadata":{"name":"m"}}`, "self.status.conditions.exists(c, c.type == 'Ready')", `; behind: m; no condition of type "Ready": seen none`},
	} {
		var one behind.Object
		repotest.NoError(t, json.Unmarshal([]byte(tt.object), &one))
		b := behind.Objects{one}
		if got := b.String() + b.DescribeUnseen(tt.condition); got != tt.want {
			t.Errorf("\n got %s\nwant %s", got, tt.want)
		}
	}
}

func TestPodsThatAreBehind(t *testing.T) {
	for _, tt := range []struct {
		pod  string
		want map[string]bool
	}{
		{`{}`, map[string]bool{"created": true}},
		{`{"spec":{"nodeName":"a"},"status":{"phase":"Pending"}}`, map[string]bool{"created": true, "bound": true}},
		{`{"spec":{"nodeName":"a"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}}`,
			map[string]bool{"created": true, "bound": true, "running": true}},
		{`{"spec":{"nodeName":"a"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`,
			map[string]bool{"created": true, "bound": true, "running": true, "ready": true}},
	} {
		var one behind.Object
		repotest.NoError(t, json.Unmarshal([]byte(tt.pod), &one))
		for _, phase := range []string{"created", "bound", "running", "ready"} {
			if one.IsInPhase(phase) != tt.want[phase] {
				t.Errorf("%s: %s is %v", tt.pod, phase, one.IsInPhase(phase))
			}
		}
	}
}
