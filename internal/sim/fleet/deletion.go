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

// begin deletes all nodes and returns how many that are.
func (d *deletion) begin() int {
	d.nodes.stopped = true
	for _, n := range d.nodes.all {
		if n != nil {
			d.add(n)
		}
	}
	return d.left
}

// add begins a node's deletion.
func (d *deletion) add(n *node) {
	e := d.nodes.driver
	e.calls.Stop(&n.Timer)
	switch j := n.job; {
	case n.state == nodeAlive:
		e.enqueue(nodeDelete, n)
	case n.state == nodeCreating && j != nil && j.Sent(): // settle goes on
	case n.state == nodeCreating && j != nil && j.Attempt > 0: // it may exist: nobody knows
		j.become(nodeRead)
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

// settle goes on with a node whose creation was under way when the deletion
// began. It is deleted only when it is known to be ours.
func (d *deletion) settle(j *job) {
	e, a := d.nodes.driver, &j.answer
	switch ok := j.ok(); {
	case ok && (j.action == nodeCreate || a.fleet == d.nodes.template.fleet):
		j.node.uid = a.uid
		j.become(nodeDelete)
		e.calls.Enqueue(&j.Call)
	case !ok && a.Retriable() || a.Code == http.StatusConflict:
		j.become(nodeRead)
		e.retry(j)
	default:
		d.end(j.node, true)
		e.freeJob(j)
	}
}

// end takes the end of a node's deletion; ok says that the node is not there any
// more.
func (d *deletion) end(n *node, ok bool) {
	if !ok {
		d.failed++
	}
	n.state = nodeDeleted
	d.nodes.leases.release(n)
	d.nodes.count(n)
	if d.left--; d.left == 0 {
		close(d.done)
	}
}
