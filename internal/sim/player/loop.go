package player

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// loop owns the entries until ctx ends: it takes notes and results, fires
// timers and hands out what is due.
func (p *Player) loop(ctx context.Context) {
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for {
		notes, jobs, first := p.offers()
		select {
		case <-ctx.Done():
			return
		case <-sleep.C:
			p.mu.Lock()
		case n := <-notes:
			p.mu.Lock()
			p.takeNoteLocked(n)
		case r := <-p.results:
			p.mu.Lock()
			p.settleLocked(r)
		case jobs <- first:
			p.mu.Lock()
			first.queued, first.playing = false, true
			p.stats.Playing++
			p.due[0] = nil
			p.due = p.due[1:]
		}
		p.wheel.Advance(p.options.Clock.Now())
		wake, waits := p.wheel.Wake()
		p.mu.Unlock()
		if waits {
			sleep.Reset(max(p.options.Clock.Until(wake), 0))
		} else {
			sleep.Reset(time.Hour)
		}
	}
}

// offers says what the loop may take and give now: no notes while too much is
// due, which holds the watch back.
func (p *Player) offers() (notes <-chan note, jobs chan<- *entry, first *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.due) > 0 && p.due[0].deleted {
		p.due = p.due[1:]
	}
	if len(p.due) <= maxDue {
		notes = p.notes
	}
	if len(p.due) > 0 {
		return notes, p.jobs, p.due[0]
	}
	return notes, nil, nil
}

// takeNoteLocked takes what the watch says.
func (p *Player) takeNoteLocked(n note) {
	switch n.list {
	case listBegins:
		p.relist.Begin()
		return
	case listEnds:
		p.endListLocked()
		return
	}
	p.stats.Events++
	e := p.entries[n.key]
	if e != nil && e.uid != n.uid { // another object of the same name
		p.forgetLocked(e)
		e = nil
	}
	if n.kind == watch.Deleted {
		if e != nil {
			p.forgetLocked(e)
		}
		if p.options.Deleted != nil {
			p.options.Deleted(n.uid)
		}
		return
	}
	switch {
	case e == nil && n.err == nil && n.choice.Stage == nil:
		return
	case e == nil:
		e = &entry{key: n.key, uid: n.uid}
		e.Fire = func() { p.enqueueLocked(e) }
		p.entries[n.key] = e
	}
	p.relist.Add(e.key)
	switch {
	case n.version != 0 && n.version < e.patched: // overtaken by our own patch
	case e.playing:
		e.next = &n
	default:
		p.chooseLocked(e, n)
	}
}

// endListLocked forgets what a whole list did not hold.
func (p *Player) endListLocked() {
	for _, key := range p.relist.End(maps.Keys(p.entries)) {
		e := p.entries[key]
		p.forgetLocked(e)
		if p.options.Deleted != nil {
			p.options.Deleted(e.uid)
		}
	}
	select {
	case <-p.listed:
	default:
		close(p.listed)
	}
}

func (p *Player) forgetLocked(e *entry) {
	p.wheel.Stop(&e.Timer)
	e.deleted = true
	delete(p.entries, e.key)
}

// chooseLocked takes what the stages said of an object: the same stage stays due when
// it was, another one is due from the receipt on.
func (p *Player) chooseLocked(e *entry, n note) {
	if n.err != nil {
		p.leaveAloneLocked(n.err)
		p.forgetLocked(e)
		return
	}
	s := n.choice.Stage
	if s == nil {
		p.forgetLocked(e)
		return
	}
	if same := e.stage == s; !same || !e.waits {
		if !same || n.at.Sub(e.loopFrom) > loopTime {
			e.plays, e.loopFrom = 0, n.at
		}
		e.asked, e.step, e.attempt = n.at.Add(n.choice.Delay), 0, 0
	}
	e.stage, e.raw, e.version, e.waits = s, n.raw, n.version, true
	if e.asked.Sub(p.options.Clock.Now()) > parkAfter {
		e.raw = nil
	}
	if e.queued || e.Waiting() && e.attempt > 0 {
		return // it is about to go, or pauses before a retry
	}
	if e.asked > p.options.Clock.Now() {
		p.wheel.Set(&e.Timer, e.asked)
		return
	}
	p.wheel.Stop(&e.Timer)
	p.enqueueLocked(e)
}

// enqueueLocked puts an entry where workers find it.
func (p *Player) enqueueLocked(e *entry) {
	if e.plays++; e.plays > maxPlays && p.options.Clock.Now().Sub(e.loopFrom) < loopTime {
		p.stats.Loops++
		err := e.stage.Source().Fault("spec.selector", fmt.Errorf("matched %s again after each of %d plays within %v: it is left alone", e.key, maxPlays, loopTime))
		p.warnLater("loop "+e.stage.Name(), err.Error())
		p.wheel.Stop(&e.Timer)
		e.raw, e.stage, e.waits, e.patched = nil, nil, false, 1<<63 // deaf until it is deleted
		return
	}
	e.queued = true
	p.due = append(p.due, e)
}

// warnLater warns once the lock is free.
func (p *Player) warnLater(key, text string) {
	p.wait.Go(func() { p.warn(key, text) })
}

func (p *Player) leaveAloneLocked(err error) {
	p.stats.Faults++
	p.warnLater("fault "+err.Error(), err.Error())
}

// settleLocked takes what became of a play.
func (p *Player) settleLocked(r result) {
	e := r.entry
	e.playing = false
	p.stats.Playing--
	at := p.options.Clock.Now()
	if r.firstSent != 0 {
		p.sent.Add(time.Duration(at), r.firstSent.Sub(e.asked))
	}
	if e.deleted {
		return
	}
	e.patched = max(e.patched, r.version)
	next := e.next
	e.next = nil
	switch r.kind {
	case held:
		e.plays--
		e.asked = at.Add(holdTime) // what holds it is late, not the fleet
		p.wheel.Set(&e.Timer, e.asked)
		if next != nil {
			p.chooseLocked(e, *next)
		}
		return
	case retry:
		p.retryLocked(e, r, at)
		if next != nil {
			p.chooseLocked(e, *next)
		}
		return
	case failed:
		p.stats.Dropped++
		p.warnLater(fmt.Sprintf("drop %s %d", e.stage.Name(), r.code), r.err.Error())
	case faulty:
		p.leaveAloneLocked(r.err)
	case played:
		p.stats.Played++
		p.done.Add(time.Duration(at), at.Sub(e.asked))
	}
	e.raw, e.waits = nil, false
	switch {
	case r.again != nil:
		p.chooseLocked(e, *r.again)
	case next != nil && next.version >= e.patched:
		p.chooseLocked(e, *next)
	case r.kind != played || e.patched <= e.version:
		p.forgetLocked(e) // no echo of ours is on its way
	}
}

// retryLocked plays the rest of a stage again after a pause.
func (p *Player) retryLocked(e *entry, r result, at clock.Time) {
	p.stats.Retries++
	pause := wire.CallBackoff().Jittered(e.attempt, p.rng.Float64())
	e.attempt++
	e.step, e.raw = r.step, r.raw
	e.plays--
	p.wheel.Set(&e.Timer, at.Add(max(pause, r.retryAfter)))
}
