// Command fleet compares windtunnel's fleet with the kwok controller. Both are a
// process that is given a kubeconfig, the same stages and the same flags, and
// manages nodes that this command creates, by turns, each on a fresh
// plane. From outside, by its own watches and by /proc, it measures what each
// side does and costs: nodes made Ready, leases renewed, pods run and deleted,
// memory. It also times both stage engines on the same objects.
//
// It prints a table with ratios (above 1: windtunnel is better) and writes
// bench/out/fleet.json. `make bench-fleet` builds all that it needs and calls
// it; it is no part of windtunnel. See flight.go for the phases.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	bin, kwok, engine string // executables
	stages, inputs    string // folders
	ours, out, only   string
	turns             int
	nodes, pods, many int
	rate              float64
	calls             int // a second that the plane's clients allow themselves
	lease, window     time.Duration
	patience, each    time.Duration
}

func parseFlags() (o options) {
	flag.StringVar(&o.bin, "bin", "bin/windtunnel", "the binary that boots the planes")
	flag.StringVar(&o.ours, "ours", "bin/windtunnel fleet", "our side's command; kwok's flags are put behind it")
	flag.StringVar(&o.kwok, "kwok", "bin/kwok", "the kwok controller")
	flag.StringVar(&o.engine, "engine", "bin/kwok-stages", "what times kwok's stage engine: the command of module bench/kwok")
	flag.StringVar(&o.stages, "stages", "", "folder with kwok's stages: kustomize/stage of its module")
	flag.StringVar(&o.inputs, "inputs", "bench/fleet/inputs", "folder with the objects for the stage engines")
	flag.StringVar(&o.out, "out", "bench/out/fleet.json", "where the figures go")
	flag.StringVar(&o.only, "only", "", "one side only: kwok, windtunnel or stages; nothing is written then")
	flag.IntVar(&o.turns, "turns", 1, "turns of each side")
	flag.IntVar(&o.nodes, "nodes", 1000, "nodes")
	flag.IntVar(&o.pods, "pods", 5000, "pods that are asked for at -rate, once bound and once to be scheduled")
	flag.IntVar(&o.many, "many", 10_000, "pods that are asked for as fast as it goes")
	flag.Float64Var(&o.rate, "rate", 500, "pods asked for in a second")
	flag.IntVar(&o.calls, "calls", 5000, "calls a second that scheduler and controller-manager allow themselves; as shipped 50 and 20, and they would wait for themselves")
	flag.DurationVar(&o.lease, "lease", 40*time.Second, "duration of the nodes' leases")
	flag.DurationVar(&o.window, "window", time.Minute, "how long renewals are watched")
	flag.DurationVar(&o.patience, "patience", time.Minute, "how long nothing may happen before a phase is given up")
	flag.DurationVar(&o.each, "each", time.Second, "how long each figure of a stage engine is measured")
	flag.Parse()
	return o
}

// podsPerNode is how many of the bench's pods a node takes.
const podsPerNode = 100

// checkOptions finds what no run can mend, and makes paths absolute: processes are
// started in folders of their own.
func (o *options) checkOptions() error {
	var faults []error
	if o.nodes < 2 || o.pods < 1 || o.many < 1 || o.turns < 1 || o.rate <= 0 || o.calls < 1 || o.lease < time.Second {
		faults = append(faults, errors.New("want at least 2 nodes, 1 pod, 1 turn, a call a second, a rate above 0 and a lease of a second"))
	}
	if most := o.nodes * podsPerNode; max(o.pods, o.many) > most {
		faults = append(faults, fmt.Errorf("%d nodes take %d pods, not %d", o.nodes, most, max(o.pods, o.many)))
	}
	if !slices.Contains([]string{"", kwokName, ourName, "stages"}, o.only) {
		faults = append(faults, fmt.Errorf("no side is named %q", o.only))
	}
	if o.stages == "" {
		faults = append(faults, errors.New("-stages is missing"))
	}
	path, rest, _ := strings.Cut(o.ours, " ")
	for _, p := range []*string{&o.bin, &o.kwok, &o.engine, &o.stages, &o.inputs, &path} {
		abs, err := filepath.Abs(*p)
		if err == nil {
			_, err = os.Stat(abs)
		}
		faults = append(faults, err)
		*p = abs
	}
	o.ours = path + " " + rest
	return errors.Join(faults...)
}

func main() {
	o := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compareSides(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// compareSides lets the stage engines and then the sides take their turns. What was
// measured before a fault is printed all the same, and not kept.
func compareSides(ctx context.Context, o options) error {
	if err := o.checkOptions(); err != nil {
		return err
	}
	r := newReport(o)
	err := r.takeTurns(ctx, o)
	r.printTable(os.Stdout)
	if err != nil || o.only != "" {
		return err
	}
	return r.writeJSON(o.out)
}

// takeTurns takes all turns.
func (r *report) takeTurns(ctx context.Context, o options) error {
	if o.only == "" || o.only == "stages" {
		if err := r.timeEngines(ctx, o); err != nil {
			return err
		}
	}
	for turn := range o.turns {
		sides := o.bothSides()
		if turn%2 == 1 {
			slices.Reverse(sides)
		}
		for _, s := range sides {
			if o.only != "" && o.only != s.name {
				continue
			}
			printProgress("%s, turn %d of %d", s.name, turn+1, o.turns)
			m, err := flySide(ctx, s, o)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			r.addTurn(s.name, m)
		}
	}
	return nil
}

// printProgress tells a person who waits what is going on.
func printProgress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench-fleet: "+format+"\n", args...)
}
