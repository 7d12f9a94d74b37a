package player

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// loop owns the entries until ctx ends: it takes notes and results, fires
// timers and hands out what is due.
func (p *Player) loop(ctx context.Context) {
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	notes := p.notes
	for {
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
		}
		now := p.options.Clock.Now()
		p.calls.Advance(now)
		for j := p.calls.Next(); j != nil; j = p.calls.Next() {
			p.sendLocked(j, now)
		}
		if notes = p.notes; p.calls.Queued() > maxDue {
			notes = nil // which holds the watch back
		}
		sleep.Reset(p.calls.Pause(now))
		p.mu.Unlock()
	}
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
		p.entries[n.key] = e
	}
	p.relist.Add(e.key)
	if n.version == 0 || !e.Stale(n.version) {
		e.seen = n.version
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
	p.calls.Forget(&e.Object)
	delete(p.entries, e.key)
}

// chooseLocked takes what the stages said of an object: the same stage stays due when
// it was, another one is due from the receipt on.
func (p *Player) chooseLocked(e *entry, n note) {
	if e.deaf {
		return
	}
	s := n.choice.Stage
	if n.err != nil {
		p.leaveAloneLocked(n.err)
	}
	if n.err != nil || s == nil {
		if p.calls.Withdraw(&e.Object); e.Idle() {
			p.forgetLocked(e)
		}
		return
	}
	j := e.Pending()
	if j == nil {
		j = &job{entry: e}
		p.calls.Prepare(&j.Call, j)
	}
	if j.stage != s {
		j.stage, j.step, j.Due = s, 0, n.at.Add(n.choice.Delay)
		if e.stage != s || n.at.Sub(e.loopFrom) > loopTime {
			e.stage, e.plays, e.loopFrom = s, 0, n.at
		}
	}
	j.raw, j.Version = n.raw, n.version
	now := p.options.Clock.Now()
	if j.Due.Sub(now) > parkAfter {
		j.raw = nil
	}
	p.calls.Choose(&e.Object, &j.Call, now)
}

// sendLocked gives a job to a worker, unless its stage plays on the object again and again.
func (p *Player) sendLocked(j *job, now clock.Time) {
	e := j.entry
	if e.plays++; e.plays > maxPlays && now.Sub(e.loopFrom) < loopTime {
		p.stats.Loops++
		err := j.stage.Source().Fault("spec.selector", fmt.Errorf("matched %s again after each of %d plays within %v: it is left alone", e.key, maxPlays, loopTime))
		p.warnOnce("loop "+j.stage.Name(), err.Error())
		e.deaf = true
		p.calls.Withdraw(&e.Object)
		return
	}
	p.calls.Send(&j.Call)
	p.jobs <- j // there is room for as many as may be under way
}

func (p *Player) leaveAloneLocked(err error) {
	p.stats.Faults++
	p.warnOnce("fault "+err.Error(), err.Error())
}

// settleLocked takes what became of a play.
func (p *Player) settleLocked(r result) {
	j := r.job
	e := j.entry
	p.calls.Answer(&j.Call, false)
	at := p.options.Clock.Now()
	if r.firstSent != 0 {
		p.sent.Add(time.Duration(at), r.firstSent.Sub(j.Due))
	}
	if j.Cancelled() {
		return
	}
	switch r.kind {
	case held:
		e.plays--
		next := p.calls.Replace(&e.Object)
		next.Due = max(next.Due, at.Add(holdTime)) // what holds it is late, not the fleet
		p.calls.Schedule(&next.Call, at)
		return
	case retry:
		e.plays--
		p.stats.Retries++
		j.raw = r.raw
		next := p.calls.Replace(&e.Object)
		if next.stage == j.stage {
			next.step = r.step
		}
		p.calls.Retry(&next.Call, at, r.retryAfter)
		return
	case failed:
		p.stats.Dropped++
		p.warnOnce(fmt.Sprintf("drop %s %d", j.stage.Name(), r.code), r.err.Error())
	case faulty:
		p.leaveAloneLocked(r.err)
	case played:
		p.stats.Played++
		p.done.Add(time.Duration(at), at.Sub(j.Due))
	}
	p.calls.Finish(&e.Object, r.version, at)
	switch {
	case !e.Idle():
	case r.again != nil && r.version >= e.seen:
		p.chooseLocked(e, *r.again)
	case r.kind != played || r.version <= e.seen:
		p.forgetLocked(e) // no echo of ours is on its way
	}
}
