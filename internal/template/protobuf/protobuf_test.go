package protobuf_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/template/protobuf"
)

const configMap = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: "{{ .Name }}"
  namespace: "{{ .Namespace }}"
  labels: {index: "{{ .Index }}", app: "app-{{ .Name }}-{{ randAlpha 4 }}"}
data:
  noise: {{ payload 300 }}
  fixed: "a line\nand \"quotes\" — ü"
`

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Name }}"}
spec:
  replicas: 3
  selector: {matchLabels: {app: "{{ .Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Name }}", group: "{{ .Group }}"}}
    spec:
      containers:
      - name: main
        image: "registry.example.org/{{ .Name }}:v1"
        resources: {requests: {cpu: 1000m, memory: 0.5Gi}}
        env: [{name: WHO, value: "{{ .Namespace }}/{{ .Name }}"}]
        ports: [{containerPort: 80}]
        readinessProbe: {httpGet: {port: http, path: /}}
`

func compiled(t testing.TB, text string) (*template.Template, *protobuf.Template) {
	t.Helper()
	json := repotest.Must(template.Compile("body.yaml", text, 1, template.Windtunnel()))(t)
	return json, protobuf.New(json)
}

func decoded(t testing.TB, body []byte) runtime.Object {
	t.Helper()
	o, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return o
}

func vars(i int) template.Vars {
	return template.Vars{Name: fmt.Sprintf("object-%d", i), Namespace: fmt.Sprintf("space-%d", i%7), Group: "g", Index: i, Seed: 5}
}

// same renders an object in both forms and compares what comes out of them.
func same(t testing.TB, json *template.Template, both *protobuf.Template, v template.Vars) (mediaType string) {
	t.Helper()
	plain := repotest.Must(json.Render(nil, v))(t)
	body, mediaType, err := both.Render([]byte("before"), v)
	repotest.NoError(t, err)
	body, ok := bytes.CutPrefix(body, []byte("before"))
	if !ok {
		t.Fatal("it does not append")
	}
	if mediaType == protobuf.JSON {
		if !bytes.Equal(body, plain) {
			t.Errorf("JSON differs: %s, %s", body, plain)
		}
		return mediaType
	}
	if a, b := decoded(t, plain), decoded(t, body); !equality.Semantic.DeepEqualWithNilDifferentFromEmpty(a, b) {
		t.Errorf("the objects differ:\nJSON     %v\nprotobuf %v", a, b)
	}
	return mediaType
}

func TestObjectsAreTheSame(t *testing.T) {
	for name, tt := range map[string]struct{ text, media, why string }{
		"config map": {configMap, protobuf.Protobuf, ""},
		"deployment": {deployment, protobuf.Protobuf, ""},
		"no holes":   {"apiVersion: v1\nkind: Namespace\nmetadata: {name: fixed}\n", protobuf.Protobuf, ""},
		"number": {"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: '{{ .Name }}'}\nspec: {replicas: {{ .Index }}, selector: {matchLabels: {a: b}}}\n",
			protobuf.Protobuf, "a value is not a text"},
		"base64":   {"apiVersion: v1\nkind: Secret\nmetadata: {name: '{{ .Name }}'}\ndata: {key: '{{ payload 40 }}'}\n", protobuf.Protobuf, "a value is not a text"},
		"quantity": {"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: '{{ .Name }}'}\nspec: {hard: {pods: '{{ .Index }}'}}\n", protobuf.Protobuf, "a value is not a text"},
		"int or string": {"apiVersion: v1\nkind: Service\nmetadata: {name: '{{ .Name }}'}\nspec: {ports: [{port: 80, targetPort: '{{ .Name }}'}]}\n",
			protobuf.Protobuf, ""},
		"executed":                {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name | upper }}'}\n", protobuf.Protobuf, "its template is executed"},
		"custom":                  {"apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: '{{ .Name }}'}\n", protobuf.JSON, "it is no built-in kind"},
		"unknown field":           {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}'}\ndatum: {a: b}\n", protobuf.JSON, `unknown field "datum"`},
		"unknown field, executed": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name | lower }}'}\ndatum: {a: b}\n", protobuf.JSON, "executed"},
		"wrong type":              {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}'}\ndata: [1]\n", protobuf.JSON, "cannot be decoded"},
		"empty list":              {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}', labels: {}}\n", protobuf.JSON, "protobuf would lose"},
		"empty pointer":           {"apiVersion: v1\nkind: Pod\nmetadata: {name: '{{ .Name }}'}\nspec: {containers: [{name: a}], volumes: [{name: v, emptyDir: {}}]}\n", protobuf.Protobuf, ""},
	} {
		json, both := compiled(t, tt.text)
		for i := range 300 {
			if tt.why == "cannot be decoded" {
				if _, media, err := both.Render(nil, vars(i)); media != protobuf.JSON || err != nil {
					t.Errorf("%s: %s, %v", name, media, err)
				}
				continue
			}
			if media := same(t, json, both, vars(i*i*i)); media != tt.media {
				t.Fatalf("%s: sent as %s, want %s: %s", name, media, tt.media, both.Why(vars(i)))
			}
		}
		if why := both.Why(vars(1)); !strings.Contains(why, tt.why) || (why == "") != (tt.why == "") {
			t.Errorf("%s: why %q, want %q", name, why, tt.why)
		}
	}
}

