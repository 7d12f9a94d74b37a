// Command hollow measures what hollow clusters take, beside a kube-apiserver with
// its etcd and beside client-go's fake: memory of clusters, connections and
// objects, CPU of creates and of events for each watcher, the time to the first
// answer. Servers and clients are processes of their own, but the fake. It prints a
// table with the bounds that hollow clusters are to keep, and writes
// bench/out/hollow.json. `make bench-hollow` calls it; it is no part of windtunnel.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/internal/text"
)

// The sides.
const (
	sideHollow = "hollow"
	sidePair   = "kube-apiserver and etcd"
	sideFake   = "client-go fake"
)

func main() {
	var w work
	binary := flag.String("bin", "bin/windtunnel", "windtunnel, with kube-plane beside it; empty: without that side")
	out := flag.String("out", "bench/out/hollow.json", "file for the figures")
	alone := flag.Bool("alone", false, "without the other sides")
	clusters := flag.Int("serve", 0, "internal")
	side := flag.String("side", "", "internal")
	flag.IntVar(&w.objects, "objects", 20_000, "pods that are created for a figure")
	flag.IntVar(&w.watchers, "watchers", 100, "watches of one resource, each on a connection of its own")
	flag.IntVar(&w.events, "events", 1000, "that each of them gets")
	flag.Float64Var(&w.rate, "rate", 100, "of events per second")
	flag.IntVar(&w.clusters, "clusters", 100, "idle ones whose clients are measured")
	flag.IntVar(&w.many, "many", 2000, "clusters in one process")
	var g great
	flag.IntVar(&g.nodes, "nodes", 0, "fly so many nodes over hollow clusters in place of all else")
	flag.IntVar(&g.clusters, "over", 20, "clusters that -nodes are spread over")
	flag.DurationVar(&g.heartbeats, "heartbeats", 0, "how often leases of -nodes are renewed")
	flag.DurationVar(&g.hold, "for", 5*time.Minute, "how long -nodes are kept")
	flag.Parse()
	var err error
	switch {
	case *alone:
		err = byItself(context.Background(), w)
	case *clusters > 0:
		err = serveClusters(*clusters, hollow.Options{Models: hollow.Models{Heartbeats: g.heartbeats}})
	case g.nodes > 0:
		err = g.flyClusters(context.Background())
	case *side != "":
		err = measureOne(context.Background(), *side, w)
	default:
		err = compareSides(context.Background(), *binary, *out, w)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measureOne measures what wants a process of its own, and prints its figures as JSON.
func measureOne(ctx context.Context, side string, w work) error {
	var f Figures
	var err error
	switch side {
	case "start-hollow":
		f, err = measureStart(ctx, startHollow)
	case "fake":
		f, err = inProcess(ctx, w)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// byItself measures hollow clusters alone.
func byItself(ctx context.Context, w work) error {
	f, err := measureHollow(ctx, w)
	if err != nil {
		return err
	}
	printTable(map[string]Figures{sideHollow: f})
	return nil
}

// compareSides measures all sides.
func compareSides(ctx context.Context, binary, out string, w work) error {
	sides := map[string]Figures{}
	f, err := measureHollow(ctx, w)
	if err != nil {
		return fmt.Errorf("hollow clusters: %w", err)
	}
	sides[sideHollow] = f
	printTable(sides) // the others take their time
	var other Figures
	if err := inOwnProcess("fake", &other, "-objects", fmt.Sprint(w.objects), "-watchers", fmt.Sprint(w.watchers), "-events", fmt.Sprint(w.events)); err != nil {
		return err
	}
	sides[sideFake] = other
	printTable(sides)
	if binary != "" {
		if sides[sidePair], err = measurePair(ctx, w, binary); err != nil {
			return fmt.Errorf("kube-apiserver and etcd: %w", err)
		}
	}
	printTable(sides)
	return writeJSON(out, sides)
}

// row is a figure of the table: how it is read, and its bound for hollow clusters.
type row struct {
	name, key string
	bound     float64 // 0: none
	of        func(Figures) float64
	unit      string
	by        float64 // of the unit
}

func tableRows() []row {
	return []row{
		{"first answer of a new cluster in a Go test, median", "first_answer_seconds", 0.005, func(f Figures) float64 { return f.Start }, "ms", 1e3},
		{"the process's first", "first_answer_worst_seconds", 0, func(f Figures) float64 { return f.StartWorst }, "ms", 1e3},
		{"idle cluster, one client with 7 watches", "idle_bytes_one_client", 0.3e6, func(f Figures) float64 { return f.Idle1 }, "kB", 1e-3},
		{"with three such clients", "idle_bytes_three_clients", 1e6, func(f Figures) float64 { return f.Idle3 }, "kB", 1e-3},
		{"many clusters in a process: ready", "ready_seconds", 2, func(f Figures) float64 { return f.ManyReady }, "s", 1},
		{"its memory, resident", "peak_rss_bytes", 1e9, func(f Figures) float64 { return f.ManyBytes }, "MB", 1e-6},
		{"its memory with 7 watches in each", "peak_rss_bytes_with_watches", 1e9, func(f Figures) float64 { return f.ManyWatched }, "MB", 1e-6},
		{"a pod in protobuf", "bytes_encoded_an_object", 0, func(f Figures) float64 { return f.Encoded }, "B", 1},
		{"memory of a pod beyond that", "bytes_overhead_an_object", 600, func(f Figures) float64 { return f.Overhead }, "B", 1},
		{"create in protobuf, CPU", "cpu_us_create_protobuf", 60, func(f Figures) float64 { return f.CreateProto }, "us", 1},
		{"create in JSON, CPU", "cpu_us_create_json", 60, func(f Figures) float64 { return f.CreateJSON }, "us", 1},
		{"event in protobuf, CPU for each watcher", "cpu_us_event_protobuf", 5, func(f Figures) float64 { return f.WatchProto }, "us", 1},
		{"event in JSON, CPU for each watcher", "cpu_us_event_json", 5, func(f Figures) float64 { return f.WatchJSON }, "us", 1},
		{"event of a burst, CPU for each watcher", "cpu_us_event_burst_protobuf", 5, func(f Figures) float64 { return f.WatchBurst }, "us", 1},
	}
}

// printTable prints all sides beside each other.
func printTable(sides map[string]Figures) {
	table := text.Table{Head: []string{"", "bound", sideHollow, sidePair, sideFake}, Left: 1}
	for _, r := range tableRows() {
		line := []string{r.name, ""}
		if r.bound > 0 {
			line[1] = fmt.Sprintf("%.5g %s", r.bound*r.by, r.unit)
		}
		for _, side := range []string{sideHollow, sidePair, sideFake} {
			f, there := sides[side]
			cell := ""
			if v := r.of(f); there && v != 0 {
				cell = fmt.Sprintf("%.4g %s", v*r.by, r.unit)
			}
			line = append(line, cell)
		}
		table.Rows = append(table.Rows, line)
	}
	var b strings.Builder
	table.Text(&b)
	fmt.Print(b.String())
}

// writeJSON keeps figures and ratios as JSON.
func writeJSON(out string, sides map[string]Figures) error {
	ratios := map[string]map[string]float64{}
	for _, r := range tableRows() {
		own := r.of(sides[sideHollow])
		for _, peer := range []string{sidePair, sideFake} {
			if v := r.of(sides[peer]); v != 0 && own != 0 {
				if ratios[peer] == nil {
					ratios[peer] = map[string]float64{}
				}
				ratios[peer][r.key] = v / own
			}
		}
	}
	raw, err := json.MarshalIndent(map[string]any{"machine": usage.Machine(), "sides": sides, "ratios": ratios}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("keep figures: %w", err)
	}
	return os.WriteFile(out, append(raw, '\n'), 0o644)
}
