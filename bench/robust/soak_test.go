package robust_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// soaked keeps a plane at a steady load for long: nodes that renew leases, pods that
// come and go, reads, writes, watches that end and begin, and programs that are
// called.
const soaked = `scenario: soaked
fleet: {nodes: 50}
namespaces: {count: 2}
preflight: {wait: 100ms, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread]}
bodies:
  pod: {text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}', labels: {app: x}}, spec: {containers: [{name: c, image: none}]}}"}
  patch: {text: "{metadata: {annotations: {a: '{{ payload 50 }}'}}}"}
groups: [{name: all, selector: app=x}]
failedCalls: ignore
steps:
- name: pods
  create: {body: pod, count: 200, pace: {constant: 50}}
- name: steady
  parallel:
  - name: calls
    requests:
      for: %[1]s
      pace: {constant: 40}
      mix:
      - {verb: get, of: pods}
      - {verb: list, resource: pods}
      - {verb: watch, resource: pods, hold: 2s, weight: 0.1}
      - {verb: patch, resource: nodes, name: no-such-node, body: patch}
  - name: come-and-go
    churn: {step: pods, percent: 5, for: %[1]s, delay: 1s, pace: {constant: 10}}
  - repeat:
      times: %[2]d
      steps:
      - {name: hook, exec: {command: [sh, -c, "exit 0"]}}
      - pause: 5s
`

// What the last quarter of a soak may have more of than the second: pods that have come
// and gone have an entry each in the records' index.
const (
	moreMemory     = 0.10
	moreGoroutines = 0.10
	moreFiles      = 5
)

// TestSoak flies for an hour, or WINDTUNNEL_SOAK such as 10m: memory, goroutines and
// open files of windtunnel stay as they are.
func TestSoak(t *testing.T) {
	repotest.Robust(t)
	bin, dir, lasts := repotest.Binary(t), t.TempDir(), "1h"
	if text := os.Getenv("WINDTUNNEL_SOAK"); text != "" {
		lasts = text
	}
	length, err := time.ParseDuration(lasts)
	if err != nil {
		t.Fatalf("WINDTUNNEL_SOAK: %v", err)
	}
	file, out := filepath.Join(dir, "soaked.yaml"), filepath.Join(dir, "run")
	repotest.NoError(t, os.WriteFile(file, fmt.Appendf(nil, soaked, lasts, length/(5*time.Second)), 0o600))
	var said bytes.Buffer
	c := exec.Command(bin, "run", file, "--out", out)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); c.ProcessState.ExitCode() < 0 || c.ProcessState.ExitCode() > 2 {
		t.Fatalf("%v: %s", err, said.String())
	}
	steady := readSoak(t, filepath.Join(out, record.StreamFile))
	for _, of := range []struct {
		name        string
		share, more float64
	}{{usage.ResidentBytes, moreMemory, 0}, {usage.Goroutines, moreGoroutines, 0}, {usage.OpenFiles, 0, moreFiles}} {
		before, after := steady.median(of.name, 1), steady.median(of.name, 3)
		t.Logf("%s: %.0f in the second quarter, %.0f in the last", of.name, before, after)
		if before == 0 || after > before*(1+of.share)+of.more {
			t.Errorf("%s grew from %.0f to %.0f", of.name, before, after)
		}
	}
	t.Logf("%s: %d calls, %d pods that came", lasts, steady.calls, steady.pods)
}

// soak is what the records say of the steady time.
type soak struct {
	from, to    int64 // ns
	values      map[string][]sampled
	calls, pods int
}

type sampled struct {
	at int64
	v  float64
}

func readSoak(t *testing.T, records string) soak {
	t.Helper()
	out := soak{values: map[string][]sampled{}}
	_, err := record.Read(records, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Event: func(e record.Event) {
				switch {
				case e.Name == "calls" && e.Type == record.EventStepBegan:
					out.from = int64(e.At)
				case e.Name == "calls" && e.Type == record.EventStepEnded:
					out.to = int64(e.At)
				}
			},
			Call: func(record.Call) { out.calls++ },
			Phase: func(p record.Phase) {
				if p.Phase == record.PhaseCreated {
					out.pods++
				}
			},
			Sample: func(v record.Sample) {
				if of := s.Series[v.Series]; of.Target == usage.Self {
					out.values[of.Name] = append(out.values[of.Name], sampled{int64(v.At), v.Value})
				}
			},
		}
	})
	if err != nil || out.from == 0 || out.to <= out.from {
		t.Fatalf("the steady time is not there: %v", err)
	}
	return out
}

// median is that of a value in one of the four quarters of the steady time, by the
// second: only changes are recorded.
func (s soak) median(name string, quarter int64) float64 {
	var all []float64
	values, last := s.values[name], 0.0
	length := (s.to - s.from) / 4
	for at := s.from; at < s.from+(quarter+1)*length; at += int64(time.Second) {
		for len(values) > 0 && values[0].at <= at {
			last, values = values[0].v, values[1:]
		}
		if at >= s.from+quarter*length {
			all = append(all, last)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
