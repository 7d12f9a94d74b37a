package lifecycle

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// state writes a pod in short: "a" with any of bound, running, ready, done, deleting.
func state(t *testing.T, name, words string) []byte {
	t.Helper()
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "n", UID: types.UID("uid-" + name), Labels: map[string]string{object.GroupLabel: "g"},
	}}
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "bound":
			p.Spec.NodeName = "node"
		case "running":
			p.Status.Phase = corev1.PodRunning
		case "done":
			p.Status.Phase = corev1.PodSucceeded
		case "ready":
			p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True"}}
		case "deleting":
			p.DeletionTimestamp = &metav1.Time{}
		}
	}
	return repotest.Must(p.Marshal())(t)
}

// TestTraces holds what is recorded for scripts of events, and the counts after.
func TestTraces(t *testing.T) {
	for _, tt := range []struct{ name, script, want, counts string }{
		{"a whole lifecycle",
			"LIST; END; 1 ADDED a; 2 MODIFIED a bound; 3 MODIFIED a bound running; 4 MODIFIED a bound running ready; 5 MODIFIED a bound running ready deleting; 6 DELETED a bound running ready deleting",
			"a created 1, a bound 2, a running 3, a ready 4, a deleting 5, a deleted 6",
			"created 1 running 1 deleted 1 existing 0 now 0/0"},
		{"states that were merged into one event have one time",
			"LIST; END; 1 ADDED a bound; 4 MODIFIED a bound running ready",
			"a created 1, a bound 1, a running 4, a ready 4",
			"created 1 running 1 deleted 0 existing 1 now 1/1"},
		{"what was there before has no true times, but counts",
			"LIST; 1 LISTED a bound running; END; 5 DELETED a bound running",
			"a unknown 1-ever, a bound 1-ever, a running 1-ever, a deleted 5",
			"created 1 running 1 deleted 1 existing 0 now 0/0"},
		{"what moved on during a gap is unknown from there on; what did not is untouched",
			"LIST; END; 1 ADDED a; 1 ADDED b bound; AGAIN; 7 LISTED a bound running; 7 LISTED b bound; END; 8 MODIFIED b bound running",
			"a created 1, b created 1, b bound 1, a unknown 7-, a bound 7-, a running 7-, b running 8",
			"created 2 running 2 deleted 0 existing 2 now 2/0"},
		{"what vanished during a gap is deleted, and when is unknown",
			"LIST; END; 1 ADDED a bound running; AGAIN; END",
			"a created 1, a bound 1, a running 1, a unknown --, a deleted --",
			"created 1 running 1 deleted 1 existing 0 now 0/0"},
		{"deleting pods are not counted as running now; finished ones neither",
			"LIST; END; 1 ADDED a bound running ready; 2 MODIFIED a bound running ready deleting; 3 ADDED b bound running; 4 MODIFIED b bound done",
			"a created 1, a bound 1, a running 1, a ready 1, a deleting 2, b created 3, b bound 3, b running 3, b finished 4",
			"created 2 running 2 deleted 0 existing 2 now 0/0"},
		{"an echo changes nothing",
			"LIST; END; 1 ADDED a bound; 2 MODIFIED a bound; 3 MODIFIED a bound",
			"a created 1, a bound 1",
			"created 1 running 0 deleted 0 existing 1 now 0/0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, got := play(t, tt.script)
			if got != tt.want {
				t.Errorf("recorded %s\nwant     %s", got, tt.want)
			}
			c := o.Counts("g")
			counts := fmt.Sprintf("created %d running %d deleted %d existing %d now %d/%d", c.Created, c.Running, c.Deleted, c.Existing, c.RunningNow, c.ReadyNow)
			if counts != tt.counts {
				t.Errorf("counts %s\nwant   %s", counts, tt.counts)
			}
		})
	}
}

// play runs a script and returns what was recorded. Times of a ListEnd are the
// clock's own and written as "-".
func play(t *testing.T, script string) (*Observer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.wt")
	records, err := record.Create(path)
	repotest.NoError(t, err)
	o := New(records)
	h := handler{o, clock.Start()}
	kinds := map[string]watch.Kind{"LISTED": watch.Listed, "ADDED": watch.Added, "MODIFIED": watch.Modified, "DELETED": watch.Deleted}
	var exact []clock.Time
	for line := range strings.SplitSeq(script, "; ") {
		switch line {
		case "LIST", "AGAIN":
			h.ListBegin(line == "AGAIN", "test")
			continue
		case "END":
			h.ListEnd()
			continue
		}
		var at clock.Time
		var kind, name string
		if _, err := fmt.Sscan(line, &at, &kind, &name); err != nil {
			t.Fatal(err)
		}
		exact = append(exact, at)
		h.Event(watch.Event{Kind: kinds[kind], Object: state(t, name, line[strings.Index(line, name)+len(name):]), At: at})
	}
	repotest.NoError(t, records.Close())
	var out []string
	_, err = record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Phase: func(p record.Phase) {
			at := "-"
			if slices.Contains(exact, p.At) {
				at = fmt.Sprint(int64(p.At))
			}
			if p.Within == record.Ever {
				at += "-ever"
			} else if p.Within > 0 {
				at += "-" // only known to be before
			}
			out = append(out, fmt.Sprintf("%s %s %s", s.Objects[p.Object].Name, p.Phase, at))
		}}
	})
	repotest.NoError(t, err)
	return o, strings.Join(out, ", ")
}
