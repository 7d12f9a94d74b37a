package hub

import (
	"context"
	"hash/fnv"
)

// queueOf returns the queue of a key. What has one key waits in one queue, and keeps its order
// where that has one worker.
func queueOf[T any](queues []T, key string) T {
	if len(queues) == 1 {
		return queues[0]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // it never fails
	return queues[h.Sum32()%uint32(len(queues))]
}

// runQueue does what waits in a queue until ctx ends.
func runQueue[T any](ctx context.Context, queue <-chan T, do func(context.Context, T)) {
	for {
		select {
		case one := <-queue:
			do(ctx, one)
		case <-ctx.Done():
			return
		}
	}
}
