package inventory

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// TestTemplatesBring: what a controller makes of an object has the labels of the template in it.
func TestTemplatesBring(t *testing.T) {
	for object, want := range map[string]bool{
		`{"metadata": {"labels": {"app": "web"}}}`:                                                                                false,
		`{"spec": {"template": {"metadata": {"labels": {"app": "web"}}}}}`:                                                        true,
		`{"spec": {"template": {"metadata": {"labels": {"app": "db"}}}}}`:                                                         false,
		`{"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {"app": "web"}}}}}}}`:                             true,
		`{"spec": {"volumeClaimTemplates": [{"metadata": {"name": "a"}}, {"spec": {}, "metadata": {"labels": {"app": "web"}}}]}}`: true,
		`not an object`: false,
	} {
		if got := Brings([]byte(object), false, labels.SelectorFromSet(labels.Set{"app": "web"})); got != want {
			t.Errorf("%s: %v", object, got)
		}
	}
}
