// Command flight runs a scenario several times with a windtunnel binary and
// prints the medians of its measures as a Markdown table: plane ready time, pods
// per second, CPU per pod of each component. `make bench` calls it; it is no
// part of windtunnel.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

func main() {
	binary := flag.String("bin", "bin/windtunnel", "the binary to fly with")
	file := flag.String("scenario", "examples/density.yaml", "the scenario")
	runs := flag.Int("runs", 3, "how often")
	flag.Parse()
	if err := flyRuns(*binary, *file, *runs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flyRuns runs the scenario and prints the table.
func flyRuns(binary, file string, runs int, more []string) error {
	folder, err := os.MkdirTemp("", "windtunnel-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for the runs: %w", err)
	}
	defer os.RemoveAll(folder)
	values := map[string][]float64{}
	units := map[string]string{}
	var manifest record.Manifest
	for i := range runs {
		dir := filepath.Join(folder, fmt.Sprint(i))
		cmd := exec.Command(binary, append([]string{"run", file, "--out", dir}, more...)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return errors.Join(fmt.Errorf("run %d: %w", i+1, err))
		}
		var judgement slo.Judgement
		if err := errors.Join(readJSON(dir, record.VerdictFile, &judgement), readJSON(dir, record.ManifestFile, &manifest)); err != nil {
			return err
		}
		for name, m := range judgement.Measures {
			values[name] = append(values[name], m.Value)
			units[name] = m.Unit
		}
	}
	printMedians(manifest, runs, values, units)
	return nil
}

func readJSON(dir, name string, into any) error {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return json.Unmarshal(raw, into)
}

// printMedians writes the medians, with minimum and maximum.
func printMedians(m record.Manifest, runs int, values map[string][]float64, units map[string]string) {
	fmt.Printf("%s, %d runs on %d cores (%s), %s, Kubernetes %s, etcd %s\n\n| measure | median | min | max | unit |\n|---|---:|---:|---:|---|\n",
		m.Scenario, runs, m.Machine.Cores, strings.TrimSpace(m.Machine.CPU), m.Started.Format("2006-01-02"), m.Versions["kubernetes"], m.Versions["etcd"])
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v := values[name]
		slices.Sort(v)
		fmt.Printf("| %s | %.4g | %.4g | %.4g | %s |\n", name, v[len(v)/2], v[0], v[len(v)-1], units[name])
	}
}
