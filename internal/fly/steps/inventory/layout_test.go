package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

func TestLayout(t *testing.T) {
	plain := &scenario.Create{Body: "b", Name: "x"}
	several := &scenario.Create{Objects: []scenario.Item{{Body: "a", Replicas: 2}, {Body: "b", Every: 3}, {Body: "c"}}}
	for _, tt := range []struct {
		name     string
		create   *scenario.Create
		spaces   int
		from, to int
		want     string // SPACE/INDEX ITEM.REPLICA
	}{
		{"one object", plain, 1, 0, 3, "0/0 0.1, 0/1 0.1, 0/2 0.1"},
		{"only new ones", plain, 1, 2, 4, "0/2 0.1, 0/3 0.1"},
		{"one namespace after another", plain, 2, 0, 2, "0/0 0.1, 0/1 0.1, 1/0 0.1, 1/1 0.1"},
		{"not at every index", &scenario.Create{Objects: []scenario.Item{{Body: "a", Every: 3}}}, 1, 0, 8, "0/0 0.1, 0/3 0.1, 0/6 0.1"},
		{"several", several, 1, 0, 4, "0/0 0.1, 0/0 0.2, 0/0 1.1, 0/0 2.1, 0/1 0.1, 0/1 0.2, 0/1 2.1, 0/2 0.1, 0/2 0.2, 0/2 2.1, 0/3 0.1, 0/3 0.2, 0/3 1.1, 0/3 2.1"},
		{"several, later ones in two namespaces", several, 2, 2, 4, "0/2 0.1, 0/2 0.2, 0/2 2.1, 0/3 0.1, 0/3 0.2, 0/3 1.1, 0/3 2.1, 1/2 0.1, 1/2 0.2, 1/2 2.1, 1/3 0.1, 1/3 0.2, 1/3 1.1, 1/3 2.1"},
	} {
		l := NewLayout(tt.create, tt.spaces)
		var got []string
		seen := map[int]bool{}
		for i := range l.Count(tt.from, tt.to) {
			s := l.Ordinal(i, tt.from, tt.to)
			got = append(got, fmt.Sprintf("%d/%d %d.%d", s.Space, s.Index, s.Item, s.Replica))
			if id := l.NumberOf(s); seen[id] {
				t.Errorf("%s: %+v has the number %d of another", tt.name, s, id)
			} else {
				seen[id] = true
			}
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, text, tt.want)
		}
	}
}

// TestLayoutNumbersStay checks that an object keeps its number when there are
// more of them, and that numbers leave no gaps.
func TestLayoutNumbersStay(t *testing.T) {
	l := NewLayout(&scenario.Create{Objects: []scenario.Item{{Body: "a", Every: 2}, {Body: "b", Replicas: 3, Every: 5}, {Body: "c"}}}, 3)
	ids := map[Ordinal]int{}
	for _, n := range []int{7, 20, 40} {
		for i := range l.Count(0, n) {
			s := l.Ordinal(i, 0, n)
			if before, ok := ids[s]; ok && before != l.NumberOf(s) {
				t.Fatalf("%+v was %d and is %d", s, before, l.NumberOf(s))
			}
			ids[s] = l.NumberOf(s)
		}
		for s, id := range ids {
			if id < 0 || id >= l.Count(0, n) {
				t.Fatalf("%+v of %d has number %d", s, l.Count(0, n), id)
			}
		}
	}
}

func TestLayoutOfAPart(t *testing.T) {
	all := NewLayout(&scenario.Create{Objects: []scenario.Item{{Body: "a"}, {Body: "b", Replicas: 2}, {Body: "c"}}}, 1)
	part := all.Filter(func(i scenario.Item) bool { return i.Body == "b" })
	got := ""
	for i := range part.Count(0, 2) {
		s := part.Ordinal(i, 0, 2)
		got += fmt.Sprintf("%d:%d.%d=%d ", s.Index, s.Item, s.Replica, all.NumberOf(s))
	}
	if want := "0:1.1=1 0:1.2=2 1:1.1=5 1:1.2=6 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBitmap(t *testing.T) {
	var b Bitmap
	for _, i := range []int{0, 63, 64, 1000} {
		b.Set(i, true)
	}
	b.Set(63, false)
	b.Set(5000, false)
	for i, want := range map[int]bool{0: true, 63: false, 64: true, 1000: true, 1001: false, 99999: false} {
		if b.Has(i) != want {
			t.Errorf("%d is %v", i, !want)
		}
	}
}
