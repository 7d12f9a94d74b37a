package inventory

import (
	"testing"
	"time"
)

// TestFreshDefinitions: creations are slow for two seconds from the second in which a
// definition was established.
func TestFreshDefinitions(t *testing.T) {
	at := time.Date(2026, 11, 26, 5, 0, 10, 0, time.UTC)
	established := `{"status":{"conditions":[{"type":"NamesAccepted","status":"True","lastTransitionTime":"2026-11-26T05:00:10Z"},
		{"type":"Established","status":"True","lastTransitionTime":"2026-11-26T05:00:10Z"}]}}`
	for _, c := range []struct {
		name, definition string
		after, want      time.Duration
	}{
		{"just now", established, 0, 2 * time.Second},
		{"half a second later", established, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"old", established, 2 * time.Second, 0},
		{"years old", established, 3e5 * time.Hour, 0},
		{"by a clock that is ahead", established, -time.Hour, 2 * time.Second},
		{"not established", `{"status":{"conditions":[{"type":"Established","status":"False","lastTransitionTime":"2026-11-26T05:00:10Z"}]}}`, 0, 0},
		{"without conditions", `{}`, 0, 0},
		{"no JSON", `<html>`, 0, 0},
	} {
		if got := FreshTime([]byte(c.definition), at.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
