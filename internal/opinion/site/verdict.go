package site

import (
	"bytes"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
)

// verdictFile is what the page needs of a verdict.json. The objectives, the larger part,
// are not looked at.
type verdictFile struct {
	Verdict  slo.Verdict            `json:"verdict"`
	Measures map[string]slo.Measure `json:"measures"` // slo.Measures would read them twice
}

// readVerdict reads a verdict.json. Ten thousand of them are most of what a page costs, and
// package json looks at each byte twice: a file as windtunnel writes it is read by scanner,
// in a fifth of the time (BenchmarkVerdict), and any other by package json. What the page
// does not show is passed over: only its strings and brackets are looked at.
func readVerdict(raw []byte) (v verdictFile, err error) {
	if v, ok := scanVerdict(raw); ok {
		return v, nil
	}
	return v, text.DecodeJSON(record.VerdictFile, raw, &v)
}

// scanVerdict reads a verdict.json; false: it is not as it is written, or not JSON.
func scanVerdict(raw []byte) (v verdictFile, ok bool) {
	s := &scanner{raw: raw}
	v.Measures = make(map[string]slo.Measure, 256)
	units := map[string]string{} // a handful, of which each file has hundreds
	s.object(func(key []byte) {
		switch string(key) {
		case "verdict":
			v.Verdict = slo.Verdict(s.text())
		case "measures":
			s.object(func(key []byte) {
				name := string(key)
				v.Measures[name] = s.measure(units)
			})
		default:
			s.skip()
		}
	})
	s.space()
	return v, !s.bad && s.at == len(raw)
}

// scanner reads JSON of a known form. What it does not expect makes it bad, and it reads
// no further.
type scanner struct {
	raw []byte
	at  int
	bad bool
}

// measure reads one measure.
func (s *scanner) measure(units map[string]string) (m slo.Measure) {
	s.object(func(key []byte) {
		switch string(key) {
		case "value":
			m.Value = s.number()
		case "unit":
			unit := s.text()
			known, ok := units[string(unit)]
			if !ok {
				known = string(unit)
				units[known] = known
			}
			m.Unit = known
		case "own":
			m.Own = s.next() == 't'
			s.skip()
		case "better":
			m.Better = string(s.text())
		default: // of a later version, which package json reads as far as it can
			s.bad = true
		}
	})
	return m
}

func (s *scanner) space() {
	for s.at < len(s.raw) && (s.raw[s.at] == ' ' || s.raw[s.at] == '\n' || s.raw[s.at] == '\t' || s.raw[s.at] == '\r') {
		s.at++
	}
}

// next is the byte that the next value begins with; 0: there is none.
func (s *scanner) next() byte {
	if s.space(); s.bad || s.at >= len(s.raw) {
		return 0
	}
	return s.raw[s.at]
}

// take reads one byte, which has to be this one.
func (s *scanner) take(b byte) {
	if s.next() != b {
		s.bad = true
		return
	}
	s.at++
}

// object reads an object; member reads the value of each of its keys.
func (s *scanner) object(member func(key []byte)) {
	s.take('{')
	if s.next() == '}' {
		s.at++
		return
	}
	for !s.bad {
		key := s.text()
		if s.take(':'); s.bad {
			return
		}
		if member(key); s.next() != ',' {
			break
		}
		s.at++
	}
	s.take('}')
}

// text reads a string without escapes: names, units and verdicts have none.
func (s *scanner) text() []byte {
	if s.take('"'); s.bad {
		return nil
	}
	n := bytes.IndexByte(s.raw[s.at:], '"')
	if n < 0 || bytes.IndexByte(s.raw[s.at:s.at+n], '\\') >= 0 {
		s.bad = true
		return nil
	}
	text := s.raw[s.at : s.at+n]
	s.at += n + 1
	return text
}

func (s *scanner) number() float64 {
	s.space()
	from := s.at
	for s.at < len(s.raw) && isPlain(s.raw[s.at]) {
		s.at++
	}
	v, err := strconv.ParseFloat(string(s.raw[from:s.at]), 64)
	s.bad = s.bad || err != nil
	return v
}

// isPlain tells the bytes of numbers, true, false and null.
func isPlain(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b == '-' || b == '+' || b == '.' || b == 'E'
}

// skip passes over a value: to where its brackets are closed, or to the end of a plain one.
func (s *scanner) skip() {
	depth := 0
	for s.next() != 0 {
		switch b := s.raw[s.at]; b {
		case '"':
			s.skipText()
		case '{', '[':
			depth++
			s.at++
			continue
		case '}', ']':
			if depth == 0 {
				s.bad = true
				return
			}
			depth--
			s.at++
		case ',', ':':
			if depth == 0 {
				s.bad = true
				return
			}
			s.at++
			continue
		default:
			if !isPlain(b) {
				s.bad = true
				return
			}
			for s.at < len(s.raw) && isPlain(s.raw[s.at]) {
				s.at++
			}
		}
		if depth == 0 {
			return
		}
	}
	s.bad = true
}

// skipText passes over a string with whatever escapes.
func (s *scanner) skipText() {
	for s.at++; s.at < len(s.raw); s.at++ {
		switch s.raw[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return
		}
	}
	s.bad = true
}
