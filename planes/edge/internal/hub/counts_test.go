package hub

import "testing"

// TestCounts holds how many workers and queued requests a kind has, by what the user gives.
func TestCounts(t *testing.T) {
	const kubeedge = "100,lease=node-limit,podstatus=1"
	for _, c := range []struct {
		given       []string
		want, kind  string
		number      int
		refusesLast bool
	}{
		{given: []string{kubeedge}, want: kubeedge, kind: "lease", number: 700},
		{given: []string{kubeedge}, want: kubeedge, kind: "secret", number: 100},
		{given: []string{kubeedge, "podstatus=20"}, want: "100,lease=node-limit,podstatus=20", kind: "podstatus", number: 20},
		{given: []string{kubeedge, "50"}, want: "50", kind: "podstatus", number: 50},
		{given: []string{kubeedge, "dance=1"}, want: kubeedge, kind: "podstatus", number: 1, refusesLast: true},
		{given: []string{kubeedge, "lease=0"}, want: kubeedge, kind: "pod", number: 100, refusesLast: true},
		{given: []string{kubeedge, "node-limit"}, want: kubeedge, kind: "pod", number: 100, refusesLast: true},
	} {
		var got counts
		for i, text := range c.given {
			if err := got.Set(text); (err != nil) != (c.refusesLast && i == len(c.given)-1) {
				t.Errorf("%v: %v", c.given, err)
			}
		}
		if n := got.of(c.kind, 700); got.String() != c.want || n != c.number {
			t.Errorf("%v became %s with %d of %s, want %s with %d", c.given, got.String(), n, c.kind, c.want, c.number)
		}
	}
}

// TestRateOfNodeLimit holds that the rate limit follows the node limit until the user gives one.
func TestRateOfNodeLimit(t *testing.T) {
	o := Default()
	o.NodeLimit = 1000
	if got := o.rate().String(); got != "5000/10000" {
		t.Errorf("at 1,000 edges the limit is %s", got)
	}
	if err := (*autoRate)(&o.Limiter).Set("100/200"); err != nil || o.rate().String() != "100/200" {
		t.Errorf("the limit given is %v (%v)", o.rate(), err)
	}
}
