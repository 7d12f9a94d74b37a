package expression

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

const podJSON = `{"metadata": {"name": "p", "namespace": "ns", "creationTimestamp": "2026-01-02T03:04:00Z",
  "annotations": {"cpu": "250m"}, "labels": {"a": "b"}},
 "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
   "livenessProbe": {"httpGet": {"port": 80}}}]},
 "status": {"phase": "Running", "startTime": "2026-01-02T03:04:01Z", "conditions": [{"type": "Ready", "status": "True"}]}}`

func subjectOf(t testing.TB) Subject {
	t.Helper()
	var pod corev1.Pod
	repotest.NoError(t, json.Unmarshal([]byte(podJSON), &pod))
	node := corev1.Node{}
	node.Name = "n"
	node.Status.Capacity = corev1.ResourceList{"cpu": pod.Spec.Containers[0].Resources.Requests["cpu"]}
	return Subject{Node: &node, Pod: &pod, Container: &pod.Spec.Containers[0]}
}

// fixed is a usage that says what it was asked.
type fixed struct{ asked []string }

func (f *fixed) Pod(pod *corev1.Pod, container, resource string, cumulative bool) (float64, error) {
	if resource == "bad" {
		return 0, errors.New("no such resource")
	}
	f.asked = append(f.asked, strings.Join([]string{pod.Name, container, resource, map[bool]string{true: "total"}[cumulative]}, ","))
	return 2.5, nil
}

func (f *fixed) Node(node *corev1.Node, resource string, cumulative bool) (float64, error) {
	return f.Pod(&corev1.Pod{ObjectMeta: node.ObjectMeta}, "node", resource, cumulative)
}

func (f *fixed) Started(node string) (float64, error) { return float64(len(node)), nil }

func TestFormulas(t *testing.T) {
	l := repotest.Must(NewFormulas())(t)
	m := Moment{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Rand: rand.New(rand.NewPCG(1, 2))}
	for src, want := range map[string]float64{
		`1`:                                   1,
		`1u`:                                  1,
		`true`:                                1,
		`false`:                               0,
		`duration("2s")`:                      2e9,
		`Quantity("1500m")`:                   1.5,
		`Quantity("1Ki") + Quantity("1")`:     1025,
		`Quantity("1") * 2.5`:                 2.5,
		`pod.SinceSecond()`:                   5,
		`SinceSecond(pod)`:                    5,
		`UnixSecond(pod.status.startTime)`:    1767323041,
		`Now().UnixSecond()`:                  1767323045,
		`pod.Usage("cpu")`:                    2.5,
		`pod.Usage("cpu", container.name)`:    2.5,
		`pod.CumulativeUsage("memory", "c")`:  2.5,
		`pod.CumulativeUsage("memory")`:       2.5,
		`node.Usage("cpu") + 1.0`:             3.5,
		`node.CumulativeUsage("cpu")`:         2.5,
		`StartedContainersTotal(node)`:        1,
		`StartedContainersTotal("four")`:      4,
		`node.StartedContainersTotal()`:       1,
		`startedContainersTotal(node)`:        1,
		`container.resources.requests["cpu"]`: 0.5,
		`container.resources.requests.memory`: 1 << 30,
		`pod.spec.containers.size()`:          1,
		`pod.spec.volumes.size()`:             0,
		`pod.spec.terminationGracePeriodSeconds == null ? 7 : 8`:                                         7,
		`has(pod.status.startTime) && !has(pod.status.reason) ? 1 : 0`:                                   1,
		`pod.spec.containers[0].livenessProbe.httpGet.port`:                                              80,
		`"cpu" in pod.metadata.annotations ? Quantity(pod.metadata.annotations["cpu"]) : Quantity("1m")`: 0.25,
		`"mem" in pod.metadata.annotations ? 1 : 2`:                                                      2,
		`pod.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`:                       1,
		`Rand() < 1.0 && Rand() >= 0.0`:                                                                  1,
		`pod.status.phase == "Running" ? 1 : 0`:                                                          1,
		`pod == pod && pod.spec != pod.status`:                                                           1,
		`node.status.capacity["cpu"] < Quantity("1")`:                                                    1,
	} {
		f, err := l.Compile(src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got, err := f.Number(subjectOf(t), &fixed{}, m); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", src, got, err, want)
		}
	}
}

