package steps

import (
	"maps"
	"slices"
)

// Changes are what became of the objects of create steps, by step. Workers send
// each other's objects requests, so each has to know what the others' answers
// said: what a worker has seen is applied by the leader, and what the leader knows
// by all workers, before the next part of the load.
type Changes map[string]*Change

// Change is what became of the objects of one create step. Numbers are those of
// layout.numberOf.
type Change struct {
	There   bitmap         `json:"there,omitempty"`
	Gone    bitmap         `json:"gone,omitempty"`
	Refused bitmap         `json:"refused,omitempty"`
	Why     string         `json:"why,omitempty"` // of the first one that was refused
	UIDs    map[int]string `json:"uids,omitempty"`
	Doubted []place        `json:"doubted,omitempty"`
	Indices *int           `json:"indices,omitempty"` // nil: as before
}

// place is an ordinal as it is sent.
type place struct {
	Space   int `json:"space,omitempty"`
	Index   int `json:"index,omitempty"`
	Item    int `json:"item,omitempty"`
	Replica int `json:"replica,omitempty"`
}

// TrackChanges has changes remembered from now on, for TakeChanges.
func (c *Created) TrackChanges() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracked = true
}

// TakeChanges returns what has changed since it was last called.
func (c *Created) TakeChanges() Changes {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Changes{}
	for _, step := range slices.Sorted(maps.Keys(c.steps)) {
		if one := c.steps[step].takeChange(); one != nil {
			out[step] = one
		}
	}
	return out
}

// Apply takes over what others have seen. Of a step that was not reached here there
// is nothing to change.
func (c *Created) Apply(all Changes) {
	for step, one := range all {
		if o := c.of(step); o != nil && one != nil {
			o.applyChange(one)
		}
	}
}

// takeChange returns what has changed since the last time; nil where nothing has.
func (p *presence) takeChange() *Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.change
	if out != nil {
		p.change = &Change{}
	}
	if out == nil || out.There == nil && out.Gone == nil && out.Refused == nil && out.UIDs == nil && out.Doubted == nil && out.Indices == nil {
		return nil
	}
	return out
}

func (p *presence) applyChange(c *Change) {
	for i := range c.There.all() {
		p.set(i, true)
	}
	for i := range c.Gone.all() {
		p.set(i, false)
	}
	for i := range c.Refused.all() {
		p.refuse(i, c.Why)
	}
	for i, uid := range c.UIDs {
		p.setUID(i, uid)
	}
	for _, at := range c.Doubted {
		p.doubt(ordinal{at.Space, at.Index, at.Item, at.Replica})
	}
	if c.Indices != nil {
		p.setUpTo(*c.Indices)
	}
}

// noteSet remembers that an object came or went; callers hold mu, as those of the
// following.
func (p *presence) noteSet(number int, there bool) {
	if p.change == nil {
		return
	}
	to, from := &p.change.There, &p.change.Gone
	if !there {
		to, from = from, to
	}
	to.set(number, true)
	if from.has(number) {
		from.set(number, false)
	}
	if there && p.change.Refused.has(number) {
		p.change.Refused.set(number, false)
	}
}

func (p *presence) noteRefused(number int, why string) {
	if p.change == nil {
		return
	}
	if p.change.Refused.set(number, true); p.change.Why == "" {
		p.change.Why = why
	}
}

func (p *presence) noteUID(number int, uid string) {
	if p.change == nil {
		return
	}
	if p.change.UIDs == nil {
		p.change.UIDs = map[int]string{}
	}
	p.change.UIDs[number] = uid
}

func (p *presence) noteDoubted(n ordinal) {
	if p.change != nil {
		p.change.Doubted = append(p.change.Doubted, place{n.space, n.index, n.item, n.replica})
	}
}

func (p *presence) noteIndices(n int) {
	if p.change != nil {
		p.change.Indices = &n
	}
}

// track has changes remembered.
func (p *presence) track() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = &Change{}
}
