// Command vulncheck looks for known vulnerabilities in what this tree calls, without
// the vulnerability database's server: it makes the database that govulncheck reads of
// a folder of OSV entries, that of the module golang.org/x/vulndb, and runs the program
// given after the flags with it.
//
//	vulncheck -entries DIR/data/osv -accepted FILE govulncheck ./...
//
// It exits 1 when the tree calls vulnerable code that FILE does not accept, or when FILE
// accepts what is not found any more, and 3 when it cannot look. What is in the standard
// library is of the Go that compiles, not of the tree: it is told, and exits 0.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	entries := flag.String("entries", "", "folder of OSV entries")
	accepted := flag.String("accepted", "", "file of vulnerabilities that are accepted, one \"ID why\" a line")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	wrong, toolchain, err := check(ctx, *entries, *accepted, flag.Args())
	for _, sentence := range toolchain {
		fmt.Println("of this Go: " + sentence)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	case len(wrong) > 0:
		fmt.Fprintln(os.Stderr, strings.Join(wrong, "\n"))
		os.Exit(1)
	}
}

// check returns a sentence for each vulnerability that is called and not accepted, and
// for each that is accepted and not called, and apart from them one for each that is in the
// standard library.
func check(ctx context.Context, entries, accepted string, program []string) (wrong, toolchain []string, err error) {
	if len(program) == 0 {
		return nil, nil, errors.New("vulncheck: name the program to run after the flags")
	}
	known, err := readAccepted(accepted)
	if err != nil {
		return nil, nil, err
	}
	database, err := os.MkdirTemp("", "vulncheck-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(database)
	if err := writeDatabase(database, entries); err != nil {
		return nil, nil, err
	}
	found, err := called(ctx, program, database)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(found.toolchain)) {
		toolchain = append(toolchain, found.toolchain[id])
	}
	return verdict(found.tree, known), toolchain, nil
}

func verdict(found map[string]string, known map[string]bool) (wrong []string) {
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if !known[id] {
			wrong = append(wrong, found[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if _, ok := found[id]; !ok {
			wrong = append(wrong, id+" is accepted and not called any more: take it off the list")
		}
	}
	return wrong
}

// readAccepted reads the ids of the lines of a file; # begins a comment.
func readAccepted(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		id, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case id == "" || strings.HasPrefix(id, "#"):
		case strings.TrimSpace(why) == "":
			return nil, fmt.Errorf("%s: %s is accepted without a reason", path, id)
		default:
			ids[id] = true
		}
	}
	return ids, nil
}

// entry is what the indexes need of an OSV entry.
type entry struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Aliases  []string  `json:"aliases,omitempty"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
	} `json:"affected,omitempty"`
}

type module struct {
	Path  string  `json:"path"`
	Vulns []entry `json:"vulns"`
}

// writeDatabase copies a folder of entries and writes the indexes beside them, in the
// form of https://go.dev/doc/security/vuln/database#api.
func writeDatabase(to, from string) error {
	files, err := filepath.Glob(filepath.Join(from, "GO-*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("vulncheck: no entries in %s: %w", from, err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(to, "ID"), 0o700), os.Mkdir(filepath.Join(to, "index"), 0o700)); err != nil {
		return err
	}
	modules := map[string]*module{}
	var all []entry
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(to, "ID", e.ID+".json"), raw, 0o600); err != nil {
			return err
		}
		addModules(modules, e)
		e.Affected = nil
		all = append(all, e)
	}
	newest := slices.MaxFunc(all, func(a, b entry) int { return a.Modified.Compare(b.Modified) })
	return errors.Join(
		writeIndex(to, "db", map[string]time.Time{"modified": newest.Modified}),
		writeIndex(to, "modules", slices.Collect(maps.Values(modules))),
		writeIndex(to, "vulns", all))
}

func addModules(modules map[string]*module, e entry) {
	for _, a := range e.Affected {
		m := modules[a.Package.Name]
		if m == nil {
			m = &module{Path: a.Package.Name}
			modules[a.Package.Name] = m
		}
		m.Vulns = append(m.Vulns, entry{ID: e.ID, Modified: e.Modified})
	}
}

func writeIndex(to, name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "index", name+".json"), raw, 0o600)
}

// found has a sentence for each vulnerability whose code is called, by id: those in a
// module of the tree, and those in the standard library. HTTP/2 stands in both, so that
// one id may, too.
type found struct{ tree, toolchain map[string]string }

// called runs govulncheck on the tree.
func called(ctx context.Context, program []string, database string) (found, error) {
	args := append([]string{"-db", "file://" + database, "-format", "json"}, program[1:]...)
	cmd := exec.CommandContext(ctx, program[0], args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return found{}, err
	}
	if err := cmd.Start(); err != nil {
		return found{}, err
	}
	all, err := findings(bufio.NewReader(out))
	if ended := cmd.Wait(); err == nil {
		err = ended // with -format json it exits with 0 whatever it finds
	}
	return all, err
}

// findings reads govulncheck's stream of messages. A finding whose first frame names a
// function is of code that is called. Of the ways to one vulnerability the first by name
// is told: their order is of chance.
func findings(r io.Reader) (found, error) {
	all := found{tree: map[string]string{}, toolchain: map[string]string{}}
	d := json.NewDecoder(r)
	for {
		var m struct {
			Finding *struct {
				OSV          string `json:"osv"`
				FixedVersion string `json:"fixed_version"`
				Trace        []struct {
					Module, Version, Package, Function string
				} `json:"trace"`
			} `json:"finding"`
		}
		if err := d.Decode(&m); err == io.EOF {
			return all, nil
		} else if err != nil {
			return found{}, err
		}
		f := m.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}
		at, by := f.Trace[0], f.Trace[len(f.Trace)-1]
		sentence := fmt.Sprintf("%s: %s calls %s.%s of %s@%s (fixed in %s)", f.OSV, by.Package, at.Package, at.Function, at.Module, at.Version, cmp.Or(f.FixedVersion, "no version yet"))
		to := all.tree
		if at.Module == "stdlib" {
			to = all.toolchain
		}
		if known, ok := to[f.OSV]; !ok || sentence < known {
			to[f.OSV] = sentence
		}
	}
}
