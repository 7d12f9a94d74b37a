// Package accuracy proves that the instruments measure what they say they do:
// each proof sets up a truth that is known beforehand and holds what a run
// reports against it. It has tests only, which take minutes and the machine to
// themselves: they run when WINDTUNNEL_ACCURACY is set, as `make test-accuracy`
// does, and nobody calls it.
package accuracy
