package publish_test

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const scenarioText = `scenario: small
parameters: {limiter: 5}
bodies:
  pod:
    text: "{apiVersion: v1, kind: Pod, metadata: {name: x}}"
steps:
- name: fill
  create: {body: pod, count: 20, pace: {constant: 1000}}
objectives:
- {name: calls, sli: call-latency, labels: {step: fill}, statistic: p50, max: 0.1}
`

// flown is one run that is made up.
type flown struct {
	side     int  // of the parameter limiter: 5 or 10
	same     bool // the parameter is 5 on both sides
	pair     int
	order    int // of its start, in minutes
	latency  time.Duration
	calls    int
	kill     bool          // its records have no end
	busy     bool          // others used the machine
	length   time.Duration // default 10 s
	address  string        // in the text of an event
	fsync    bool
	measured bool   // what others used
	cpu      string // of the machine; default: one
	release  string // of Kubernetes; empty: not told
	sum      string // of windtunnel's executable; empty: not told
	plane    *record.BuildFact
}

// write makes the run directory.
func (f flown) write(t testing.TB, path string) {
	t.Helper()
	d := repotest.Must(record.CreateDir(path))(t)
	repotest.NoError(t, os.WriteFile(d.File(record.ScenarioFile), []byte(scenarioText), 0o600))
	limiter := 5 * (1 + f.side)
	if f.same {
		limiter = 5
	}
	m := record.Manifest{
		Format: record.Format, Scenario: "small", File: "small.yaml", Seed: uint64(1 + f.pair), Parameters: map[string]any{"limiter": limiter},
		Command: []string{"/home/jane/bin/windtunnel", "ab"}, Started: time.Date(2026, 1, 2, 3, f.order, 0, 0, time.UTC),
		Machine: record.Machine{Cores: 2, CPU: "one", MemoryBytes: 8 << 30, Arch: "amd64"},
	}
	m.Machine.CPU = cmp.Or(f.cpu, m.Machine.CPU)
	if f.release != "" {
		m.Versions = map[string]string{"kubernetes": f.release, "windtunnel": "v1"}
	}
	m.SHA256 = f.sum
	if f.fsync {
		m.Plane = record.PlaneFacts{Kind: "embedded", Durability: "fsync", Components: []record.ComponentFact{{Name: "etcd"}}}
	}
	m.Plane.Build = f.plane
	raw := repotest.Must(json.Marshal(m))(t)
	repotest.NoError(t, os.WriteFile(d.File(record.ManifestFile), raw, 0o600))
	repotest.NoError(t, os.WriteFile(d.File("logs/etcd.log"), []byte("a log of 10.1.2.3\n"), 0o600))
	repotest.NoError(t, os.WriteFile(d.File(record.StreamFile), f.stream(), 0o600))
}

// stream are the records of the run.
func (f flown) stream() []byte {
	b := &recordtest.Block{}
	b.Event(0, "run-begin", "small", "").Event(0, "step-begin", "fill", "")
	b.Kind(recordtest.Op).Text("load", "fill", "create", "pods", "", "resource")
	const step = int64(time.Millisecond)
	calls := int64(max(f.calls, 20))
	for i := range calls {
		after := step
		if i == 0 {
			after = 0
		}
		b.Kind(recordtest.Call).Uint(0).Int(after, 1000, int64(f.latency)-1000+i).Uint(201<<2, 0, 0, 0)
	}
	length := int64(max(f.length, 10*time.Second))
	if f.measured {
		user := 0.3 // all of it the plane's
		if f.busy {
			user = 0.8
		}
		const series = 3
		for _, s := range [][3]string{{"windtunnel", "host_cpu_seconds_total", "idle"}, {"windtunnel", "host_cpu_seconds_total", "user"}, {"etcd", "process_cpu_seconds_total", "all"}} {
			b.Kind(series).Text(s[0], s[1]).Uint(1).Text("mode", s[2])
		}
		const sample = 7
		for i := range uint64(3) {
			b.Kind(sample).Uint(i).Int(0).Float(10)
		}
		b.Event(length/2, "warning", "", "no answer from "+f.address)
		for i, used := range []float64{1 - user, user, 0.3} {
			b.Kind(sample).Uint(uint64(i)).Int(0).Float(10 + used)
		}
	} else {
		b.Event(length/2, "warning", "", "no answer from "+f.address)
	}
	if !f.kill {
		b.Event(0, "step-end", "fill", "").Kind(recordtest.Event).Int(length/2).Text("run-end", "", "", `{"reason":"done"}`)
	}
	return recordtest.Stream(b)
}

// experiment makes so many pairs of runs and their comparison, as the verb ab does.
func experiment(t testing.TB, pairs int, edit func(f *flown)) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "ab")
	var sides [2][]compare.Run
	for pair := range pairs {
		for i := range 2 {
			f := flown{side: (pair + i) % 2, pair: pair, order: 2*pair + i, calls: 20, address: "10.1.2.3", fsync: true}
			f.latency = time.Duration(10+3*f.side) * time.Millisecond * time.Duration(100+pair%3) / 100
			if edit != nil {
				edit(&f)
			}
			path := filepath.Join(folder, fmt.Sprintf("%c-%02d", "ab"[f.side], pair+1))
			f.write(t, path)
			r := repotest.Must(compare.Open(path))(t)
			sides[f.side] = append(sides[f.side], r)
		}
	}
	c, err := compare.Compare(sides[0], sides[1], compare.Options{NameA: "limiter=5", NameB: "limiter=10", Asked: []string{"parameter limiter"}, Seed: 1})
	repotest.NoError(t, err)
	var out bytes.Buffer
	repotest.NoError(t, c.JSON(&out))
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, publish.ComparisonFile), out.Bytes(), 0o600))
	return folder
}

// signer is a key that is made of a word.
func signer(t testing.TB, word string) ssh.Signer {
	t.Helper()
	seed := sha256.Sum256([]byte(word))
	return repotest.Must(ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed[:])))(t)
}

const claimsText = `claims:
- {says: Calls end within 11 ms, measure: call_latency_p50_seconds_fill, of: A, max: 11ms}
- {says: B is slower by a quarter or more, measure: call_latency_p50_seconds_fill, of: change, min: 25%}
`

// made publishes an experiment.
func made(t testing.TB, o publish.Options) []byte {
	t.Helper()
	var out bytes.Buffer
	r := repotest.Must(publish.Make(t.Context(), &out, o))(t)
	if out.Len() == 0 {
		t.Fatalf("nothing was written: %+v", r.Claims)
	}
	return out.Bytes()
}

// verify checks the bytes of a bundle.
func verify(t testing.TB, raw []byte, madeBy string, signers ...ssh.Signer) *publish.Verification {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.wtb")
	repotest.NoError(t, os.WriteFile(path, raw, 0o600))
	var keys []string
	for _, s := range signers {
		keys = append(keys, ssh.FingerprintSHA256(s.PublicKey()))
	}
	return repotest.Must(publish.Verify(t.Context(), path, keys, madeBy))(t)
}