// A name that YAML might not take for a text is rendered the long way, and the
// object is the same.
func TestNamesOfEveryLook(t *testing.T) {
	json, both := compiled(t, configMap)
	for _, name := range []string{"1e5", "on", "object-1", "a", "0x1f", strings.Repeat("z", 200)} {
		v := vars(3)
		v.Name = name
		if media := same(t, json, both, v); media != protobuf.Protobuf {
			t.Errorf("%s: sent as %s", name, media)
		}
	}
}

// tree writes a random object of a kind whose texts hold values at random
// places.
type tree struct{ *rand.Rand }

func (r tree) text() string {
	pieces := []string{"{{ .Name }}", "{{ .Namespace }}", "{{ randAlpha 7 }}", "{{ .Index }}", "fix", "-", "wide-string-without-end", "{{ payload 200 }}"}
	out := "k"
	for range r.IntN(4) {
		out += pieces[r.IntN(len(pieces))]
	}
	return `"` + out + `"`
}

func (r tree) texts() string {
	var out []string
	for i := range r.IntN(4) + 1 {
		out = append(out, fmt.Sprintf("key%d: %s", i, r.text()))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

func (r tree) metadata() string {
	out := "{name: " + r.text()
	if r.IntN(2) == 0 {
		out += ", labels: " + r.texts()
	}
	if r.IntN(2) == 0 {
		out += ", annotations: " + r.texts()
	}
	return out + "}"
}

func (r tree) container() string {
	out := "{name: " + r.text() + ", image: " + r.text()
	if r.IntN(2) == 0 {
		out += ", args: [" + r.text() + ", " + r.text() + "]"
	}
	if r.IntN(2) == 0 {
		out += fmt.Sprintf(", ports: [{containerPort: %d, name: %s}]", r.IntN(60000), r.text())
	}
	if r.IntN(2) == 0 {
		out += fmt.Sprintf(", resources: {limits: {cpu: %dm}}", r.IntN(3000))
	}
	return out + "}"
}

func (r tree) pod() string {
	out := "{containers: [" + r.container()
	for range r.IntN(3) {
		out += ", " + r.container()
	}
	out += "]"
	if r.IntN(2) == 0 {
		out += ", nodeSelector: " + r.texts()
	}
	if r.IntN(2) == 0 {
		out += ", tolerations: [{operator: Exists}, {key: " + r.text() + "}]"
	}
	return out + fmt.Sprintf(", terminationGracePeriodSeconds: %d}", r.IntN(100))
}

func (r tree) object() string {
	head := func(version, kind string) string {
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: " + r.metadata() + "\n"
	}
	switch r.IntN(5) {
	case 0:
		return head("v1", "ConfigMap") + "data: " + r.texts() + "\n"
	case 1:
		return head("v1", "Secret") + "stringData: " + r.texts() + "\n"
	case 2:
		return head("v1", "Pod") + "spec: " + r.pod() + "\n"
	case 3:
		return head("apps/v1", "Deployment") + "spec: {selector: {matchLabels: " + r.texts() + "}, template: {metadata: " + r.metadata() + ", spec: " + r.pod() + "}}\n"
	default:
		return head("v1", "Service") + "spec: {selector: " + r.texts() + ", ports: [{port: 80, targetPort: " + r.text() + "}]}\n"
	}
}

func TestRandomTemplates(t *testing.T) {
	copied := 0
	for seed := range uint64(300) {
		r := tree{rand.New(rand.NewPCG(seed, 1))}
		text := r.object()
		json, both := compiled(t, text)
		for i := range 5 {
			v := vars(r.IntN(1 << (4 * i)))
			v.Namespace = strings.Repeat("long", r.IntN(30)) + "namespace-1"
			if media := same(t, json, both, v); media != protobuf.Protobuf {
				t.Fatalf("seed %d: sent as %s: %s\n%s", seed, media, both.Why(v), text)
			}
			if why := both.Why(v); why == "" {
				copied++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, text)
		}
	}
	if copied < 1400 {
		t.Errorf("only %d of 1500 objects are copies of segments", copied)
	}
}

func ExampleTemplate_Render() {
	json, err := template.Compile("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Name }}\"}\n", 1, template.Windtunnel())
	if err != nil {
		panic(err)
	}
	body, mediaType, err := protobuf.New(json).Render(nil, template.Vars{Name: "config-7"})
	fmt.Println(mediaType, err)
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	fmt.Println(object.(*corev1.ConfigMap).Name, err)
	// Output:
	// application/vnd.kubernetes.protobuf <nil>
	// config-7 <nil>
}

func BenchmarkRender(b *testing.B) {
	for name, text := range map[string]string{"ConfigMap": configMap, "Deployment": deployment} {
		json, both := compiled(b, text)
		b.Run(name+"/json", func(b *testing.B) {
			var dst []byte
			for i := 0; b.Loop(); i++ {
				dst, _ = json.Render(dst[:0], vars(7))
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/sec")
		})
		b.Run(name+"/protobuf", func(b *testing.B) {
			var dst []byte
			for i := 0; b.Loop(); i++ {
				dst, _, _ = both.Render(dst[:0], vars(7))
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/sec")
		})
	}
}
