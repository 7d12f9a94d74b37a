// Command load compares the load generator with a client-go worker pool: both
// create the same ConfigMaps on the same plane, each in a process of its own, by
// turns. It prints CPU per object, peak memory, rate and lateness of both, with
// ratios (above 1: windtunnel is better), and writes bench/out/load.json.
// `make bench-load` calls it; it is no part of windtunnel.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

// Result is what one side did in one turn.
type Result struct {
	Objects       int     `json:"objects"`
	Failed        int     `json:"failed"`
	Seconds       float64 `json:"seconds"`
	PerSecond     float64 `json:"objects_per_second"`
	CPUMs         float64 `json:"cpu_ms_per_object"`
	PeakRSS       uint64  `json:"peak_rss_bytes"`
	LateP999      float64 `json:"lateness_p999_seconds"`
	WithinFiveMs  float64 `json:"sent_within_5ms_share"`
	RequestedRate float64 `json:"requested_per_second"` // 0: as fast as it goes
}

// job is what a side is asked to do.
type job struct {
	kubeconfig, namespace string
	objects               int
	rate                  float64       // 0: as fast as it goes
	stop                  time.Duration // end then, whatever is left; 0: when all are made
	workers               int
	turns, large          int  // of a comparison
	json                  bool // JSON in place of protobuf, of windtunnel's side
}

