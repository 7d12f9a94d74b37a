package usage

// Follow samples a process in place of the one of the same name: a component
// that was started again.
func (s *Sampler) Follow(p Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.all {
		if w.Name == p.Name {
			w.Process, w.lost = p, nil
			return
		}
	}
	s.all = append(s.all, newWatched(p))
}
