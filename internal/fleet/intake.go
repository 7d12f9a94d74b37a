package fleet

import (
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// take takes a batch; callers hold mu.
func (f *Fleet) take(b batch) {
	switch b.kind {
	case listBegins:
		f.lists[b.source]++
	case listPage:
		page, err := object.DecodePage(b.data)
		f.malformed(err)
		page.Items(func(raw []byte) { f.takeObject(b.source, object.Added, raw, b.received) })
	case listEnds:
		f.sweep(b.source)
	case events:
		for rest := b.data; len(rest) > 0; {
			var frame []byte
			frame, rest = object.NextFrame(rest)
			kind, raw, err := object.DecodeEvent(frame)
			f.malformed(err)
			if kind == object.Added || kind == object.Modified || kind == object.Deleted {
				f.takeObject(b.source, kind, raw, b.received)
			}
		}
	}
}

func (f *Fleet) takeObject(source int, kind object.EventType, raw []byte, received clock.Time) {
	f.stats.events++
	if source == sourceNodes {
		f.malformed(object.DecodeNode(raw, &f.nodeView))
		f.onNode(kind, &f.nodeView, raw)
		return
	}
	f.malformed(object.DecodePod(raw, &f.podView))
	if kind != object.Deleted && f.manage.leavesAlone(raw) {
		return
	}
	f.onPod(kind, &f.podView, received)
}

// malformed says once that the server sends what cannot be read.
func (f *Fleet) malformed(err error) {
	if err != nil && !f.warned["malformed"] {
		f.warned["malformed"] = true
		f.warn("watch: " + err.Error())
	}
}

// sweep forgets what a whole list did not hold.
func (f *Fleet) sweep(source int) {
	generation := f.lists[source]
	if source == sourcePods {
		for key, p := range f.pods {
			if p.generation != generation {
				f.podGone(key, p)
			}
		}
		return
	}
	for _, n := range f.nodes {
		if n != nil && n.state == nodeAlive && n.view.seen && n.generation != generation {
			f.nodeLost(n)
		}
	}
}
