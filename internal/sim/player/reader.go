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

func (r *reader) hand(n note) {
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
	r.hand(note{list: listBegins})
}

// ListEnd implements watch.Handler.
func (r *reader) ListEnd() { r.hand(note{list: listEnds}) }

// Event implements watch.Handler.
func (r *reader) Event(e watch.Event) {
	p := r.player
	object, err := machine.Decode(e.Object)
	if err != nil {
		p.warn("malformed", "watch of "+p.served.Name+": "+err.Error())
		return
	}
	p.name(object)
	if e.Kind != watch.Deleted && p.options.Mine != nil && !p.options.Mine(object) {
		return
	}
	n := note{kind: e.Kind, at: e.At, key: text(object, "namespace") + "/" + text(object, "name"), uid: text(object, "uid"), version: Version(object)}
	if e.Kind != watch.Deleted {
		if p.options.Observed != nil {
			p.options.Observed(object)
		}
		p.match(&n, object, r.rng)
		if n.choice.Stage != nil {
			n.raw = bytes.Clone(e.Object)
		}
	}
	r.hand(n)
}

// match asks the stages about an object.
func (p *Player) match(n *note, object Object, rng *rand.Rand) {
	n.choice, n.err = p.options.Stages.Match(object, p.options.Clock.Wall(n.at), rng)
	if n.err == nil && n.choice.Stage != nil && p.options.Slower != nil {
		n.choice.Delay += p.options.Slower(object)
	}
}

// name gives an object its apiVersion and kind, which items of built-in lists
// do not carry.
func (p *Player) name(object Object) {
	if object["kind"] == nil {
		object["apiVersion"], object["kind"] = p.options.Resource.APIVersion, p.options.Resource.Kind
	}
}
