package usage_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
)

func TestAComponentThatWasStartedAgainIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	w, err := record.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	gone := 1 << 30 // no process has such a number
	s := usage.New(w, clock.Start(), []usage.Process{{Name: "etcd", PID: gone}}, usage.Options{})
	s.Sample()
	s.Follow(usage.Process{Name: "etcd", PID: os.Getpid()})
	s.Sample()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	samples, warnings := 0, 0
	_, err = record.Read(path, func(stream *record.Stream) record.Visitor {
		return record.Visitor{
			Sample: func(v record.Sample) {
				if stream.Series[v.Series].Target == "etcd" {
					samples++
				}
			},
			Event: func(m record.Event) {
				if m.Type == record.EventWarned {
					warnings++
				}
			},
		}
	})
	if err != nil || samples == 0 || warnings != 1 {
		t.Errorf("%d samples and %d warnings, %v", samples, warnings, err)
	}
}
