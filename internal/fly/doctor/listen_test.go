package doctor

import (
	"strings"
	"testing"
)

func TestListeners(t *testing.T) {
	few := Facts{OpenFiles: Limit{Soft: 1024, Hard: 20_000}, Ports: 10_000}
	for _, c := range []struct {
		facts    Facts
		n, first int
		want     string // empty: it can
	}{
		{few, 10_000, 0, ""},
		{few, 10_001, 0, "ip_local_port_range"},
		{few, 19_488, 20_000, ""},
		{few, 19_489, 20_000, "this process may have 20000 open files"},
		{few, 101, 65_436, "there are 100 ports"},
		{Facts{}, 30_000, 0, ""}, // nothing is known
	} {
		err := c.facts.checkListeners(c.n, c.first)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d from %d on: %v, want %q", c.n, c.first, err, c.want)
		}
	}
}