func TestFormulaAsks(t *testing.T) {
	l := repotest.Must(NewFormulas())(t)
	f := repotest.Must(l.Compile(`pod.Usage("cpu") + pod.CumulativeUsage("memory", "c") + node.Usage("gpu")`))(t)
	var u fixed
	if _, err := f.Number(subjectOf(t), &u, Moment{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(u.asked, " "); got != "p,,cpu, p,c,memory,total n,node,gpu," {
		t.Error(got)
	}
}

func TestFormulaFaults(t *testing.T) {
	l := repotest.Must(NewFormulas())(t)
	whole := subjectOf(t)
	for src, want := range map[string]string{
		`pod.Usage(`:                          "cel: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER} (column 11)",
		`pot.metadata.name`:                   "cel: undeclared reference to 'pot' (in container '') (column 1)",
		`pod.Used("cpu")`:                     "cel: undeclared reference to 'Used' (in container '') (column 9)",
		`pod.metadata.nam`:                    "cel: no such field in a ObjectMeta: nam",
		`pod.spec.containers[0].resource`:     "cel: no such field in a Container: resource",
		`"x"`:                                 "cel: gives string, want a number",
		`pod.Usage("bad")`:                    "cel: no such resource",
		`pod.Usage(1)`:                        "cel: no such overload",
		`container.Usage("cpu")`:              "cel: usage is of a pod or a node, not of a windtunnel.Container",
		`node.Usage("cpu", "c")`:              "cel: a node's usage wants one argument: the resource",
		`StartedContainersTotal(container)`:   "cel: StartedContainersTotal is of a node or its name, not of a windtunnel.Container",
		`pod.metadata.annotations["missing"]`: "cel: no such key: missing",
	} {
		f, err := l.Compile(src)
		if err == nil {
			_, err = f.Number(whole, &fixed{}, Moment{})
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", src, err, want)
		}
	}
	f := repotest.Must(l.Compile("pod.metadata.name"))(t)
	if got, err := f.Text(whole, &fixed{}, Moment{}); got != "p" || err != nil {
		t.Error(got, err)
	}
	if _, err := f.Text(Subject{Node: whole.Node}, &fixed{}, Moment{}); err == nil || err.Error() != "cel: pod has no value here: mind the metric's dimension" {
		t.Error(err)
	}
}

// TestFormulaTry has what can be told without objects, and what cannot.
func TestFormulaTry(t *testing.T) {
	l := repotest.Must(NewFormulas())(t)
	empty := Subject{Node: &corev1.Node{}, Pod: &corev1.Pod{}}
	for src, want := range map[string]string{
		`pod.metadata.name`:                                       "",
		`pod.metadata.annotations["a"]`:                           "",
		`pod.spec.containers[0].name`:                             "",
		`pod.Usage("cpu") / node.Usage("cpu")`:                    "",
		`pod.metadata.title`:                                      "cel: no such field in a ObjectMeta: title",
		`has(pod.spec.title)`:                                     "cel: no such field in a PodSpec: title",
		`container.name`:                                          "cel: container has no value here: mind the metric's dimension",
		`"a" in pod.metadata.annotations ? pod.metadata.x : "no"`: "", // only told when it comes to it
	} {
		f := repotest.Must(l.Compile(src))(t)
		got := ""
		if err := f.Try(empty); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
}

// TestNativeIsLikeTyped shows that an expression gives the same on a typed
// object as on the object's JSON tree.
func TestNativeIsLikeTyped(t *testing.T) {
	l := repotest.Must(NewLanguage("v1", "Pod"))(t)
	formulas := repotest.Must(NewFormulas())(t)
	for _, src := range []string{
		`X.metadata.name`, `X.metadata.labels["a"]`, `X.spec.containers[0].image`, `X.status.reason`,
		`X.spec.containers[0].resources.requests["memory"] == Quantity("1Gi") ? "y" : "n"`, `string(X.spec.containers[0].livenessProbe.httpGet.port)`, `string(X.status.startTime)`,
		`string(X.spec.hostNetwork)`, `string(X.spec.containers.map(c, c.name).size())`, `string(X.metadata.creationTimestamp)`,
	} {
		p := repotest.Must(l.Compile(strings.ReplaceAll(src, "X", "self"), false))(t)
		f := repotest.Must(formulas.Compile(strings.ReplaceAll(src, "X", "pod")))(t)
		want, err := p.Eval(tree(t, podJSON), Moment{})
		if err != nil {
			t.Fatal(src, err)
		}
		if got, err := f.Text(subjectOf(t), nothing{}, Moment{}); err != nil || got != want.Value() {
			t.Errorf("%s: %v, %v, want %v", src, got, err, want)
		}
	}
}

func BenchmarkFormula(b *testing.B) {
	l := repotest.Must(NewFormulas())(b)
	f := repotest.Must(l.Compile(`"cpu" in pod.metadata.annotations ? Quantity(pod.metadata.annotations["cpu"]) : Quantity("1m")`))(b)
	s := subjectOf(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Number(s, nothing{}, Moment{}); err != nil {
			b.Fatal(err)
		}
	}
}
