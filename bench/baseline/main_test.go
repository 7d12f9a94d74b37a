package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// output writes what go test -bench prints of one benchmark that is repeated.
func output(t *testing.T, cpu string, nanoseconds []float64, allocs int) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "goos: linux\ngoarch: amd64\npkg: example.org/p\ncpu: %s\n", cpu)
	for _, ns := range nanoseconds {
		fmt.Fprintf(&b, "BenchmarkX-2  \t 1000 \t %.1f ns/op \t 64 B/op \t %d allocs/op\n", ns, allocs)
	}
	path := filepath.Join(t.TempDir(), "bench.txt")
	repotest.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func TestJudge(t *testing.T) {
	steady := []float64{100, 101, 99, 100.5, 99.5, 100.2}
	twice := []float64{200, 202, 198, 201, 199, 200.4}
	for _, c := range []struct {
		name      string
		cpu       string
		times     []float64
		allocs    int
		alone     bool // the number of allocations is judged alone
		wantWorse []string
	}{
		{"alike", "one", steady, 3, false, nil},
		{"slower on the same CPU", "one", twice, 3, false, []string{"example.org/p.X-2"}},
		{"slower on another CPU", "two", twice, 3, false, nil},
		{"more allocations on another CPU", "two", steady, 4, false, []string{"example.org/p.X-2: 4 allocs/op, was 3"}},
		{"fewer allocations", "one", steady, 2, false, nil},
		{"slower where allocations are judged alone", "one", twice, 3, true, nil},
		{"more allocations, judged alone", "one", twice, 4, true, []string{"example.org/p.X-2: 4 allocs/op, was 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			got, err := judgeOutputs(&said, output(t, "one", steady, 3), output(t, c.cpu, c.times, c.allocs), bounds{0.25, 0.05}, c.alone)
			if err != nil || !slices.Equal(got, c.wantWorse) {
				t.Errorf("worse: %q, %v; want %q\n%s", got, err, c.wantWorse, &said)
			}
		})
	}
}

func TestJudgeNamesWhatItCannotRead(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.txt")
	repotest.NoError(t, os.WriteFile(empty, []byte("PASS\n"), 0o600))
	if _, err := judgeOutputs(&bytes.Buffer{}, empty, empty, bounds{}, false); err == nil || !strings.Contains(err.Error(), "empty.txt: no benchmark") {
		t.Error(err)
	}
}

// TestTheKeptOutputIsWhole holds that each benchmark of internal/ has as many repetitions
// in the kept output as a comparison needs.
func TestTheKeptOutputIsWhole(t *testing.T) {
	runs := repotest.Must(readRuns(filepath.Join(repotest.Root(t), "bench", "baseline", "baseline.txt"), false))(t)
	for _, r := range runs {
		if len(r.Judgement.Measures) != len(runs[0].Judgement.Measures) {
			t.Errorf("%s: %d benchmarks, the first has %d", r.Name, len(r.Judgement.Measures), len(runs[0].Judgement.Measures))
		}
	}
	if len(runs) < 6 {
		t.Errorf("%d repetitions: want 6", len(runs))
	}
}
