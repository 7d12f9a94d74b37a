package expression

import (
	"context"
	"time"
)

// maxSteps bounds the work of one jq expression that gojq runs: a runaway one
// ends after some tenths of a second, as one that fails.
const maxSteps = 2_000_000

// budget is a context that ends when it was asked often enough. gojq asks before
// each instruction, so that the same expression ends at the same place on any
// machine, which no deadline could promise.
type budget struct {
	left int
	over chan struct{}
}

func newBudget() *budget { return &budget{left: maxSteps} }

// Deadline says that there is none.
func (b *budget) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done counts, and returns a closed channel when nothing is left.
func (b *budget) Done() <-chan struct{} {
	if b.left--; b.left == 0 {
		b.over = make(chan struct{})
		close(b.over)
	}
	return b.over
}

// Err returns why it ended.
func (b *budget) Err() error {
	if b.left > 0 {
		return nil
	}
	return context.DeadlineExceeded
}

// Value returns nil: it carries nothing.
func (b *budget) Value(any) any { return nil }
