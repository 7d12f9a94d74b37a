package message

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/record"
)

// sampled is how many calls of a plan its digest is made of.
const sampled = 32

// Digest tells plans apart: what they ask for, and some of their calls, from the first
// to the last. Two processes whose plans are the same send the same.
func Digest(asked record.Detail, p load.Plan) string {
	h := fnv.New128a()
	fmt.Fprintf(h, "%+v %+v\n", asked, p.Ops)
	count := asked.Count
	if count == 0 { // a pool that only time ends
		count = sampled
	}
	for k := range min(sampled, count) {
		digestCall(h, p, k*(count-1)/max(1, min(sampled, count)-1))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func digestCall(h hash.Hash, p load.Plan, i int) {
	var req load.Request
	wanted, err := p.Build(i, &req)
	fmt.Fprintf(h, "%d %d %v %s %s %x %v\n", i, p.Pace.Due(i), wanted, req.Method, req.Path, req.Body, err)
}
