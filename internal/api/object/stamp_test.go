package object_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestMark(t *testing.T) {
	const label = `"labels":{"windtunnel.dev/run":"r1"}`
	const bound = `"nodeSelector":{"windtunnel.dev/fleet":"f"},"tolerations":[{"effect":"NoSchedule","key":"windtunnel.dev/fleet","operator":"Equal","value":"f"}]`
	both := object.Stamp{Run: "r1", Fleet: "f"}
	for name, tt := range map[string]struct {
		stamp    object.Stamp
		in, want string
	}{
		"none":                            {object.Stamp{}, `{"kind":"X"}`, `{"kind":"X"}`},
		"no metadata":                     {both, `{"kind":"X"}`, `{"kind":"X","metadata":{` + label + `}}`},
		"other labels":                    {both, `{"metadata":{"labels":{"a":"b"},"name":"n"}}`, `{"metadata":{"labels":{"a":"b","windtunnel.dev/run":"r1"},"name":"n"}}`},
		"large numbers":                   {both, `{"n":9007199254740993,"s":"<&"}`, `{"metadata":{` + label + `},"n":9007199254740993,"s":"<&"}`},
		"a pod":                           {both, `{"spec":{"containers":[]}}`, `{"metadata":{` + label + `},"spec":{"containers":[],` + bound + `}}`},
		"on a node":                       {both, `{"spec":{"containers":[],"nodeName":"n"}}`, `{"metadata":{` + label + `},"spec":{"containers":[],"nodeName":"n"}}`},
		"no fleet":                        {object.Stamp{Run: "r1"}, `{"spec":{"containers":[]}}`, `{"metadata":{` + label + `},"spec":{"containers":[]}}`},
		"nodes of a plane":                {object.Stamp{Run: "r1", Nodes: true}, `{"spec":{"containers":[]}}`, `{"metadata":{` + label + `},"spec":{"containers":[],"tolerations":[{"effect":"NoSchedule","key":"windtunnel.dev/run","operator":"Equal","value":"r1"}]}}`},
		"nodes of a plane and of a fleet": {object.Stamp{Run: "r1", Nodes: true, Fleet: "f1"}, `{"spec":{"containers":[],"nodeSelector":{"kosmos.io/node":"true"}}}`, `{"metadata":{` + label + `},"spec":{"containers":[],"nodeSelector":{"kosmos.io/node":"true","windtunnel.dev/run":"r1"},"tolerations":[{"effect":"NoSchedule","key":"windtunnel.dev/run","operator":"Equal","value":"r1"},{"effect":"NoSchedule","key":"windtunnel.dev/fleet","operator":"Equal","value":"f1"}]}}`},
		"a template":                      {both, `{"spec":{"template":{"spec":{"containers":[]}}}}`, `{"metadata":{` + label + `},"spec":{"template":{"metadata":{` + label + `},"spec":{"containers":[],` + bound + `}}}}`},
		"a cron job":                      {both, `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[]}}}}}}`, `{"metadata":{` + label + `},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{` + label + `},"spec":{"containers":[],` + bound + `}}}}}}`},
		"claims":                          {both, `{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"c"}}]}}`, `{"metadata":{` + label + `},"spec":{"volumeClaimTemplates":[{"metadata":{` + label + `,"name":"c"}}]}}`},
		"its own wishes":                  {both, `{"spec":{"containers":[],"nodeSelector":{"zone":"a"},"tolerations":[{"key":"k"}]}}`, `{"metadata":{` + label + `},"spec":{"containers":[],"nodeSelector":{"windtunnel.dev/fleet":"f","zone":"a"},"tolerations":[{"key":"k"},` + bound[strings.Index(bound, `{"effect"`):] + `}}`},
	} {
		got, err := tt.stamp.MarkJSON([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", name, got, err, tt.want)
		}
	}
	once := repotest.Must(both.MarkJSON([]byte(`{"spec":{"containers":[]}}`)))(t)
	if twice, err := both.MarkJSON(once); err != nil || string(twice) != string(once) {
		t.Errorf("stamped twice: %s, %v, want %s", twice, err, once)
	}
	for _, wrong := range []string{`{"metadata":[]}`, `{"metadata":{"labels":"a"}}`, `[]`, `{`, `{"spec":{"template":{"metadata":1,"spec":{"containers":[]}}}}`} {
		if got, err := both.MarkJSON([]byte(wrong)); err == nil {
			t.Errorf("%s: %s", wrong, got)
		}
	}
}
