package journal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/journal"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

type stepError struct{ step string }

func (e stepError) Error() string           { return "step failed: " + e.step + ": no pods" }
func (e stepError) Failed() (string, error) { return e.step, errors.New("no pods") }

func TestEndsNameTheStepThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	w := repotest.Must(record.Create(path))(t)
	j := journal.Journal{Records: w, Clock: clock.Start()}
	failed := fmt.Errorf("all: %w", stepError{"fill"})
	j.StepEnded("all", failed)
	j.StepEnded("wait", errors.New("4 of 5"))
	j.RunEnded("remove", record.Broken, failed)
	j.RunEnded("remove", record.Broken, errors.New("etcd died"))
	j.RunEnded("remove", record.Interrupted, errors.New("interrupted"))
	j.RunEnded("", record.Done, nil)
	repotest.NoError(t, w.Close())
	var got []record.Event
	if _, err := record.Read(path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(e record.Event) { e.At = 0; got = append(got, e) }}
	}); err != nil {
		t.Fatal(err)
	}
	ended := func(step, text string, d record.Detail) record.Event {
		return record.Event{Type: record.EventRunEnded, Name: step, Text: text, Detail: d}
	}
	want := []record.Event{
		{Type: record.EventStepEnded, Name: "all", Text: "all: step failed: fill: no pods", Detail: record.Detail{Step: "fill"}},
		{Type: record.EventStepEnded, Name: "wait", Text: "4 of 5"},
		ended("remove", "no pods", record.Detail{Reason: record.Broken, Step: "fill"}),
		ended("remove", "etcd died", record.Detail{Reason: record.Broken}),
		ended("remove", "", record.Detail{Reason: record.Interrupted}),
		ended("", "", record.Detail{Reason: record.Done}),
	}
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
