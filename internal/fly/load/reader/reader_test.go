package reader_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/reader"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A command is a speed, and its input what happens: "begin AT", "come AT BYTES" of bytes that
// come, and "read AT". The output is what is read of them, and when to ask again if that is
// not at once.
func TestReader(t *testing.T) {
	repotest.Trace(t, "testdata/readers.trace", func(t *testing.T, s repotest.Step) string {
		r := reader.New(speedOf(t, s.Args))
		waiting := 0
		var out strings.Builder
		for line := range strings.Lines(s.Input) {
			words := strings.Fields(line)
			at := clock.Time(duration(t, words[1]))
			switch words[0] {
			case "begin":
				r.Begin(at)
			case "come":
				if waiting == 0 {
					r.Read(at, 0)
				}
				waiting += number(t, words[2])
			case "read":
				n, next := r.Read(at, waiting)
				waiting -= n
				fmt.Fprintf(&out, "%v: %d, %d left", time.Duration(at), n, waiting)
				switch {
				case next == clock.Time(1<<63-1):
					out.WriteString(", never again")
				case next > at:
					fmt.Fprintf(&out, ", again at %v", time.Duration(next))
				}
				out.WriteByte('\n')
			}
		}
		return out.String()
	})
}

func speedOf(t *testing.T, args map[string]string) (out reader.Speed) {
	if rate := args["rate"]; rate != "" {
		out.Rate = float64(number(t, rate))
	}
	if after := args["stall"]; after != "" {
		out.Stalls, out.After = true, duration(t, after)
	}
	if d := args["for"]; d != "" {
		out.For = duration(t, d)
	}
	return out
}

func number(t *testing.T, text string) int {
	t.Helper()
	return repotest.Must(strconv.Atoi(text))(t)
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	return repotest.Must(time.ParseDuration(text))(t)
}
