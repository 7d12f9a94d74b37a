package fleet

import (
	"context"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// batch is what a watch hands to the driver at once.
type batch struct {
	kind     batchKind
	source   sourceID
	data     []byte // whole frames, or a page's message
	received clock.Time
}

type batchKind uint8

const (
	noBatch batchKind = iota
	listBegins
	listPage
	listEnds // what the list did not hold was deleted
	events
)

// eventQueue takes what the watches read to nodes and pods, in the driver's turn.
type eventQueue struct {
	driver   *driver
	nodes    *nodes
	pods     *pods
	batches  chan batch
	nodeView object.Node // scratch
	podView  object.Pod
	count    int // events and listed objects
}

// handBatch gives a batch to the driver; false when ctx ended. The watches call it.
func (q *eventQueue) handBatch(ctx context.Context, b batch) bool {
	b.received = q.driver.clock.Now()
	select {
	case q.batches <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// processBatch takes a batch.
func (q *eventQueue) processBatch(b batch) {
	switch b.kind {
	case noBatch:
	case listBegins:
		if b.source == sourceNodes {
			q.nodes.relist.Begin()
		} else {
			q.pods.relist.Begin()
		}
	case listPage:
		page, err := object.DecodePage(b.data)
		q.reportMalformed(err)
		page.Items(func(raw []byte) { q.observeObject(b.source, object.Added, raw, b.received) })
	case listEnds:
		if b.source == sourceNodes {
			q.nodes.endList()
		} else {
			q.pods.endList()
		}
	case events:
		for rest := b.data; len(rest) > 0; {
			var frame []byte
			frame, rest = object.NextFrame(rest)
			kind, raw, err := object.DecodeEvent(frame)
			q.reportMalformed(err)
			if kind == object.Added || kind == object.Modified || kind == object.Deleted {
				q.observeObject(b.source, kind, raw, b.received)
			}
		}
	}
}

// observeObject hands an object to those that it belongs to.
func (q *eventQueue) observeObject(source sourceID, kind object.EventType, raw []byte, received clock.Time) {
	q.count++
	if source == sourceNodes {
		q.reportMalformed(object.DecodeNode(raw, &q.nodeView))
		q.nodes.observeNode(kind, &q.nodeView, raw)
		return
	}
	q.reportMalformed(object.DecodePod(raw, &q.podView))
	if kind != object.Deleted && q.nodes.managed.leavesAlone(raw) {
		return
	}
	q.pods.observePod(kind, &q.podView, received)
}

// reportMalformed says once that the server sends what cannot be read.
func (q *eventQueue) reportMalformed(err error) {
	if err != nil {
		q.driver.warnOnce("malformed", "watch: "+err.Error())
	}
}
