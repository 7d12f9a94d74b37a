package template

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// random is one call of a random function: what it makes depends on the seed,
// the object's index and how many such calls stand before it in the template.
type random struct {
	call     int
	letters  int   // how many; 0: a whole number
	from, to int64 // from <= number < to
}

// appendValue makes the value. It takes one value of the generator for 16 letters.
func (r random) appendValue(dst []byte, seed uint64, index int) []byte {
	state := firstState(seed, index, r.call)
	if r.letters == 0 {
		return strconv.AppendInt(dst, int64(uint64(r.from)+randomBelow(&state, uint64(r.to)-uint64(r.from))), 10)
	}
	for left := r.letters; left > 0; {
		bits := nextRandom(&state)
		for range min(left, 16) {
			dst = append(dst, letters[bits&15])
			bits >>= 4
			left--
		}
	}
	return dst
}

// letters make texts that YAML takes for texts and people do not take for
// words: neither yes nor null nor 1e5 can be written with them.
const letters = "ghijklmpqrstuvwz"

// firstState is the generator's first state for one call of a random function.
func firstState(seed uint64, index, call int) uint64 {
	return mixBits(mixBits(seed^0x62e2ac0d5b1f8a37)+uint64(index))*0x9e3779b97f4a7c15 + uint64(call)
}

// nextRandom is SplitMix64: the generator of the Java platform's SplittableRandom
// (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
func nextRandom(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	return mixBits(*state)
}

// mixBits is its output function: each bit of the result depends on all of z's.
func mixBits(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// randomBelow returns a number below n; it draws again where the last, incomplete
// stretch of the range would favour small numbers.
func randomBelow(state *uint64, n uint64) uint64 {
	for {
		x := nextRandom(state)
		if r := x % n; x-r <= -n {
			return r
		}
	}
}

// ReplicaNumber is the object's number among those that share its index.
func (v Vars) ReplicaNumber() int { return max(1, v.Replica) }

// objectNumber is one number for index and replica: that of the index alone for the
// first replica. Below 2^40 indices no two objects share one.
func (v Vars) objectNumber() int { return v.Index ^ (v.ReplicaNumber()-1)<<40 }

// randomValue is what a random function returns: the value, or in a probe a marker.
func (x *executor) randomValue(r random) string {
	r.call = x.calls
	x.calls++
	if x.probe != nil {
		*x.probe = append(*x.probe, r)
		return randomMarker(r)
	}
	return string(r.appendValue(nil, x.vars.Seed, x.vars.objectNumber()))
}

// randInt gives a whole number of at least from and below to.
func (x *executor) randInt(from, to int) (string, error) {
	if from >= to {
		return "", fmt.Errorf("randInt %d %d: the second number is not above the first", from, to)
	}
	return x.randomValue(random{from: int64(from), to: int64(to)}), nil
}

// randAlpha gives so many lower-case letters.
func (x *executor) randAlpha(n int) (string, error) {
	switch {
	case n <= 0:
		return "", fmt.Errorf("randAlpha %d: at least 1 letter is needed", n)
	case n > MaxOutput:
		return "", fmt.Errorf("randAlpha %d: %w", n, ErrTooLarge)
	}
	return x.randomValue(random{letters: n}), nil
}

// randomPayload gives so many bytes of lower-case letters; the size is a number or a
// quantity such as "10Ki". A size that 4 divides makes it valid base64, too.
func (x *executor) randomPayload(size any) (string, error) {
	q, err := resource.ParseQuantity(fmt.Sprint(size))
	if err != nil {
		return "", fmt.Errorf("payload %v: not a size such as 1000 or 10Ki", size)
	}
	n := q.Value()
	switch {
	case n <= 0:
		return "", fmt.Errorf("payload %v: at least 1 byte is needed", size)
	case n > MaxOutput:
		return "", fmt.Errorf("payload %v: %w", size, ErrTooLarge)
	}
	return x.randomValue(random{letters: int(n)}), nil
}
