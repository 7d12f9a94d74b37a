package player

// Kept is how many bytes of objects a player keeps.
func Kept(p *Player) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		n += len(e.Pending().raw)
	}
	return n
}

// Hurry lets every stage that waits play at once.
func Hurry(p *Player) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		j := e.Pending()
		j.Due = 0
		p.calls.Enqueue(&j.Call)
	}
	go func() { p.notes <- note{list: listBegins} }() // wakes the loop
}
