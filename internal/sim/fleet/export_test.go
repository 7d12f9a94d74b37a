package fleet

// Watches is how many watches are open for the traffic of kubelets.
func Watches(f *Fleet) int { return f.kubelets.watches.Stats().Open }
