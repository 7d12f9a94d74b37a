package fleet

// Owns says that a fleet keeps a node alive.
func Owns(f *Fleet, node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byName[node] != nil
}

// Watches is how many watches are open for the traffic of kubelets.
func Watches(f *Fleet) int { return f.kubelets.Stats().Open }
