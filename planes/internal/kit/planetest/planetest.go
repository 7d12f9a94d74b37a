// Package planetest is what the tests of all planes stand on: hollow clusters, processes
// of a plane within the test or as children that can be killed, calls that are counted,
// held or lost, logs that can be read, and waits that a watch wakes.
//
// It knows no plane. What a plane's objects look like is the plane's own rig.
package planetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
)

// Start runs a process of a plane until the test ends. The function returned ends it
// before that, and waits; an error of the process fails the test, unless it is that it was
// ended.
func Start(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Each runs a test for each of some cases, all at the same time.
func Each[T any](t *testing.T, cases map[string]T, test func(t *testing.T, name string, c T)) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, c)
		})
	}
}

// Log returns a log that is part of the test's output.
func Log(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// Quiet returns a log that nobody reads.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// WriteKubeconfig writes the kubeconfig of a cluster into a folder of the test and returns
// its name.
func WriteKubeconfig(t testing.TB, e endpoint.Endpoint) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, e.WriteKubeconfig(file))
	return file
}

// Differences asks a process in what its two sides differ.
func Differences(t testing.TB, check http.Handler) (count int, first []agree.Difference) {
	t.Helper()
	w := httptest.NewRecorder()
	check.ServeHTTP(w, httptest.NewRequest(http.MethodGet, agree.Path, nil))
	var out agree.Answer
	repotest.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	return out.Count, out.First
}

// AwaitAgreement waits until a process finds no difference.
func AwaitAgreement(t testing.TB, check http.Handler) {
	t.Helper()
	var first []agree.Difference
	repotest.Eventually(t, "both sides have the same", func() bool {
		var n int
		n, first = Differences(t, check)
		return n == 0
	}, func() any { return first[:min(len(first), 5)] })
}

// Lines is a log that a test reads while it is written.
type Lines struct {
	Also io.Writer // gets all of it too, unless it is nil

	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Also != nil {
		_, _ = l.Also.Write(b)
	}
	return l.text.Write(b)
}

// String returns what was written.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Has reports whether one line has all of some words.
func (l *Lines) Has(words ...string) bool {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}
