package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/outline"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/scenario"
)

// origin is a published controller for which init writes a scenario.
type origin struct{ module, pkg, kind string }

// writeFrom builds a controller, looks at what its module has and its help says, and writes
// a folder with a scenario for it.
func writeFrom(ctx context.Context, env *environment, from origin, folder string) error {
	cache, err := program.UserCache()
	if err != nil {
		return err
	}
	c := outline.Controller{Build: scenario.Build{Package: from.pkg}}
	c.Build.Module, c.Build.Version, _ = strings.Cut(from.module, "@")
	builder := program.Builder{Cache: cache, Progress: env.stderr}
	mains, err := builder.Mains(ctx, c.Build)
	if err != nil {
		return err
	}
	if c.Build.Package == "" {
		if c.Build.Package, err = outline.ChooseMain(c.Build.Module, mains); err != nil {
			return err
		}
	}
	if folder == "" {
		folder = c.Name()
	}
	if _, err := os.Stat(folder); err == nil {
		return fmt.Errorf("%s is there already: name another folder", folder)
	}
	p, err := builder.Build(ctx, c.Build, false)
	if err != nil {
		return err
	}
	help, err := subject.HelpOf(ctx, p.Path())
	if err != nil {
		return err
	}
	c = outline.New(c.Build, p, help, mains)
	if from.kind != "" {
		if err := c.ChooseKind(from.kind); err != nil {
			return err
		}
	}
	files, err := c.Write()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write scenario: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(folder, name)
		if err := writeNew(path, files[name]); err != nil {
			return err
		}
		fmt.Fprintln(env.stdout, "wrote", path)
	}
	fmt.Fprintf(env.stdout, "next: read %s, then windtunnel run %s --plan\n", filepath.Join(folder, "README.md"), filepath.Join(folder, "load.yaml"))
	return nil
}

// check says what is wrong with the flags for a published controller.
func (from origin) check(kind string) error {
	switch {
	case from.module == "" && (from.pkg != "" || from.kind != ""):
		return errors.New("--package and --kind belong to --from MODULE@VERSION")
	case from.module != "" && kind != "operator":
		return fmt.Errorf("--from is for init operator, not for init %s", kind)
	}
	return nil
}
