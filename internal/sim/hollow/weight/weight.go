// Package weight estimates how much memory the values in a body take once they are
// decoded, without decoding them: a body of 3 MiB can hold a million empty structs of
// 1 KiB each.
//
// It does not check a body: the decoder refuses what is malformed.
package weight

// JSON is what a JSON text holds. Keys are not values.
type JSON struct {
	// Values is the number of objects, lists and commas: at least half of the values.
	Values int
	// Objects is the number of values that may become a struct: objects, lists, nulls and
	// elements of lists, at least. A decoder makes a struct even of a number, and complains
	// later.
	Objects int
	// Squares is the sum, over all lists, of the square of the number of elements:
	// what it takes to compare each element of a list with each other.
	Squares int
	// Nested is the sum of the lengths of all objects and lists, in bytes: one that is in
	// another counts again.
	Nested int
}

// maxDepth is how deep the decoders of JSON go. Those of protobuf call themselves for
// each message in a message, and have no bound of their own.
const maxDepth = 10_000

// OfJSON counts what a JSON text holds. In a malformed text it counts at least what a
// decoder sees before the mistake.
func OfJSON(raw []byte) (w JSON) {
	var open []container
	for i := 0; i < len(raw) && len(open) <= maxDepth; i++ {
		switch raw[i] {
		case '"':
			i = endOfText(raw, i)
		case '[', '{':
			w.Values++
			w.Objects += alone(open)
			open = append(open, container{start: i, list: raw[i] == '['})
			w.Objects += 1 - alone(open) // a list's first element
		case ',':
			w.Values++
			w.Objects += 1 - alone(open)
			if n := len(open); n > 0 {
				open[n-1].commas++
			}
		case 'n':
			w.Objects += alone(open)
		case ']', '}':
			if n := len(open); n > 0 {
				w.close(open[n-1], i)
				open = open[:n-1]
			}
		}
	}
	return w
}

// container is an object or a list whose end has not come.
type container struct {
	start, commas int
	list          bool
}

// alone returns 1 for a value that is no element of a list, and 0 for one.
func alone(open []container) int {
	if n := len(open); n > 0 && open[n-1].list {
		return 0
	}
	return 1
}

func (w *JSON) close(c container, end int) {
	w.Nested += end - c.start
	if c.list {
		w.Squares += (c.commas + 1) * (c.commas + 1)
	}
}

// endOfText returns the place of the quote that ends a text.
func endOfText(raw []byte, start int) int {
	for i := start + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(raw)
}

// OfYAML returns a number of values that a YAML text does not exceed. Texts with
// punctuation count for more than they are: where a text of YAML ends only its parser
// knows.
func OfYAML(raw []byte) (values int) {
	for i, c := range raw {
		switch c {
		case '\n', '\r', ',', '[', '{', '*':
			values++
		case '-', '?', ':':
			if i+1 == len(raw) || raw[i+1] <= ' ' {
				values++
			}
		}
	}
	return values + 1
}
