// Command kwok times kwok's own stage engine: which stage plays on an object
// (what kwok's BenchmarkStageCRs times), and the whole way from an object to the
// bodies of its patches. Stages and objects are given as files; the figures go
// to standard output as JSON, a list with an entry for each object.
//
// It stands in a module of its own, which also builds the kwok controller as a
// tool, so that nothing of kwok enters windtunnel's dependencies. Command
// bench/fleet runs it beside windtunnel's engine; it is no part of windtunnel.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Figure is what one object costs, in nanoseconds. Wire is 0 for kinds that kwok
// does not read into Go types.
type Figure struct {
	Name  string  `json:"name"`
	Stage string  `json:"stage"`    // that plays
	Match float64 `json:"match_ns"` // choose the stage, for an object that is read
	Play  float64 `json:"play_ns"`  // choose it, take its delay and write its bodies
	Wire  float64 `json:"wire_ns"`  // the same from the object's bytes in protobuf
}

func main() {
	testing.Init()
	stages := flag.String("stages", "", "folder of kwok's stages: KIND/SET/*.yaml")
	inputs := flag.String("inputs", "", "folder of objects: KIND/SET/*.json")
	each := flag.Duration("time", time.Second, "how long each figure is measured")
	flag.Parse()
	if err := run(*stages, *inputs, *each); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run times all objects and prints the figures.
func run(stages, inputs string, each time.Duration) error {
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		return fmt.Errorf("set the time of a figure: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(inputs, "*", "*", "*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no objects in %s (%w)", inputs, err)
	}
	var all []Figure
	for _, path := range files {
		set, err := filepath.Rel(inputs, filepath.Dir(path))
		if err != nil {
			return err
		}
		f, err := figure(context.Background(), path, filepath.Join(stages, set))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name := filepath.Base(path)
		f.Name = filepath.ToSlash(filepath.Join(set, name[:len(name)-len(".json")]))
		all = append(all, f)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// figure times one object.
func figure(ctx context.Context, path, folder string) (f Figure, err error) {
	e, err := load(ctx, path, folder)
	if err != nil {
		return f, err
	}
	stage, err := e.match(ctx)
	if err != nil {
		return f, err
	}
	if stage == nil {
		return f, fmt.Errorf("no stage of %s matches", folder)
	}
	f.Stage = stage.Name()
	if f.Match, err = timed(func() error { _, err := e.match(ctx); return err }); err != nil {
		return f, err
	}
	if f.Play, err = timed(func() error { return e.play(ctx) }); err != nil {
		return f, err
	}
	if e.read != nil {
		f.Wire, err = timed(func() error { return e.wire(ctx) })
	}
	return f, err
}

// timed returns the nanoseconds that a call takes.
func timed(call func() error) (float64, error) {
	var failed error
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if failed = call(); failed != nil {
				b.FailNow()
			}
		}
	})
	return float64(r.T.Nanoseconds()) / float64(max(1, r.N)), failed
}