func main() {
	binary := flag.String("bin", "bin/windtunnel", "the binary that boots the plane")
	out := flag.String("out", "bench/out/load.json", "where the figures go")
	side := flag.String("side", "", "internal: run one side")
	profile := flag.String("cpuprofile", "", "with -side: where a CPU profile of it goes")
	var j job
	flag.IntVar(&j.turns, "turns", 3, "turns of each side")
	flag.IntVar(&j.large, "large", 100_000, "ConfigMaps in the one turn of each side that is large; 0: none")
	flag.StringVar(&j.kubeconfig, "kubeconfig", "", "internal")
	flag.StringVar(&j.namespace, "namespace", "", "internal")
	flag.IntVar(&j.objects, "objects", 10_000, "ConfigMaps in each turn")
	flag.IntVar(&j.workers, "workers", 32, "calls in flight of both sides")
	flag.Float64Var(&j.rate, "rate", 0, "internal")
	flag.DurationVar(&j.stop, "stop", 0, "internal")
	flag.BoolVar(&j.json, "json", false, "with -side windtunnel: JSON both ways in place of protobuf")
	flag.Parse()
	var err error
	if *side != "" {
		err = runSide(*side, j, *profile)
	} else {
		err = compareSides(*binary, *out, j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runSide runs a side and prints its result as JSON.
func runSide(side string, j job, profile string) error {
	if profile != "" {
		file, err := os.Create(profile)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	run := map[string]func(job) (Result, error){"windtunnel": runWindtunnel, "client-go": clientGo}[side]
	r, err := run(j)
	if err != nil {
		return fmt.Errorf("%s: %w", side, err)
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return fmt.Errorf("own CPU: %w", err)
	}
	if r.Objects == 0 {
		r.Objects = j.objects
	}
	r.RequestedRate = j.rate
	r.PerSecond = float64(r.Objects) / r.Seconds
	r.CPUMs = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6 / float64(r.Objects)
	r.PeakRSS = uint64(u.Maxrss) << 10
	return json.NewEncoder(os.Stdout).Encode(r)
}

// compareSides boots a plane and lets both sides take turns on it: as fast as it
// goes, ours at 80 % of what that gave, both once with many objects, and ours
// with a million asked for, which are not waited for.
func compareSides(binary, out string, j job) error {
	config, end, err := bootPlane(binary)
	if err != nil {
		return err
	}
	defer end()
	j.kubeconfig = config
	sides := map[string][]Result{}
	var failed error
	turn := func(name string, j job) {
		if failed == nil {
			failed = sidesTurn(sides, name, j)
		}
	}
	for range j.turns {
		turn("client-go", j)
		turn("windtunnel", j)
	}
	paced := j
	if failed == nil {
		paced.rate = 0.8 * medianOf(sides["windtunnel"], func(r Result) float64 { return r.PerSecond })
	}
	for range j.turns {
		turn("windtunnel at 80 %", paced)
	}
	if j.large > 0 {
		j.objects, paced.objects = j.large, j.large
		turn("client-go, many", j)
		turn("windtunnel, many", j)
		turn("windtunnel at 80 %, many", paced)
	}
	j.objects, j.stop = 1_000_000, 10*time.Second
	turn("windtunnel, a million asked for", j)
	return errors.Join(failed, writeResults(out, sides))
}

// bootPlane starts a plane and returns the path of its kubeconfig, and what ends it.
func bootPlane(binary string) (config string, end func(), err error) {
	up := exec.Command(binary, "up")
	up.Stderr = os.Stderr
	said, err := up.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("boot a plane: %w", err)
	}
	if err := up.Start(); err != nil {
		return "", nil, fmt.Errorf("boot a plane: %w", err)
	}
	end = func() { _ = up.Process.Signal(os.Interrupt); _ = up.Wait() }
	line, err := bufio.NewReader(said).ReadString('\n')
	config, ok := strings.CutPrefix(strings.TrimSpace(line), "export KUBECONFIG=")
	if !ok {
		end()
		return "", nil, errors.Join(fmt.Errorf("boot a plane: it said %q", line), err)
	}
	return config, end, nil
}

// sidesTurn runs one turn of a side in a process of its own.
func sidesTurn(sides map[string][]Result, name string, j job) error {
	side, _, _ := strings.Cut(name, " ")
	side = strings.TrimSuffix(side, ",")
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("own executable: %w", err)
	}
	namespace := fmt.Sprintf("bench-%d", turnsOf(sides))
	cmd := exec.Command(self, "-side", side, "-kubeconfig", j.kubeconfig, "-namespace", namespace,
		"-objects", fmt.Sprint(j.objects), "-workers", fmt.Sprint(j.workers), "-rate", fmt.Sprint(j.rate), "-stop", j.stop.String())
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var r Result
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%-31s %7d  %6.0f/s  %.4f ms CPU an object  %5.1f MB  within 5 ms %.2f %%  failed %d\n",
		name, r.Objects, r.PerSecond, r.CPUMs, float64(r.PeakRSS)/1e6, 100*r.WithinFiveMs, r.Failed)
	sides[name] = append(sides[name], r)
	return nil
}

// turnsOf returns how many turns there were.
func turnsOf(sides map[string][]Result) (n int) {
	for _, rs := range sides {
		n += len(rs)
	}
	return n
}

func medianOf(rs []Result, of func(Result) float64) float64 {
	if len(rs) == 0 {
		return math.NaN()
	}
	values := make([]float64, 0, len(rs))
	for _, r := range rs {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// writeResults prints the ratios and keeps everything as JSON.
func writeResults(out string, sides map[string][]Result) error {
	peer, own := sides["client-go"], sides["windtunnel"]
	cpu := func(r Result) float64 { return r.CPUMs }
	rss := func(r Result) float64 { return float64(r.PeakRSS) }
	rate := func(r Result) float64 { return r.PerSecond }
	ratios := map[string]float64{
		"cpu_ms_per_object":  medianOf(peer, cpu) / medianOf(own, cpu),
		"peak_rss_bytes":     medianOf(peer, rss) / medianOf(own, rss),
		"objects_per_second": medianOf(own, rate) / medianOf(peer, rate),
	}
	if peer, own := sides["client-go, many"], sides["windtunnel, many"]; len(own) > 0 {
		ratios["cpu_ms_per_object_many"] = medianOf(peer, cpu) / medianOf(own, cpu)
		ratios["peak_rss_bytes_many"] = medianOf(peer, rss) / medianOf(own, rss)
	}
	if len(peer) == 0 || len(own) == 0 {
		return errors.New("no turns")
	}
	fmt.Printf("medians: CPU per object %.4f ms against client-go's %.4f: ratio %.2f; peak memory ratio %.2f\n",
		medianOf(own, cpu), medianOf(peer, cpu), ratios["cpu_ms_per_object"], ratios["peak_rss_bytes"])
	raw, err := json.MarshalIndent(map[string]any{"machine": usage.Machine(), "sides": sides, "ratios": ratios}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("keep figures: %w", err)
	}
	return os.WriteFile(out, append(raw, '\n'), 0o644)
}
