package text

import (
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Screen writes lines for people. What steers a terminal is taken out of them: names
// and messages come from scenarios, servers and run directories of others. Only the
// colours of Colours stay.
type Screen struct {
	out io.Writer

	mu   sync.Mutex
	rest []byte // the begin of a character that was cut in two
}

// NewScreen returns a screen that writes to out.
func NewScreen(out io.Writer) *Screen { return &Screen{out: out} }

// Unwrap returns what the screen writes to.
func (s *Screen) Unwrap() io.Writer { return s.out }

// Write writes a text. It says how much of it was taken, whatever became of that.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.rest, p...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole -= n
			}
			break
		}
	}
	if _, err := io.WriteString(s.out, cleanLines(string(text[:whole]))); err != nil {
		return 0, err
	}
	s.rest = append([]byte(nil), text[whole:]...)
	return len(p), nil
}

// Lead writes a control sequence of our own and a text after it, in one piece.
func (s *Screen) Lead(control, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.out, control+cleanLines(text))
	return err
}

// Colours are the control sequences that a screen lets pass: they make letters green,
// red or yellow, and as they were.
func Colours() []string { return []string{"\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"} }

// cleanLines is Clean for texts of several lines, in which colours may be.
func cleanLines(s string) string {
	clean := true
	for _, c := range s {
		clean = clean && (c == '\n' || c == '\t' || !isControl(c))
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if colour := colourAt(s[i:]); colour != "" {
			b.WriteString(colour)
			i += len(colour)
			continue
		}
		c, n := utf8.DecodeRuneInString(s[i:])
		if c != '\n' && c != '\t' && isControl(c) {
			c = utf8.RuneError
		}
		b.WriteRune(c)
		i += n
	}
	return b.String()
}

func colourAt(s string) string {
	if s[0] != '\x1b' {
		return ""
	}
	for _, c := range Colours() {
		if strings.HasPrefix(s, c) {
			return c
		}
	}
	return ""
}

// isControl tells characters that do something to a terminal or to the order of letters
// rather than show.
func isControl(c rune) bool {
	const apart = '\u200b' // Escape writes it
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) && c != apart || c == utf8.RuneError
}
