package usage_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestAComponentThatWasStartedAgainIsFollowed ends two components: the one that is started
// again has samples and no warning, which would say that they are missing.
func TestAComponentThatWasStartedAgainIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	w, err := record.Create(path)
	repotest.NoError(t, err)
	gone := 1 << 30 // no process has such a number
	s := usage.New(w, clock.Start(), []usage.Process{{Name: "etcd", PID: gone}, {Name: "scheduler", PID: gone}}, usage.Options{})
	s.Sample()
	s.Follow(usage.Process{Name: "etcd", PID: os.Getpid()})
	ended, end := context.WithCancel(t.Context())
	end()
	s.Run(ended)
	repotest.NoError(t, w.Close())
	samples, warned := 0, ""
	_, err = record.Read(path, func(stream *record.Stream) record.Visitor {
		return record.Visitor{
			Sample: func(v record.Sample) {
				if stream.Series[v.Series].Target == "etcd" {
					samples++
				}
			},
			Event: func(m record.Event) {
				if m.Type == record.EventWarned {
					warned += m.Name + ": " + m.Text
				}
			},
		}
	})
	const want = "scheduler: the CPU and memory of scheduler were not measured to the end: process 1073741824: the process has ended"
	if err != nil || samples == 0 || warned != want {
		t.Errorf("%d samples, warned %q, %v", samples, warned, err)
	}
}
