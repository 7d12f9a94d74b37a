package share_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/share"
)

// TestSharesAreTheWhole holds that each thing is in exactly one share, and counted there.
func TestSharesAreTheWhole(t *testing.T) {
	for _, of := range []int{1, 2, 3, 7, 256} {
		for _, n := range []int{0, 1, 6, 7, 1000} {
			owners, counted, portions := make([]int, n), 0, 0
			for i := range of {
				s := share.Share{Index: i, Of: of}
				if !s.Valid() {
					t.Fatalf("%+v is not valid", s)
				}
				counted, portions = counted+s.Count(n), portions+s.Portion(n)
				for number := range n {
					if s.Has(number) {
						owners[number]++
					}
				}
			}
			for number, have := range owners {
				if have != 1 {
					t.Errorf("%d shares: %d have number %d", of, have, number)
				}
			}
			if counted != n || portions != n {
				t.Errorf("%d shares of %d: %d counted, portions of %d", of, n, counted, portions)
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, bad := range []share.Share{{Index: 2, Of: 2}, {Index: -1, Of: 2}, {Index: 1}, {Of: -1}} {
		if bad.Valid() {
			t.Errorf("%+v is valid", bad)
		}
	}
	if whole := (share.Share{}); !whole.Valid() || whole.Split() || whole.Count(5) != 5 || !whole.Has(4) {
		t.Error("the zero value is not the whole")
	}
}
