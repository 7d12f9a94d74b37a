package stats

import (
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	var l recentWindow
	if l.quantileOf(0.99) != 0 {
		t.Error("an empty one has a quantile")
	}
	for i := range 1000 {
		l.addDuration(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 0.999: time.Second} {
		if got := l.quantileOf(q); got < want || float64(got) > 1.13*float64(want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	var r Recent
	r.Add(0, time.Second)
	if got := r.Quantile(9*time.Second, 0.99); got != time.Second {
		t.Errorf("after 9s: %v", got)
	}
	if got := r.Quantile(11*time.Second, 0.99); got != 0 {
		t.Errorf("after 11s: %v", got)
	}
}
