package placement_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/placement"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// required is a pod with a required node affinity of some terms.
func required(terms ...string) string {
	return `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + strings.Join(terms, ",") + `]}}}}`
}

func match(expressions ...string) string {
	return `{"matchExpressions":[` + strings.Join(expressions, ",") + `]}`
}

func expression(key, operator string, values ...string) string {
	return fmt.Sprintf(`{"key":%q,"operator":%q,"values":["%s"]}`, key, operator, strings.Join(values, `","`))
}

func TestLabels(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pods  []string
		fixed map[string]string
		want  string
		unmet string
	}{
		{"nothing", []string{`{}`}, nil, "map[]", ""},
		{"selector", []string{`{"nodeSelector":{"purpose":"batch"}}`, `{"nodeSelector":{"purpose":"batch","disk":"fast"}}`}, nil, "map[disk:fast purpose:batch]", ""},
		{"two values", []string{`{"nodeSelector":{"a":"1"}}`, `{"nodeSelector":{"a":"2"}}`}, nil, "map[a:1]", "a=2"},
		{"the node's own", []string{`{"nodeSelector":{"kubernetes.io/os":"linux"}}`}, nil, "map[]", ""},
		{"another system", []string{`{"nodeSelector":{"kubernetes.io/os":"windows"}}`}, nil, "map[kubernetes.io/os:windows]", ""},
		{"one node", []string{`{"nodeSelector":{"kubernetes.io/hostname":"n"}}`}, nil, "map[]", "kubernetes.io/hostname=n"},
		{"not labels", []string{`{"nodeSelector":"map[a:b]","affinity":"none"}`}, nil, "map[]", ""},
		{"in", []string{required(match(expression("kind", "In", "simulated", "other")))}, nil, "map[kind:simulated]", ""},
		{"exists", []string{`{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"x","operator":"Exists"}]}]}}}}`}, nil, "map[x:]", ""},
		{"greater and less", []string{required(match(expression("n", "Gt", "4"), expression("n", "Lt", "9"), expression("m", "Lt", "3")))}, nil, "map[m:2 n:5]", ""},
		{"not in", []string{required(match(expression("a", "NotIn", "1"))), `{"nodeSelector":{"a":"1"}}`}, nil, "map[]", "a=1"},
		{"not in, then in", []string{required(match(expression("a", "NotIn", "1"))), required(match(expression("a", "In", "1", "2")))}, nil, "map[a:2]", ""},
		{"no such label", []string{required(match(expression("a", "DoesNotExist", "")))}, nil, "map[]", ""},
		{"the second term", []string{`{"nodeSelector":{"a":"1"}}`, required(match(expression("b", "In", "1"), expression("a", "In", "2")), match(expression("a", "In", "1"), expression("c", "In", "3")))}, nil, "map[a:1 c:3]", ""},
		{"no term", []string{`{"nodeSelector":{"a":"1"}}`, required(match(expression("a", "In", "2")), `{"matchFields":[{"key":"metadata.name"}]}`)}, nil, "map[a:1]", "a In (2), fields of one node"},
		{"preferred only", []string{`{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}}}`}, nil, "map[]", ""},
		{"given", []string{`{"nodeSelector":{"a":"1"}}`, `{"nodeSelector":{"b":"1"}}`}, map[string]string{"a": "1"}, "map[]", "b=1"},
		{"given none", []string{`{"nodeSelector":{"a":"1"}}`}, map[string]string{}, "map[]", "a=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := placement.Labels{Fixed: tt.fixed}
			for _, text := range tt.pods {
				var p placement.Pod
				repotest.NoError(t, json.Unmarshal([]byte(text), &p))
				l.Want(p)
				l.Want(p) // the same again
			}
			if got := fmt.Sprint(l.Values()); got != tt.want {
				t.Errorf("labels %s, want %s", got, tt.want)
			}
			if got := strings.Join(l.Unmet(), "; "); got != tt.unmet {
				t.Errorf("unmet %q, want %q", got, tt.unmet)
			}
		})
	}
}

func Example() {
	var nodes placement.Labels
	nodes.Want(placement.Pod{NodeSelector: []byte(`{"pool":"batch"}`)})
	nodes.Want(placement.Pod{NodeSelector: []byte(`{"pool":"web"}`)})
	fmt.Println(nodes.Values(), nodes.Unmet())
	// Output: map[pool:batch] [pool=web]
}
