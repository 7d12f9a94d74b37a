package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// A trace says which process answered when, and whether it leads: a+3 leads at 3, b-4 does not at
// 4. The run is from 0 to 20.
func TestLeaderless(t *testing.T) {
	for _, c := range []struct{ name, trace, want string }{
		{"nobody asked", "", "longest 0-0 sum 0-0 count 0"},
		{"one leads throughout", "a+0 a+10 a+20 b-0 b-20", "longest 0-0 sum 0-0 count 0"},
		{"nobody leads", "a-0 a-20", "longest 20-20 sum 20-20 count 1"},
		{"one is killed and another leads later", "a+0 a+8 a-9 a-20 b-0 b-13 b+14 b+20", "longest 4-6 sum 4-6 count 1"}, // from 8..9 to 13..14
		{"handed over between two answers", "a+0 a+8 a-9 a-20 b-0 b-8 b+9 b+20", "longest 0-1 sum 0-1 count 0"},
		{"two lead for a time", "a+0 a+10 a-11 a-20 b-0 b-7 b+8 b+20", "longest 0-0 sum 0-0 count 0"}, // one that is cut off does not know yet
		{"twice", "a+0 a+2 a-3 a-9 a+10 a+12 a-13 a-20 b-0 b-4 b+5 b+6 b-7 b-15 b+16 b+20", "longest 2-4 sum 5-11 count 3"},
		{"none at the end", "a+0 a+15 a-16 a-20", "longest 4-5 sum 4-5 count 1"},
		{"asked first when the run was under way", "a+4 a+20", "longest 0-4 sum 0-4 count 0"},
		{"not asked until the end", "a+0 a+18", "longest 0-0 sum 0-0 count 0"}, // the last answer ends what is known
		{"asked before the run and after it", "a+0 a+30", "longest 0-0 sum 0-0 count 0"},
	} {
		var all []LeaderReading
		for _, word := range strings.Fields(c.trace) {
			r := LeaderReading{Process: word[:1], Leads: word[1] == '+'}
			var at int
			fmt.Sscan(word[2:], &at)
			r.At = clock.Time(at)
			all = append(all, r)
		}
		l := findLeaderless(all, 0, 20)
		got := fmt.Sprintf("longest %d-%d sum %d-%d count %d", l.Longest.Least, l.Longest.Most, l.Sum.Least, l.Sum.Most, l.Count)
		if got != c.want || l.Readings != len(all) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
