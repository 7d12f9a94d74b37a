package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A second ab or search in one folder ends with a sentence, and touches nothing there.
func TestOneExperimentAtATime(t *testing.T) {
	folder := t.TempDir()
	x, _ := abArms(t, folder, &abFlights{})
	half := record.Dir(x.runDir(turn{0, 0})) // the first one's run under way
	repotest.NoError(t, os.MkdirAll(string(half), 0o700))
	repotest.NoError(t, half.Write(record.ManifestFile, []byte("{}")))
	unlock := repotest.Must(lockFolder(x.out))(t)
	if err := x.flyTurns(t.Context(), &compareFlags{}); !errors.Is(err, record.ErrBusy) || !strings.Contains(err.Error(), "wait for it, or give another --out") {
		t.Errorf("ab: %v", err)
	}
	s := &searching{out: x.out, env: x.env}
	if err := s.flySearch(t.Context(), "text"); !errors.Is(err, record.ErrBusy) {
		t.Errorf("search: %v", err)
	}
	if _, err := half.Read(record.ManifestFile); err != nil {
		t.Error(err)
	}
	unlock()
	flying := repotest.Must(half.Lock())(t)
	defer flying()
	if err := moveAside(string(half)); !errors.Is(err, record.ErrBusy) {
		t.Errorf("a run under way is moved: %v", err)
	}
}

// Builds that end at the same time lose none of their entries.
func TestHistoriesAreAddedTo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.json")
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			r := compare.Run{Name: fmt.Sprint(i)}
			r.Manifest.Scenario, r.Manifest.Started = "small", time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)
			h := &historian{file: file, keep: history.DefaultKeep}
			if _, err := h.addRuns(t.Context(), []compare.Run{r}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	f, err := (&historian{file: file}).readFile()
	if err != nil || len(f.Entries) != 20 {
		t.Errorf("%d entries, %v", len(f.Entries), err)
	}
}
