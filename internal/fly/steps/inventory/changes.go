package inventory

// Changes are what became of the objects of create steps, by step. Workers send
// each other's objects requests, so each has to know what the others' answers
// said: what a worker has seen is applied by the leader, and what the leader knows
// by all workers, before the next part of the load.
type Changes map[string]*Change

// Change is what became of the objects of one create step. Numbers are those of
// Layout.NumberOf.
type Change struct {
	There       Bitmap         `json:"there,omitempty"`
	Gone        Bitmap         `json:"gone,omitempty"`
	Refused     Bitmap         `json:"refused,omitempty"`
	Why         string         `json:"why,omitempty"` // of the first one that was refused
	UIDs        map[int]string `json:"uids,omitempty"`
	Unconfirmed []Ordinal      `json:"unconfirmed,omitempty"`
	Indices     *int           `json:"indices,omitempty"` // nil: as before
}

// TakeChange returns what has changed since the last time; nil where nothing has.
func (p *Presence) TakeChange() *Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.change
	if out != nil {
		p.change = &Change{}
	}
	if out == nil || out.There == nil && out.Gone == nil && out.Refused == nil && out.UIDs == nil && out.Unconfirmed == nil && out.Indices == nil {
		return nil
	}
	return out
}

// Apply takes over what another process has seen.
func (p *Presence) Apply(c *Change) {
	for i := range c.There.All() {
		p.Set(i, true)
	}
	for i := range c.Gone.All() {
		p.Set(i, false)
	}
	for i := range c.Refused.All() {
		p.Refuse(i, c.Why)
	}
	for i, uid := range c.UIDs {
		p.SetUID(i, uid)
	}
	for _, at := range c.Unconfirmed {
		p.MarkUnconfirmed(at)
	}
	if c.Indices != nil {
		p.SetUpTo(*c.Indices)
	}
}

// noteSetLocked remembers that an object came or went.
func (p *Presence) noteSetLocked(number int, there bool) {
	if p.change == nil {
		return
	}
	to, from := &p.change.There, &p.change.Gone
	if !there {
		to, from = from, to
	}
	to.Set(number, true)
	if from.Has(number) {
		from.Set(number, false)
	}
	if there && p.change.Refused.Has(number) {
		p.change.Refused.Set(number, false)
	}
}

func (p *Presence) noteRefusedLocked(number int, why string) {
	if p.change == nil {
		return
	}
	if p.change.Refused.Set(number, true); p.change.Why == "" {
		p.change.Why = why
	}
}

func (p *Presence) noteUIDLocked(number int, uid string) {
	if p.change == nil {
		return
	}
	if p.change.UIDs == nil {
		p.change.UIDs = map[int]string{}
	}
	p.change.UIDs[number] = uid
}

func (p *Presence) noteUnconfirmedLocked(n Ordinal) {
	if p.change != nil {
		p.change.Unconfirmed = append(p.change.Unconfirmed, n)
	}
}

func (p *Presence) noteIndicesLocked(n int) {
	if p.change != nil {
		p.change.Indices = &n
	}
}

// Track has changes remembered from now on, for TakeChange.
func (p *Presence) Track() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = &Change{}
}
