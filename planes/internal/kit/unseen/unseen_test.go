package unseen_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/unseen"
)

// object is version n of an object with a uid.
func object(uid string, n int) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: "n", Name: "a", UID: types.UID(uid), ResourceVersion: strconv.Itoa(n)}
}

func leaving(uid string, n int) *metav1.ObjectMeta {
	o := object(uid, n)
	o.DeletionTimestamp = &metav1.Time{}
	return o
}

// TestSeen holds what a watch must show of each kind of write until a pass begins.
func TestSeen(t *testing.T) {
	type write = func(w *unseen.Writes, owner, kind string, o metav1.Object)
	wrote := func(w *unseen.Writes, owner, kind string, o metav1.Object) { w.Wrote(owner, kind, "1", o) }
	deleted, released := (*unseen.Writes).Deleted, (*unseen.Writes).Released
	shown, gone := (*unseen.Writes).Shown, (*unseen.Writes).Gone
	for _, tt := range []struct {
		name  string
		write write
		o     metav1.Object
		show  write
		now   metav1.Object
		seen  bool
	}{
		{"an older version", wrote, object("u", 7), shown, object("u", 6), false},
		{"what was written", wrote, object("u", 7), shown, object("u", 7), true},
		{"a newer version", wrote, object("u", 7), shown, object("u", 8), true},
		{"it is gone", wrote, object("u", 7), gone, object("u", 6), true},
		{"an earlier one of the name is gone", wrote, object("u", 7), gone, object("t", 6), false},
		{"a later one of the name", wrote, object("u", 7), shown, object("v", 9), true},
		{"deleted, not yet shown so", deleted, object("u", 7), shown, object("u", 8), false},
		{"deleted, shown so", deleted, object("u", 7), shown, leaving("u", 8), true},
		{"deleted and gone", deleted, object("u", 7), gone, leaving("u", 8), true},
		{"deleted, and a later one is there", deleted, object("u", 7), shown, object("v", 9), true},
		{"released, still shown", released, leaving("u", 7), shown, leaving("u", 7), false},
		{"released and gone", released, leaving("u", 7), gone, leaving("u", 8), true},
		{"without versions, gone", released, &metav1.ObjectMeta{UID: "u"}, gone, &metav1.ObjectMeta{UID: "u"}, true},
	} {
		for _, order := range []string{"after the answer", "before the answer", "in another pass"} {
			woken := 0
			w := unseen.New(clock.Start(), func(string) { woken++ })
			if !w.Begin("n/a") {
				t.Fatalf("%s: no first pass", tt.name)
			}
			if order == "before the answer" {
				tt.show(w, "n/a", "kind", tt.now)
			}
			tt.write(w, "n/a", "kind", tt.o)
			if order == "after the answer" {
				tt.show(w, "n/a", "kind", tt.now)
			}
			w.End("n/a")
			want, owners := tt.seen, 0
			if order == "in another pass" { // which waits, and is woken
				if w.Begin("n/a") {
					t.Errorf("%s: begins before anything was shown", tt.name)
				}
				tt.show(w, "n/a", "kind", tt.now)
				if (woken == 1) != want {
					t.Errorf("%s: woken %d times", tt.name, woken)
				}
			}
			if !want {
				owners = 1
			}
			repotest.Equal(t, w.Owners(), owners, "%s, %s: owners", tt.name, order)
			repotest.Equal(t, w.Begin("n/a"), want, "%s, %s: begins", tt.name, order)
		}
	}
}

// TestOwnersAreApart holds that a pass waits for nothing of other owners, kinds and names.
func TestOwnersAreApart(t *testing.T) {
	w := unseen.New(clock.Start(), func(owner string) { t.Errorf("%s is woken", owner) })
	w.Wrote("n/a", "kind", "", object("u", 7))
	w.Wrote("n/a", "other", "", object("u", 7))
	if !w.Begin("n/b") {
		t.Error("waits for another owner")
	}
	w.Wrote("n/c", "kind", "7", object("u", 7))
	if !w.Begin("n/c") {
		t.Error("waits for a write that changed nothing")
	}
	w.Shown("n/a", "kind", object("u", 7))
	w.Shown("n/b", "other", object("u", 7))
	if w.Begin("n/a") {
		t.Error("begins before both kinds were shown")
	}
	w.Forget("n/a")
	if !w.Begin("n/a") {
		t.Error("waits for what was forgotten")
	}
}

// TestGivenUp holds that who waits is woken once, after Timeout, and that nothing is left of
// an owner that rests.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		w := unseen.New(clock.Start(), func(string) { woken++ })
		w.Wrote("n/a", "kind", "", object("u", 7))
		time.Sleep(time.Second)
		for range 2 {
			if w.Begin("n/a") {
				t.Error("begins at once")
			}
		}
		time.Sleep(unseen.Timeout)
		synctest.Wait()
		if woken != 1 || !w.Begin("n/a") {
			t.Errorf("woken %d times, want once, and a pass", woken)
		}
		w.Shown("n/a", "kind", object("u", 7))
		w.End("n/a")
		if n := w.Owners(); n != 0 || woken != 1 {
			t.Errorf("%d owners, %d times woken", n, woken)
		}
	})
}
