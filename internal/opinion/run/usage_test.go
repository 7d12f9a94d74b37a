package run

import (
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A process that uses both of two cores all the time is sampled late once, and in a
// hurry after that: its peak stays what it is.
func TestPeakCPU(t *testing.T) {
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	w.Event(record.Event{At: at(1), Type: record.EventRunBegan})
	id := w.Series(record.Series{Target: "etcd", Name: CPUSeries})
	idle := w.Series(record.Series{Target: "idle", Name: CPUSeries})
	for _, s := range [][2]float64{{1, 2}, {2, 4}, {3.3, 6}, {4, 8}, {4.1, 8.2}, {4.2, 8.4}, {5, 10}, {6, 12}} {
		w.Sample(record.Sample{Series: id, At: at(s[0]), Value: s[1]})
		w.Sample(record.Sample{Series: idle, At: at(s[0]), Value: s[1] / 10})
	}
	w.Event(record.Event{At: at(6), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
	repotest.NoError(t, w.Close())
	f := repotest.Must(Collect(path, record.Manifest{}))(t)
	if got := f.PeakCPU("etcd", 2); got != 2 {
		t.Errorf("peak %v of 2 cores", got)
	}
	if got := f.PeakCPU("idle", 2); got < 0.2 || got > 0.27 {
		t.Errorf("peak %v where 0.2 were used, 0.29 over the shortest time", got)
	}
	if got := f.PeakCPU("nobody", 2); got != 0 {
		t.Errorf("peak %v of nobody", got)
	}
}

// What a process used is not known of a run that has no samples of its own: the rise
// from a sample before it would be divided by less time than it was used in.
func TestCPUSecondsAreKnown(t *testing.T) {
	for what, c := range map[string]struct {
		began, ended float64 // 0: never
		samples      []float64
		seconds      float64
		known        bool
	}{
		"sampled":                {began: 2, ended: 5, samples: []float64{1, 2, 3, 4, 5}, seconds: 3, known: true},
		"shorter than a sample":  {began: 2.5, ended: 3.1, samples: []float64{1, 2, 3}},
		"never began":            {ended: 5, samples: []float64{1, 2, 3, 4}},
		"one sample":             {began: 2, ended: 5, samples: []float64{4}},
		"not sampled in the run": {began: 2, ended: 5, samples: []float64{0.5, 1.5}},
	} {
		path := filepath.Join(t.TempDir(), record.StreamFile)
		w := repotest.Must(record.Create(path))(t)
		id := w.Series(record.Series{Target: "etcd", Name: CPUSeries})
		if c.began > 0 {
			w.Event(record.Event{At: at(c.began), Type: record.EventRunBegan})
		}
		for _, s := range c.samples {
			w.Sample(record.Sample{Series: id, At: at(s), Value: s})
		}
		w.Event(record.Event{At: at(c.ended), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
		repotest.NoError(t, w.Close())
		f := repotest.Must(Collect(path, record.Manifest{}))(t)
		if seconds, known := f.CPUSeconds("etcd"); seconds != c.seconds || known != c.known {
			t.Errorf("%s: %v, %v", what, seconds, known)
		}
	}
}
