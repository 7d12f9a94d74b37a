// Package robust proves that windtunnel leaves nothing behind, loses nothing and
// believes nothing wrong on a bad day: killed at any moment, with damaged files,
// with peers that misbehave. Its tests take many minutes; `make test-robust SEED=n`
// runs them and prints counts.
package robust
