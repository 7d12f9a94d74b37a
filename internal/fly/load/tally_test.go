package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What several generators have done adds up to what one would have done, also as JSON,
// quantile and all.
func TestTalliesAddUp(t *testing.T) {
	var whole Generator
	parts := make([]Generator, 3)
	chance := rand.New(rand.NewPCG(1, 2))
	whole.stats.beginPlan(3000, math.Inf(1))
	for i := range parts {
		parts[i].stats.beginPlan(1000, math.Inf(1))
	}
	for i := range 2000 {
		done := 1 + int64(math.Exp(chance.NormFloat64())*float64(5*time.Millisecond))*int64(1+i%3)
		c := record.Call{Due: 1, Sent: 1, Outcome: record.Outcome(i % 7 % 3)}
		c.Done = c.Due.Add(time.Duration(done))
		whole.stats.countEnded(c)
		parts[i%3].stats.countEnded(c)
	}
	var all []Tally
	for i := range parts {
		raw := repotest.Must(json.Marshal(parts[i].Tally()))(t)
		var one Tally
		repotest.NoError(t, json.Unmarshal(raw, &one))
		all = append(all, one)
	}
	if got, want := Sum(all), whole.Progress(); got != want {
		t.Errorf("the sum is %+v, not %+v", got, want)
	}
	if got := Sum(nil); got != (Progress{}) {
		t.Errorf("of none it is %+v", got)
	}
}
