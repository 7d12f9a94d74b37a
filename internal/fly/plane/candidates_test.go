package plane

import (
	"strings"
	"testing"
)

// A trace says what members answer: a=b, member a takes b for the leader; a=0, it knows none; a?,
// it does not answer and runs; a!, it has ended or is paused. Each answer tells whether the member
// leads: yes, no, or it is not known.
func TestElectorate(t *testing.T) {
	for _, c := range []struct{ name, trace, want string }{
		{"one leads", "a=a b=a c=a", "yes no no"},
		{"it ends by SIGTERM and hands over", "a=a b=a c=a a? b=a a? b=b a?", "yes no no yes no yes yes yes"},
		{"and the last one knows it, too", "a=a b=a c=a a? b=b c=b a?", "yes no no yes yes no no"},
		{"it is killed", "a=a b=a c=a a! b=a b=0 c=c", "yes no no no no no yes"},
		{"it is cut from the others", "a=a b=a c=a b=0 c=c a=a a=0", "yes no no no yes yes no"},
		{"nobody answers", "a=a b=a a? b? a?", "yes no yes unknown unknown"},
		{"one that has never answered", "a? b=0 a?", "unknown no no"},
		{"no quorum", "a=0 b! c!", "no no no"},
	} {
		e := &electorate{views: map[string]view{}}
		var got []string
		for _, word := range strings.Fields(c.trace) {
			member, leader, answered := strings.Cut(word, "=")
			runs := !strings.HasSuffix(member, "!")
			member = strings.TrimRight(member, "?!")
			leads, err := e.leads(member, view{member, leader, answered}, answered, runs)
			switch {
			case err != nil:
				got = append(got, "unknown")
			case leads:
				got = append(got, "yes")
			default:
				got = append(got, "no")
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s: %s, want %s", c.name, c.trace, text, c.want)
		}
	}
}
