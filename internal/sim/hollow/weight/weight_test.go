package weight_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/weight"
)

func TestJSON(t *testing.T) {
	for text, want := range map[string]weight.JSON{
		``:                                {},
		`{}`:                              {Values: 1, Objects: 1, Nested: 1},
		`[{},{},{}]`:                      {Values: 6, Objects: 4, Squares: 9, Nested: 12},
		`{"a,[{":"\"[,","b":[null,1]}`:    {Values: 4, Objects: 4, Squares: 4, Nested: 34},
		`[[[[1`:                           {Values: 4, Objects: 5},
		`]]}}`:                            {},
		`"` + strings.Repeat(`[`, 10_000): {},
	} {
		if got := weight.OfJSON([]byte(text)); got != want {
			t.Errorf("%.40s: %+v, want %+v", text, got, want)
		}
	}
	if got := weight.OfJSON([]byte(strings.Repeat(`[`, 1_000_000))); got.Values > 10_001 {
		t.Errorf("%d values are counted below the depth at which decoders stop", got.Values)
	}
}

func TestYAML(t *testing.T) {
	for text, least := range map[string]int{"a: 1\nb: 2\n": 2, "- - - - 1": 5, "{a: [1,2]}": 4, "? a\n? b\n": 2, "[*a,*a,*a]": 4, "a:\r- b\r- c": 4} {
		if got := weight.OfYAML([]byte(text)); got < least || got > 3*least {
			t.Errorf("%q: %d values, there are %d", text, got, least)
		}
	}
}

func TestProto(t *testing.T) {
	l := weight.LayoutOf(reflect.TypeFor[corev1.Pod]())
	container := int(reflect.TypeFor[corev1.Container]().Size())
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b", "c": "d"}}, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1000)}}
	raw := repotest.Must(p.Marshal())(t)
	got, err := l.Weigh(raw)
	if err != nil || got.Bytes < 1000*container || got.Bytes > 4*1000*container || got.Values < 2000 {
		t.Errorf("%+v, %v; a container has %d bytes", got, err, container)
	}
	if got, err := l.Weigh([]byte("\x12\xff\xff no message")); err != nil || got.Bytes > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestDeepProto nests schemas deeper than the stack of a decoder goes.
func TestDeepProto(t *testing.T) {
	s := &apiextensionsv1.JSONSchemaProps{}
	for range 10_001 {
		s = &apiextensionsv1.JSONSchemaProps{Not: s}
	}
	raw := repotest.Must(s.Marshal())(t)
	if _, err := weight.LayoutOf(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()).Weigh(raw); !errors.Is(err, weight.ErrDeep) {
		t.Errorf("%v", err)
	}
}

func BenchmarkJSON(b *testing.B) {
	raw := []byte(`[` + strings.Repeat(`{"name":"a","value":1},`, 1000) + `{}]`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		weight.OfJSON(raw)
	}
}
