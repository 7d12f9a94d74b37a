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

// append makes the value. It takes one value of the generator for 16 letters.
func (r random) append(dst []byte, seed uint64, index int) []byte {
	state := begin(seed, index, r.call)
	if r.letters == 0 {
		return strconv.AppendInt(dst, int64(uint64(r.from)+below(&state, uint64(r.to)-uint64(r.from))), 10)
	}
	for left := r.letters; left > 0; {
		bits := next(&state)
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

// begin is the generator's first state for one call of a random function.
func begin(seed uint64, index, call int) uint64 {
	return mix(mix(seed^0x62e2ac0d5b1f8a37)+uint64(index))*0x9e3779b97f4a7c15 + uint64(call)
}

// next is SplitMix64: the generator of the Java platform's SplittableRandom
// (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
func next(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	return mix(*state)
}

// mix is its output function: each bit of the result depends on all of z's.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number below n; it draws again where the last, incomplete
// stretch of the range would favour small numbers.
func below(state *uint64, n uint64) uint64 {
	for {
		x := next(state)
		if r := x % n; x-r <= -n {
			return r
		}
	}
}

// replica is the object's number among those that share its index.
func (v Vars) replica() int { return max(1, v.Replica) }

// which is one number for index and replica: that of the index alone for the
// first replica. Below 2^40 indices no two objects share one.
func (v Vars) which() int { return v.Index ^ (v.replica()-1)<<40 }

// value is what a random function returns: the value, or in a probe a marker.
func (x *executor) value(r random) string {
	r.call = x.calls
	x.calls++
	if x.probe != nil {
		*x.probe = append(*x.probe, r)
		return marker(r)
	}
	return string(r.append(nil, x.vars.Seed, x.vars.which()))
}

// randInt gives a whole number of at least from and below to.
func (x *executor) randInt(from, to int) (string, error) {
	if from >= to {
		return "", fmt.Errorf("randInt %d %d: the second number is not above the first", from, to)
	}
	return x.value(random{from: int64(from), to: int64(to)}), nil
}

// randAlpha gives so many lower-case letters.
func (x *executor) randAlpha(n int) (string, error) {
	switch {
	case n <= 0:
		return "", fmt.Errorf("randAlpha %d: at least 1 letter is needed", n)
	case n > MaxOutput:
		return "", fmt.Errorf("randAlpha %d: %w", n, ErrTooLarge)
	}
	return x.value(random{letters: n}), nil
}

// payload gives so many bytes of lower-case letters; the size is a number or a
// quantity such as "10Ki". A size that 4 divides makes it valid base64, too.
func (x *executor) payload(size any) (string, error) {
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
	return x.value(random{letters: int(n)}), nil
}
