package fleet

import "net/http"

// deletion deletes the nodes that a fleet made. Its methods are called in the
// driver's turn.
type deletion struct {
	nodes  *nodes
	left   int
	failed int
	done   chan struct{} // closed when nothing is left
}

// beginDeletion deletes all nodes and returns how many that are.
func (d *deletion) beginDeletion() int {
	d.nodes.stopped = true
	for _, n := range d.nodes.all {
		if n != nil {
			d.addNode(n)
		}
	}
	return d.left
}

// addNode begins a node's deletion.
func (d *deletion) addNode(n *node) {
	e := d.nodes.driver
	e.calls.Stop(&n.Timer)
	switch j := n.job; {
	case n.state == nodeAlive:
		e.enqueueNodeJob(nodeDelete, n)
	case n.state == nodeCreating && j != nil && j.Sent(): // settle goes on
	case n.state == nodeCreating && j != nil && j.Attempt > 0: // it may exist: nobody knows
		j.turnInto(nodeRead)
		e.calls.Enqueue(&j.Call)
	case n.state != nodeLeaving: // it never was
		n.state = nodeDeleted
		return
	default:
		return
	}
	n.state = nodeLeaving
	d.left++
}

// settleCreation goes on with a node whose creation was under way when the deletion
// began. It is deleted only when it is known to be ours.
func (d *deletion) settleCreation(j *job) {
	e, a := d.nodes.driver, &j.answer
	switch ok := j.succeeded(); {
	case ok && (j.action == nodeCreate || a.fleet == d.nodes.template.fleet):
		j.node.uid = a.uid
		j.turnInto(nodeDelete)
		e.calls.Enqueue(&j.Call)
	case !ok && a.Retriable() || a.Code == http.StatusConflict:
		j.turnInto(nodeRead)
		e.retryJob(j)
	default:
		d.endNode(j.node, true)
		e.freeJob(j)
	}
}

// endNode takes the end of a node's deletion; ok says that the node is not there any
// more.
func (d *deletion) endNode(n *node, ok bool) {
	if !ok {
		d.failed++
	}
	n.state = nodeDeleted
	d.nodes.leases.releaseLease(n)
	d.nodes.countSchedulable(n)
	if d.left--; d.left == 0 {
		close(d.done)
	}
}
