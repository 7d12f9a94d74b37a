package packed

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestLabels holds that labels come out as they went in, whatever is in them.
func TestLabels(t *testing.T) {
	want := map[string]string{"app": "a", "": "none", "empty": "", "long": strings.Repeat("x\x00", 200)}
	p := LabelsOf(want)
	if got := p.Map(); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if value, ok := p.Lookup("empty"); value != "" || !ok || p.Has("other") || p.Get("app") != "a" {
		t.Errorf("%q %v %v %q", value, ok, p.Has("other"), p.Get("app"))
	}
	if p = LabelsOf(nil); p != "" || len(p.Map()) != 0 {
		t.Errorf("%q of none", p)
	}
}

// TestAmounts holds that lists are equal that say the same, however it is written.
func TestAmounts(t *testing.T) {
	of := func(cpu, memory string) Amounts {
		return AmountsOf(corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)})
	}
	if !of("2", "1Gi").Equal(of("2000m", "1024Mi")) {
		t.Error("2 and 2000m differ")
	}
	if of("2", "1Gi").Equal(of("3", "1Gi")) || of("2", "1Gi").Equal(nil) {
		t.Error("others are equal")
	}
}
