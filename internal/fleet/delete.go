package fleet

import (
	"context"
	"fmt"
)

// Delete deletes the nodes that the fleet made, for planes that outlive it,
// and stops renewing their leases; the plane's garbage collector takes the
// leases and pods away. No node comes back until Close.
func (f *Fleet) Delete(ctx context.Context) error {
	f.mu.Lock()
	f.stopped = true
	for _, n := range f.nodes {
		if n != nil {
			f.leave(n)
		}
	}
	left := f.deleting
	f.mu.Unlock()
	if left == 0 {
		return nil
	}
	f.wake()
	select {
	case <-f.deleted:
	case <-ctx.Done():
		return fmt.Errorf("fleet: delete nodes: %w", ctx.Err())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.undeleted > 0 {
		return fmt.Errorf("fleet: %d of %d nodes could not be deleted", f.stats.undeleted, left)
	}
	return nil
}

// leave begins a node's deletion.
func (f *Fleet) leave(n *node) {
	f.wheel.Stop(&n.Timer)
	switch j := n.job; {
	case n.state == nodeAlive:
		f.enqueue(f.newJob(nodeDelete, n, nil, f.clock.Now()))
	case n.state == nodeCreating && j != nil && j.sending: // settleLeaving goes on
	case n.state == nodeCreating && j != nil && j.attempt > 0: // it may exist: nobody knows
		j.action = nodeRead
		if !j.queued {
			f.wheel.Stop(&j.Timer)
			f.enqueue(j)
		}
	case n.state != nodeLeaving: // it never was
		n.state = nodeGone
		return
	default:
		return
	}
	n.state = nodeLeaving
	f.deleting++
}

// settleLeaving goes on with a node whose creation was under way when Delete
// came. It is deleted only when it is known to be ours.
func (f *Fleet) settleLeaving(j *job, ok bool) {
	a := &j.answer
	switch {
	case ok && (j.action == nodeCreate || a.fleet == f.model.fleet):
		j.node.uid = a.uid
		j.action = nodeDelete
		f.enqueue(j)
	case !ok && a.Retriable() || a.Code == 409:
		j.action = nodeRead
		f.retry(j)
	default:
		f.nodeDeleted(j, true)
		f.freeJob(j)
	}
}

// nodeDeleted counts Delete down.
func (f *Fleet) nodeDeleted(j *job, ok bool) {
	if !ok {
		f.stats.undeleted++
	}
	j.node.state = nodeGone
	f.unlease(j.node)
	f.count(j.node)
	if f.deleting--; f.deleting == 0 {
		close(f.deleted)
	}
}
