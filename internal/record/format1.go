package record

import (
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Streams of format 1 have marks in place of events: what an event has as
// numbers stood in a mark's text. This is the one place that reads those texts, and
// what the first builds of format 2 said of a death in words only.

// eventOfMark returns the event that a mark of format 1 is.
func eventOfMark(at clock.Time, kind, name, text string) Event {
	e := Event{At: at, Type: EventType(kind), Name: name, Text: text}
	switch e.Type {
	case "unclean":
		e.Type = EventDirty
	case EventPlaneReady:
		e.Text, e.For = "", parseSeconds(text)
	case EventFleetReady:
		e.Name = ""
		e.Count, _ = strconv.Atoi(name)
	case EventStepEnded:
		if rest, ok := strings.CutPrefix(text, "step failed: "); ok {
			e.Step, _, _ = strings.Cut(rest, ": ")
		}
	case EventRunEnded:
		e.Reason, e.Step, e.Text = parseEnd(text)
	case EventLoadAsked, EventLoadOffered, EventLoadAchieved:
		e.Text, e.Detail = "", parseLoad(text)
	case EventDied:
		e.MemoryLimit = parseDeath(text)
	case EventWatchGap:
		if length, why, ok := strings.Cut(text, " s: "); ok {
			e.For, e.Text = parseSeconds(length), why
		}
	}
	return e
}

func parseSeconds(text string) time.Duration {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v < 1e9) {
		return 0
	}
	return time.Duration(v * float64(time.Second))
}

// parseEnd reads "done", "interrupted", "failed: WHY" and "failed: step failed:
// STEP: WHY".
func parseEnd(text string) (reason EndReason, step, why string) {
	word, rest, _ := strings.Cut(text, ": ")
	switch EndReason(word) {
	case Done, Interrupted:
		return EndReason(word), "", rest
	case Broken:
		if step, why, ok := strings.Cut(strings.TrimPrefix(rest, "step failed: "), ": "); ok && strings.HasPrefix(rest, "step failed: ") {
			return Broken, step, why
		}
		return Broken, "", rest
	}
	return "", "", text // killed before the text was there
}

// parseDeath reads whose memory limit the first line says that a process was killed at.
func parseDeath(text string) MemoryLimit {
	how, _, _ := strings.Cut(text, "\n")
	for _, c := range []struct {
		says string
		is   MemoryLimit
	}{
		{"killed at its memory limit", OwnLimit}, {"killed at the memory limit of the plane", PlaneLimit}, {"killed at a memory limit, its own or that of the plane", EitherLimit},
	} {
		if strings.Contains(how, c.says) {
			return c.is
		}
	}
	return ""
}

// parseLoad reads "COUNT RATE" and "COUNT closed N".
func parseLoad(text string) (d Detail) {
	count, rest, _ := strings.Cut(text, " ")
	d.Count, _ = strconv.Atoi(count)
	if n, ok := strings.CutPrefix(rest, "closed "); ok {
		d.Parallel, _ = strconv.Atoi(n)
		return d
	}
	if v, err := strconv.ParseFloat(rest, 64); err == nil && v > 0 && v < 1e15 {
		d.Rate = v
	}
	return d
}
