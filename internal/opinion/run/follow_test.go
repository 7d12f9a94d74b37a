package run_test

import (
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What a follower has read at the end is what Open reads, however often it has
// looked before.
func TestFollowerSeesWhatOpenSees(t *testing.T) {
	d, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 4000, Asked: 30, Rate: 60, Machines: 40})
	repotest.NoError(t, err)
	raw := repotest.Must(os.ReadFile(d.File(record.StreamFile)))(t)
	grow := func(share float64) {
		t.Helper()
		repotest.NoError(t, os.WriteFile(d.File(record.StreamFile), raw[:int(share*float64(len(raw)))], 0o600))
	}
	grow(0.1)
	f := repotest.Must(run.Follow(string(d)))(t)
	var got *run.Run
	last := 0
	for _, share := range []float64{0.1, 0.2, 0.2, 0.55, 0.9, 1} {
		grow(share)
		if got, err = f.Next(); err != nil {
			t.Fatal(err)
		}
		if n := len(got.Facts.Events); n < last || share < 1 && got.Facts.Ended.Reason != "" {
			t.Errorf("%v of the records: %d events after %d, %+v", share, n, last, got.Facts.Ended)
		}
		last = len(got.Facts.Events)
		if share == 0.55 { // statistics sort what is there
			for _, c := range got.Facts.Calls {
				c.Latency.Quantile(0.99)
			}
		}
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	want := reporttest.Read(t, d, m)
	for what, pair := range map[string][2]any{
		"steps": {got.Facts.Steps, want.Facts.Steps}, "events": {got.Facts.Events, want.Facts.Events}, "heat": {got.Facts.Heat, want.Facts.Heat},
		"due": {got.Facts.Timeline.Due, want.Facts.Timeline.Due}, "open": {got.Facts.Timeline.Open(), want.Facts.Timeline.Open()},
		"waiting": {got.Facts.Waiting, want.Facts.Waiting}, "span": {[]any{got.Facts.First, got.Facts.Last, got.Facts.Begin, got.Facts.End}, []any{want.Facts.First, want.Facts.Last, want.Facts.Begin, want.Facts.End}},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: followed %+v, read %+v", what, pair[0], pair[1])
		}
	}
	a := repotest.Must(slo.Judge(got))(t)
	b, err := slo.Judge(want)
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("two judgements, %v:\n%+v\n%+v", err, a, b)
	}
}

func TestFollowerOfNothing(t *testing.T) {
	d, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 10})
	repotest.NoError(t, err)
	repotest.NoError(t, d.WriteJSON(record.ManifestFile, m))
	repotest.NoError(t, os.WriteFile(d.File(record.StreamFile), []byte("win"), 0o600))
	if _, err := run.Follow(string(d)); !errors.Is(err, record.ErrNotRecords) {
		t.Errorf("half a header: %v", err)
	}
	repotest.NoError(t, os.Remove(d.File(record.StreamFile)))
	if _, err := run.Follow(string(d)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no records: %v", err)
	}
	if _, err := run.Open(string(d)); err == nil {
		t.Error("a directory without records was opened")
	}
}
