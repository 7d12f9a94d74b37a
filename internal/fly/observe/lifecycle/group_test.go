package lifecycle

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestPodsBelongToTheFirstGroupThatSelectsThem(t *testing.T) {
	records := repotest.Must(record.Create(filepath.Join(t.TempDir(), "r")))(t)
	defer records.Close()
	selector := func(text string) labels.Selector {
		return repotest.Must(labels.Parse(text))(t)
	}
	o := New(records, Group{"front", "web", selector("app=front")}, Group{"fronts", "", selector("app=front")}, Group{"any", "", selector("app")})
	h := handler{o, clock.Start()}
	for i, pod := range []struct {
		namespace string
		labels    map[string]string
	}{
		{"web", map[string]string{"app": "front"}},
		{"other", map[string]string{"app": "front"}},
		{"web", map[string]string{"app": "back"}},
		{"web", map[string]string{"app": "front", object.GroupLabel: "own"}},
		{"web", map[string]string{"tier": "x"}},
		{"web", nil},
	} {
		raw, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: pod.namespace, UID: types.UID(rune('a' + i)), Labels: pod.labels}}).Marshal()
		repotest.NoError(t, err)
		h.Event(watch.Event{Kind: watch.Added, Object: raw, At: 1})
	}
	for group, want := range map[string]int{"front": 1, "fronts": 1, "any": 1, "own": 1, "": 2} {
		if got := o.Counts(group).Existing; got != want {
			t.Errorf("%d pods in group %q, want %d", got, group, want)
		}
	}
}
