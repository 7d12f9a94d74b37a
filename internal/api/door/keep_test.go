package door

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestNoPatchTakesTheMarkAway sends patches of all forms.
func TestNoPatchTakesTheMarkAway(t *testing.T) {
	const merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
	for _, c := range []struct{ contentType, patch, want string }{
		{merge, `{"spec":{"a":1}}`, `{"spec":{"a":1}}`},
		{merge, `{"spec":{"selector":{"labels":{"a":"b"}}}}`, `{"spec":{"selector":{"labels":{"a":"b"}}}}`},
		{merge, `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"b","windtunnel.dev/run":"r1"}}}`},
		{merge, `{"metadata":{"uid":"u","labels":{"windtunnel.dev/run":null}}}`, `{"metadata":{"uid":"u","labels":{"windtunnel.dev/run":"r1"}}}`},
		{merge, `{"metadata":{"labels":null},"spec":{}}`, `{"metadata":{"labels":{"windtunnel.dev/run":"r1"}},"spec":{}}`},
		{strategic, `{"metadata":{"labels":{"$patch":"replace","a":"b"}}}`, `{"metadata":{"labels":{"$patch":"replace","a":"b","windtunnel.dev/run":"r1"}}}`},
		{jsonPatch, `[{"op":"test","path":"/metadata/labels","value":{"a":"b"}},{"op":"replace","path":"/metadata/labels","value":{"c":"d"}}]`,
			`[{"op":"test","path":"/metadata/labels","value":{"a":"b"}},{"op":"replace","path":"/metadata/labels","value":{"c":"d","windtunnel.dev/run":"r1"}}]`},
		{jsonPatch, `[{"op":"remove","path":"/metadata/labels"}]`, `[{"op":"replace","path":"/metadata/labels","value":{"windtunnel.dev/run":"r1"}}]`},
		{jsonPatch, `[{"op":"remove","path":"/metadata/labels/windtunnel.dev~1run"}]`, `[{"op":"replace","path":"/metadata/labels/windtunnel.dev~1run","value":"r1"}]`},
		{jsonPatch, `[{"op":"add","path":"/metadata/labels/windtunnel.dev~1run","value":"r2"}]`, `[{"op":"add","path":"/metadata/labels/windtunnel.dev~1run","value":"r1"}]`},
		{jsonPatch, `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`, `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`},
	} {
		got, err := keepLabel([]byte(c.patch), c.contentType, "r1")
		if err != nil {
			t.Errorf("%s: %v", c.patch, err)
			continue
		}
		var a, b any
		repotest.NoError(t, json.Unmarshal(got, &a))
		repotest.NoError(t, json.Unmarshal([]byte(c.want), &b))
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s\nbecomes %s\nwant    %s", c.patch, got, c.want)
		}
	}
}
