package player

import (
	"bytes"
	"math/rand/v2"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// reader decodes and matches on the watch's goroutine, so that the loop only
// keeps time. When the loop does not take its notes it stops reading, and the
// server with it.
type reader struct {
	player *Player
	ctx    <-chan struct{}
	rng    *rand.Rand
}

func (r *reader) handNote(n note) {
	select {
	case r.player.notes <- n:
	case <-r.ctx:
	}
}

// ListBegin implements watch.Handler.
func (r *reader) ListBegin(again bool, why string) {
	p := r.player
	if again {
		p.mu.Lock()
		p.stats.Relists++
		p.mu.Unlock()
		if p.options.Records != nil {
			p.options.Records.Event(record.Event{At: p.options.Clock.Now(), Type: record.EventWatchGap, Name: p.served.Name, Text: "fleet: " + why})
		}
	}
	r.handNote(note{list: listBegins})
}

// ListEnd implements watch.Handler.
func (r *reader) ListEnd() { r.handNote(note{list: listEnds}) }

// Event implements watch.Handler.
func (r *reader) Event(e watch.Event) {
	p := r.player
	object, err := machine.Decode(e.Object)
	if err != nil {
		p.warnOnce("malformed", "watch of "+p.served.Name+": "+err.Error())
		return
	}
	p.nameKind(object)
	if e.Kind != watch.Deleted && p.options.Mine != nil && !p.options.Mine(object) {
		return
	}
	n := note{kind: e.Kind, at: e.At, key: metadataText(object, "namespace") + "/" + metadataText(object, "name"), uid: metadataText(object, "uid"), version: Version(object)}
	if e.Kind != watch.Deleted {
		if p.options.Observed != nil {
			p.options.Observed(object)
		}
		p.matchStages(&n, object, r.rng)
		if n.choice.Stage != nil {
			n.raw = bytes.Clone(e.Object)
		}
	}
	r.handNote(n)
}

// matchStages asks the stages about an object.
func (p *Player) matchStages(n *note, object Object, rng *rand.Rand) {
	n.choice, n.err = p.options.Stages.Match(object, p.options.Clock.Wall(n.at), rng)
	if n.err == nil && n.choice.Stage != nil && p.options.Slower != nil {
		n.choice.Delay += p.options.Slower(object)
	}
}

// nameKind gives an object its apiVersion and kind, which items of built-in lists
// do not carry.
func (p *Player) nameKind(object Object) {
	if object["kind"] == nil {
		object["apiVersion"], object["kind"] = p.options.Resource.APIVersion, p.options.Resource.Kind
	}
}
