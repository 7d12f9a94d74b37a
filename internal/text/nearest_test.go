package text_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/text"
)

func TestNearest(t *testing.T) {
	known := []string{"rate", "count", "namespace", "pods"}
	for got, want := range map[string]string{
		"ratee": "rate", "Rate": "rate", "rtae": "rate", "nmaespaec": "namespace", "namesapces": "namespace",
		"": "", "xy": "", "pdo": "", "counter": "count", "something": "", "pod": "pods",
	} {
		if is := text.Nearest(got, known); is != want {
			t.Errorf("%q: %q, want %q", got, is, want)
		}
	}
	if got := text.DidYouMean("ratee", known) + text.DidYouMean("zzz", known); got != ` (did you mean "rate"?)` {
		t.Error(got)
	}
}
