// Command leader measures what it costs to lead workers: the streams of many are
// brought to one leader at a rate of calls each, by a process that simulates them, and
// the leader's own CPU and memory are read. The bytes are those of real records, with
// their checksums; the calls in them are invented.
//
//	go run ./bench/leader -workers 100 -rate 10000 -for 20s
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
)

func main() {
	var s setting
	flag.IntVar(&s.Workers, "workers", 100, "how many workers")
	flag.IntVar(&s.Rate, "rate", 10_000, "calls a second of each")
	flag.DurationVar(&s.For, "for", 20*time.Second, "for how long")
	out := flag.String("out", "bench/out/leader.json", "`file` for the figures")
	simulated := flag.String("simulate", "", "be the workers of the leader that this `file` names")
	flag.Parse()
	var err error
	if *simulated != "" {
		err = simulateWorkers(*simulated, s)
	} else {
		err = measureLeader(s, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// setting is what is measured.
type setting struct {
	Workers int           `json:"workers"`
	Rate    int           `json:"calls_per_second_each"`
	For     time.Duration `json:"for_ns"`
}

// figures are what it cost.
type figures struct {
	setting
	Machine       record.Machine `json:"machine"`
	CallBytes     float64        `json:"bytes_per_call"`
	BytesASecond  float64        `json:"bytes_per_second"`
	CallsASecond  float64        `json:"calls_per_second"`
	Cores         float64        `json:"leader_cores"`
	MicrosACall   float64        `json:"leader_cpu_us_per_call"`
	PeakRSS       int64          `json:"leader_peak_rss_bytes"`
	BehindSeconds float64        `json:"behind_seconds"` // how long after the end the last record came
}

// measureLeader leads workers that another process simulates.
func measureLeader(s setting, out string) error {
	folder, err := os.MkdirTemp("", "windtunnel-bench-leader-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	c := clock.Start()
	stand := &standing{all: map[int]load.Tally{}}
	leader, err := protocol.Lead(protocol.Options{Workers: s.Workers, Clock: c, Folder: folder, Plan: []byte("{}"), Progress: stand.setWorker})
	if err != nil {
		return err
	}
	defer leader.Close()
	summing, stop := context.WithCancel(context.Background())
	defer stop()
	go stand.sumEverySecond(summing)
	all := make([]protocol.Access, s.Workers)
	for i := range all {
		all[i] = leader.Access(i)
	}
	access, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "access.json"), access, 0o600)
	}
	if err != nil {
		return err
	}
	before, begun := process.OwnCPU().Seconds(), c.Now()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "-simulate", filepath.Join(folder, "access.json"),
		"-workers", strconv.Itoa(s.Workers), "-rate", strconv.Itoa(s.Rate), "-for", s.For.String())
	child.Stderr = os.Stderr
	said, err := child.Output()
	if err != nil {
		return fmt.Errorf("simulate workers: %w", err)
	}
	took := c.Now().Sub(begun).Seconds()
	used := process.OwnCPU().Seconds() - before
	var sent struct {
		Calls, Bytes int64
		Behind       float64
	}
	if err := json.Unmarshal(said, &sent); err != nil {
		return fmt.Errorf("read what was simulated: %w", err)
	}
	if err := requireAllBytes(leader, s.Workers, sent.Bytes); err != nil {
		return err
	}
	if told := stand.countWorkers(); told != s.Workers {
		return fmt.Errorf("%d of %d workers said where they stand", told, s.Workers)
	}
	own, err := usage.Of(os.Getpid())
	if err != nil {
		return err
	}
	f := figures{
		setting: s, Machine: record.Machine{Cores: runtime.NumCPU()}, CallBytes: float64(sent.Bytes) / float64(sent.Calls), BytesASecond: float64(sent.Bytes) / took,
		CallsASecond: float64(sent.Calls) / took, Cores: used / took, MicrosACall: 1e6 * used / float64(sent.Calls), PeakRSS: int64(own.Peak), BehindSeconds: sent.Behind,
	}
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	fmt.Println(string(raw))
	return os.WriteFile(out, append(raw, '\n'), 0o644)
}

// standing is where the workers stand, as a run's status line and abortOn ask for it.
type standing struct {
	mu  sync.Mutex
	all map[int]load.Tally
}

func (s *standing) setWorker(worker int, said json.RawMessage) {
	var p struct {
		Load load.Tally `json:"load"`
	}
	if json.Unmarshal(said, &p) != nil {
		return // it is missed by workers
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[worker] = p.Load
}

// sumEverySecond adds them up each second until ctx ends.
func (s *standing) sumEverySecond(ctx context.Context) {
	for clock.Sleep(ctx, time.Second) == nil {
		s.mu.Lock()
		load.Sum(slices.Collect(maps.Values(s.all)))
		s.mu.Unlock()
	}
}

// countWorkers is how many have said where they stand.
func (s *standing) countWorkers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// requireAllBytes sees to it that the leader has every byte.
func requireAllBytes(leader *protocol.Leader, n int, want int64) error {
	var have int64
	for i := range n {
		info, err := os.Stat(leader.File(i))
		if err != nil {
			return err
		}
		have += info.Size()
	}
	if have != want {
		return fmt.Errorf("the leader has %d bytes of %d", have, want)
	}
	return nil
}

var errAnswer = errors.New("the leader did not take it")
