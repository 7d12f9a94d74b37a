package h2_test

import (
	"strings"
	"testing"
)

// h2spec is the cases of h2spec, by suite, section of RFC 7540 or RFC 7541 and number, and
// for each the rule that has its situation.
const h2spec = `
generic/1/1        RFC 9113, 3.4: a preface and settings
generic/2/1        RFC 9113, 5.1, idle: a priority
generic/2/2        RFC 9113, 5.1, half-closed: a window
generic/2/3        RFC 9113, 5.1, half-closed: a priority
generic/2/4        RFC 9113, 5.1, half-closed: a reset
generic/2/5        RFC 9113, 5.1, closed: a priority
generic/3.1/1      RFC 9113, 6.1: data
generic/3.1/2      RFC 9113, 6.1: data
generic/3.1/3      RFC 9113, 6.1: data with padding
generic/3.2/1      RFC 9113, 8.3.1, requests: GET
generic/3.2/2      RFC 9113, 6.2: headers with padding
generic/3.2/3      RFC 9113, 6.2: headers with a priority
generic/3.3/1      RFC 9113, 6.3: priorities of all weights and kinds
generic/3.3/2      RFC 9113, 6.3: priorities of all weights and kinds
generic/3.3/3      RFC 9113, 6.3: priorities of all weights and kinds
generic/3.3/4      RFC 9113, 6.3: priorities of all weights and kinds
generic/3.3/5      RFC 9113, 6.3: a priority of a stream, and then a request of a lower one
generic/3.4/1      RFC 9113, 6.4: a reset
generic/3.5/1      RFC 9113, 6.5.3: each is acknowledged
generic/3.7/1      RFC 9113, 6.7: a ping
generic/3.8/1      RFC 9113, 6.8: GOAWAY
generic/3.9/1      RFC 9113, 6.9: increments of the connection and of a stream
generic/3.9/2      RFC 9113, 6.9: increments of the connection and of a stream
generic/3.10/1     RFC 9113, 6.10: a continuation
generic/3.10/2     RFC 9113, 6.10: several continuations, also empty ones
generic/4/1        RFC 9113, 8.3.1, requests: GET
generic/4/2        RFC 9113, 8.3.1, requests: HEAD
generic/4/3        RFC 9113, 8.3.1, requests: POST
generic/4/4        RFC 9113, 8.3.1, requests: POST with trailers and a continuation
generic/5/1        RFC 7541, 6.1: a field of the static table
generic/5/2        RFC 7541, 6.2: added, an indexed name
generic/5/3        RFC 7541, 6.2: added, an indexed name, in Huffman code
generic/5/4        RFC 7541, 6.2: added, a new name
generic/5/5        RFC 7541, 6.2: added, a new name, in Huffman code
generic/5/6        RFC 7541, 6.2: not added, an indexed name
generic/5/7        RFC 7541, 6.2: not added, an indexed name, in Huffman code
generic/5/8        RFC 7541, 6.2: not added, a new name
generic/5/9        RFC 7541, 6.2: not added, a new name, in Huffman code
generic/5/10       RFC 7541, 6.2: never added, an indexed name
generic/5/11       RFC 7541, 6.2: never added, an indexed name, in Huffman code
generic/5/12       RFC 7541, 6.2: never added, a new name
generic/5/13       RFC 7541, 6.2: never added, a new name, in Huffman code
generic/5/14       RFC 7541, 6.3: a smaller table
generic/5/15       RFC 7541, 6.3: two new sizes
http2/3.5/1        RFC 9113, 3.4: a preface and settings
http2/3.5/2        RFC 9113, 3.4: another preface
http2/4.1/1        RFC 9113, 4.1: an unknown type
http2/4.1/2        RFC 9113, 4.1: flags that a type does not have
http2/4.1/3        RFC 9113, 4.1: the reserved bit of a stream
http2/4.2/1        RFC 9113, 4.2: data of 2^14 bytes
http2/4.2/2        RFC 9113, 4.2: data of more
http2/4.2/3        RFC 9113, 4.2: headers of more
http2/4.3/1        RFC 9113, 4.3: a block that cannot be decoded
http2/4.3/2        RFC 9113, 4.3: a priority within a block
http2/4.3/3        RFC 9113, 4.3: headers of another stream within a block
http2/5.1/1        RFC 9113, 5.1, idle: data
http2/5.1/2        RFC 9113, 5.1, idle: a reset
http2/5.1/3        RFC 9113, 5.1, idle: a window
http2/5.1/4        RFC 9113, 5.1, idle: a continuation
http2/5.1/5        RFC 9113, 5.1, half-closed: data
http2/5.1/6        RFC 9113, 5.1, half-closed: headers
http2/5.1/7        RFC 9113, 5.1, half-closed: a continuation
http2/5.1/8        RFC 9113, 5.1, closed by the client's reset: data
http2/5.1/9        RFC 9113, 5.1, closed by the client's reset: headers
http2/5.1/10       RFC 9113, 5.1, closed by the client's reset: a continuation
http2/5.1/11       RFC 9113, 5.1, closed: data
http2/5.1/12       RFC 9113, 5.1, closed: headers
http2/5.1/13       RFC 9113, 5.1, closed: a continuation
http2/5.1.1/1      RFC 9113, 5.1.1: an even stream
http2/5.1.1/2      RFC 9113, 5.1.1: a stream before one that was opened
http2/5.1.2/1      RFC 9113, 5.1.2: one stream more than the settings allow
http2/5.3.1/1      RFC 7540, 5.3.1, of no effect in RFC 9113: headers that depend on themselves
http2/5.3.1/2      RFC 7540, 5.3.1, of no effect in RFC 9113: a priority that depends on itself
http2/5.4.1/1      RFC 9113, 5.4.1: GOAWAY before the connection ends
http2/5.4.1/2      RFC 9113, 5.4.1: GOAWAY names the last stream
http2/5.5/1        RFC 9113, 5.5: an extension's frame of a stream
http2/5.5/2        RFC 9113, 5.5: one within a block
http2/6.1/1        RFC 9113, 6.1: data of no stream
http2/6.1/2        RFC 9113, 6.1: data of a stream that is not open
http2/6.1/3        RFC 9113, 6.1: padding as long as the frame
http2/6.2/1        RFC 9113, 6.2: no end of headers, and then a priority
http2/6.2/2        RFC 9113, 6.2: no end of headers, and then others
http2/6.2/3        RFC 9113, 6.2: headers of no stream
http2/6.2/4        RFC 9113, 6.2: more padding than frame
http2/6.3/1        RFC 9113, 6.3: a priority of no stream
http2/6.3/2        RFC 9113, 6.3: a priority of 4 bytes
http2/6.4/1        RFC 9113, 6.4: a reset of no stream
http2/6.4/2        RFC 9113, 6.4: a reset of a stream that was not opened
http2/6.4/3        RFC 9113, 6.4: a reset of 3 bytes
http2/6.5/1        RFC 9113, 6.5: an acknowledgement with a payload
http2/6.5/2        RFC 9113, 6.5: settings of a stream
http2/6.5/3        RFC 9113, 6.5: settings of 5 bytes
http2/6.5.2/1      RFC 9113, 6.5.2: a push of 2
http2/6.5.2/2      RFC 9113, 6.5.2: an initial window of 2^31
http2/6.5.2/3      RFC 9113, 6.5.2: frames of less than 2^14
http2/6.5.2/4      RFC 9113, 6.5.2: frames of 2^24
http2/6.5.2/5      RFC 9113, 6.5.2: a setting that is unknown
http2/6.5.3/1      RFC 9113, 6.5.3: the last of several values counts
http2/6.5.3/2      RFC 9113, 6.5.3: each is acknowledged
http2/6.7/1        RFC 9113, 6.7: a ping
http2/6.7/2        RFC 9113, 6.7: an acknowledgement that nobody waits for
http2/6.7/3        RFC 9113, 6.7: a ping of a stream
http2/6.7/4        RFC 9113, 6.7: a ping of 7 bytes
http2/6.8/1        RFC 9113, 6.8: GOAWAY of a stream
http2/6.9/1        RFC 9113, 6.9: an increment of 0
http2/6.9/2        RFC 9113, 6.9: an increment of 0 of a stream
http2/6.9/3        RFC 9113, 6.9: an increment of 3 bytes
http2/6.9.1/1      RFC 9113, 6.9.1: no more than the stream's window
http2/6.9.1/2      RFC 9113, 6.9.1: increments beyond 2^31-1
http2/6.9.1/3      RFC 9113, 6.9.1: increments of a stream beyond 2^31-1
http2/6.9.2/1      RFC 9113, 6.9.2: a larger initial window after the headers
http2/6.9.2/2      RFC 9113, 6.9.2: a window below 0
http2/6.9.2/3      RFC 9113, 6.9.2: an initial window of 2^32-1
http2/6.10/1       RFC 9113, 6.10: several continuations, also empty ones
http2/6.10/2       RFC 9113, 6.10: another frame before the end
http2/6.10/3       RFC 9113, 6.10: a continuation of no stream
http2/6.10/4       RFC 9113, 6.10: one behind the end of headers
http2/6.10/5       RFC 9113, 6.10: one behind the end of continuations
http2/6.10/6       RFC 9113, 6.10: one behind data
http2/7/1          RFC 9113, 7: GOAWAY with an unknown code
http2/7/2          RFC 9113, 7: a reset with an unknown code
http2/8.1/1        RFC 9113, 8.1: a second block that does not end the stream
http2/8.1.2/1      RFC 9113, 8.2.1: a name in capital letters
http2/8.1.2.1/1    RFC 9113, 8.3: an unknown pseudo field
http2/8.1.2.1/2    RFC 9113, 8.3: one of answers
http2/8.1.2.1/3    RFC 9113, 8.3: one in trailers
http2/8.1.2.1/4    RFC 9113, 8.3: one behind other fields
http2/8.1.2.2/1    RFC 9113, 8.2.2: connection
http2/8.1.2.2/2    RFC 9113, 8.2.2: te of more than trailers
http2/8.1.2.3/1    RFC 9113, 8.3.1: an empty path
http2/8.1.2.3/2    RFC 9113, 8.3.1: no method
http2/8.1.2.3/3    RFC 9113, 8.3.1: no scheme
http2/8.1.2.3/4    RFC 9113, 8.3.1: no path
http2/8.1.2.3/5    RFC 9113, 8.3.1: two methods
http2/8.1.2.3/6    RFC 9113, 8.3.1: two schemes
http2/8.1.2.3/7    RFC 9113, 8.3.1: two paths
http2/8.1.2.6/1    RFC 9113, 8.1.1: less than its length
http2/8.1.2.6/2    RFC 9113, 8.1.1: less than its length in several frames
http2/8.2/1        RFC 9113, 8.4: a push
hpack/2.3.3/1      RFC 7541, 2.3.3: an index beyond both tables
hpack/2.3.3/2      RFC 7541, 2.3.3: a name beyond both tables
hpack/4.2/1        RFC 7541, 4.2: a new size of the table behind a field
hpack/5.2/1        RFC 7541, 5.2: padding of more than 7 bits
hpack/5.2/2        RFC 7541, 5.2: padding of zeros
hpack/5.2/3        RFC 7541, 5.2: the code of an end
hpack/6.1/1        RFC 7541, 6.1: an index of 0
hpack/6.3/1        RFC 7541, 6.3: a table larger than the settings allow
`

// TestH2spec holds that each case of h2spec is among the rules.
func TestH2spec(t *testing.T) {
	known := map[string]bool{}
	for _, s := range rules() {
		for _, r := range s.rules {
			known[s.of+": "+r.what] = true
		}
	}
	cases := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(h2spec)) {
		id, rule, _ := strings.Cut(strings.TrimSpace(line), " ")
		if rule = strings.TrimSpace(rule); !known[rule] {
			t.Errorf("%s: there is no rule %q", id, rule)
		}
		if cases[id] {
			t.Errorf("%s is there twice", id)
		}
		cases[id] = true
	}
	if len(cases) != 147 {
		t.Errorf("%d cases, h2spec has 147", len(cases))
	}
}
