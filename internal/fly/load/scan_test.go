package load_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func encoded(t testing.TB, o runtime.Object) []byte {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	repotest.NoError(t, err)
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var b bytes.Buffer
	repotest.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b))
	return b.Bytes()
}

func configMaps(next string) *corev1.ConfigMapList {
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: next}}
	for range 3 {
		list.Items = append(list.Items, corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: `a "metadata":{"continue":"wrong"}`},
			Data:       map[string]string{"continue": "wrong", "metadata": `\"{`},
		})
	}
	return list
}

func TestTokenOfTheNextPage(t *testing.T) {
	const token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIz"
	typed := repotest.Must(json.Marshal(configMaps(token)))(t)
	last := repotest.Must(json.Marshal(configMaps("")))(t)
	for name, tt := range map[string]struct{ list, want string }{
		"json":                      {string(typed), token},
		"json, last":                {string(last), ""},
		"protobuf":                  {string(encoded(t, configMaps(token))), token},
		"protobuf, last":            {string(encoded(t, configMaps(""))), ""},
		"custom resources":          {`{"apiVersion":"v1","items":[{"metadata":{"continue":"wrong"},"a":["metadata",{"continue":"wrong"}]}],"kind":"L","metadata":{"continue":"` + token + `","resourceVersion":"1"}}`, token},
		"custom resources, last":    {`{"items":[{"metadata":{"continue":"wrong"}}],"metadata":{"resourceVersion":"1"}}`, ""},
		"spread out, with an array": {"{ \"x\" : [ \"metadata\" , 1 ] , \"metadata\" : { \"a\" : [\"continue\", \"b\"] , \"continue\" : \"x\\u002by\\\"\" } }", `x+y"`},
		"no list":                   {"forbidden", ""},
		"cut off":                   {`{"metadata":{"continue":"abc`, ""},
		"nothing":                   {"", ""},
	} {
		for _, size := range []int{1, 2, 7, 1 << 20} {
			if got := load.Token([]byte(tt.list), size); got != tt.want {
				t.Errorf("%s in pieces of %d: token %q, want %q", name, size, got, tt.want)
			}
		}
	}
}

// TestVersionsOfLists: the version stands before or behind the token, and before or behind
// the items.
func TestVersionsOfLists(t *testing.T) {
	typed := repotest.Must(json.Marshal(configMaps("next")))(t)
	for name, list := range map[string]string{
		"json": string(typed), "protobuf": string(encoded(t, configMaps("next"))),
		"custom resources": `{"apiVersion":"v1","items":[{"metadata":{"resourceVersion":"3"}}],"kind":"L","metadata":{"continue":"next","resourceVersion":"7"}}`,
	} {
		for _, size := range []int{1, 2, 7, 1 << 20} {
			if version, token := load.Version([]byte(list), size), load.Token([]byte(list), size); version != "7" || token != "next" {
				t.Errorf("%s in pieces of %d: version %q, token %q", name, size, version, token)
			}
		}
	}
}

// TestVersionsOfEvents: what an informer reads of a watch, in whatever pieces it comes.
func TestVersionsOfEvents(t *testing.T) {
	large := strings.Repeat("x", 20<<10)
	marked := map[string]string{"k8s.io/initial-events-end": "true"}
	objects := []struct {
		kind   string
		object runtime.Object
	}{
		{"ADDED", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", ResourceVersion: "11", Annotations: map[string]string{"resourceVersion": "5"}}, Data: map[string]string{"metadata": large}}},
		{"MODIFIED", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "12"}}},
		{"BOOKMARK", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "13"}}},
		{"BOOKMARK", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "14", Annotations: marked}}},
		{"ERROR", &metav1.Status{Code: 410, Reason: "Expired", Message: "too old"}},
	}
	var lines, frames []byte
	for _, o := range objects {
		raw := repotest.Must(json.Marshal(o.object))(t)
		lines = fmt.Appendf(lines, `{"type":%q,"object":%s}`+"\n", o.kind, raw)
		frames = append(frames, eventOf(t, o.kind, o.object)...)
	}
	custom := `{"type":"ADDED","object":{"apiVersion":"x/v1","kind":"X","a":{"metadata":{"resourceVersion":"1"}},"metadata":{"annotations":{"a":"` + large + `","b":"\",{"},"managedFields":[{"resourceVersion":"2"}],"resourceVersion":"11"}}}` + "\n"
	all := []string{"added 11", "changed 12", "bookmark 13", "initial-end 14", "error 410 too old"}
	for name, tt := range map[string]struct {
		stream []byte
		want   []string
	}{
		"json": {lines, all}, "protobuf": {frames, all}, "custom resource": {[]byte(custom), all[:1]},
		"no object": {[]byte("{\"type\":\"ADDED\"}\n"), []string{"added "}},
	} {
		for _, size := range []int{1, 3, 24, 1000, 1 << 20} {
			if got := load.Events(tt.stream, size); !slices.Equal(got, tt.want) {
				t.Errorf("%s in pieces of %d: %q, want %q", name, size, got, tt.want)
			}
		}
	}
}

func event(t testing.TB, kind string) []byte { return eventOf(t, kind, &corev1.ConfigMap{}) }

func eventOf(t testing.TB, kind string, o runtime.Object) []byte {
	t.Helper()
	e := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: encoded(t, o)}}
	raw := repotest.Must(e.Marshal())(t)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
}

func TestEventsAreCounted(t *testing.T) {
	lines := `{"type":"ADDED","object":{"a":"BOOKMARK"}}` + "\n" + `{"type":"BOOKMARK","object":{}}` + "\n" + `{"type":"DELETED","object":{}}` + "\n" + `{"type":"MOD`
	frames := append(append(append(event(t, "ADDED"), event(t, "BOOKMARK")...), event(t, "MODIFIED")...), 0, 0, 9)
	for name, stream := range map[string][]byte{"json": []byte(lines), "protobuf": frames} {
		for _, size := range []int{1, 3, 5, 1000} {
			if events, bookmarks := load.Count(stream, size); events != 2 || bookmarks != 1 {
				t.Errorf("%s in pieces of %d: %d events and %d bookmarks, want 2 and 1", name, size, events, bookmarks)
			}
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"metadata":{"continue":"x"}}`), 3)
	f.Add(encoded(f, configMaps("x")), 5)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		whole := load.Token(p, len(p))
		if got := load.Token(p, size); got != whole {
			t.Errorf("token %q in pieces of %d, %q in one", got, size, whole)
		}
		// Where the standard decoder finds a token, so do we.
		var list struct {
			Metadata struct{ Continue string }
		}
		if bytes.HasPrefix(p, []byte(`{"metadata":{"continue":"`)) && json.Unmarshal(p, &list) == nil &&
			strings.Count(strings.ToLower(string(p)), "continue") == 1 && strings.Count(strings.ToLower(string(p)), "metadata") == 1 &&
			!bytes.Contains(p, []byte(`\`)) && list.Metadata.Continue != whole {
			t.Errorf("token %q, the decoder found %q", whole, list.Metadata.Continue)
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("{\"type\":\"ADDED\"}\n"), 3)
	f.Add(event(f, "ADDED"), 5)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		load.Events(p, len(p))
		e, b := load.Count(p, len(p))
		if e2, b2 := load.Count(p, size); e2 != e || b2 != b {
			t.Errorf("%d and %d in pieces of %d, %d and %d in one", e2, b2, size, e, b)
		}
	})
}
