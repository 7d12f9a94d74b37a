// Package share divides work among workers: numbered things go round-robin.
package share

// Share is the part of numbered things that one of several workers has: those whose
// number leaves Index when it is divided by Of. The shares of all workers together are
// the whole. The zero value is the whole.
type Share struct{ Index, Of int }

// Stride is how far the numbers of two things of the share lie apart.
func (s Share) Stride() int { return max(1, s.Of) }

// Split tells whether there are others who have the rest.
func (s Share) Split() bool { return s.Of > 0 }

// Valid tells whether there can be such a share: they count from 0 to below Of.
func (s Share) Valid() bool { return s.Of >= 0 && s.Index >= 0 && s.Index < s.Stride() }

// Count returns how many of the things from 0 to below n are the share's.
func (s Share) Count(n int) int {
	return max(0, (n-s.Index+s.Stride()-1)/s.Stride())
}

// Has tells whether the thing of a number is the share's.
func (s Share) Has(number int) bool { return number%s.Stride() == s.Index }

// Portion returns the share of n things that are there all the time, such as the
// calls of a closed pool: as many as everybody's, and what is left over goes to
// the lowest indices.
func (s Share) Portion(n int) int {
	out := n / s.Stride()
	if s.Index < n%s.Stride() {
		out++
	}
	return out
}
