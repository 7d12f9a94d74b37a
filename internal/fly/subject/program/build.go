package program

import (
	"context"
	"errors"
	"fmt"
	gobuild "go/build"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/scenario"
)

// Errors of building.
var (
	// ErrUnknown says that the module proxy has no such version of a module.
	ErrUnknown = errors.New("the module proxy does not have it")
	// ErrNoMain says that a package of a module is no program.
	ErrNoMain = errors.New("no main package")
	// ErrNotWhole says that something that a program imports cannot be had.
	ErrNotWhole = errors.New("the module proxy does not have all that it imports: take another version, or build it yourself and name it as `command`")
	// ErrNotCompiled says that the compiler refuses a program.
	ErrNotCompiled = errors.New("it does not compile: take another version, or build it yourself and name it as `command`")
	// ErrNewerGo says that a module needs a newer Go than the go command may use.
	ErrNewerGo = errors.New("install that Go, or set GOTOOLCHAIN=auto so that the go command fetches it")
)

// roomForProgram is what a program takes at most while it is made.
const roomForProgram = 1 << 29

// Builder makes programs from modules.
type Builder struct {
	Cache    Cache
	Progress io.Writer // gets what it does, and what the go command says
}

// Build makes a program, or returns the one that the cache has unless again is set. What
// cannot be built is said before anything is compiled, as far as the go command knows it.
func (b Builder) Build(ctx context.Context, wanted scenario.Build, again bool) (Program, error) {
	if err := wanted.Check(); err != nil {
		return Program{}, err
	}
	main, err := wanted.ReadMain()
	if err != nil {
		return Program{}, err
	}
	if p, err := b.Cache.Find(wanted); err == nil && !again {
		fmt.Fprintf(b.Progress, "the cache has %s %s already; --again builds it once more\n", p.Module.Path, p.Module.Version)
		return p, nil
	}
	tool, remove, err := build.FindGo(b.Progress)
	if err != nil {
		return Program{}, err
	}
	defer remove()
	source, err := fetch(ctx, tool, wanted)
	if err == nil && main != nil {
		err = os.WriteFile(filepath.Join(tool.Dir, mainFile), main, 0o600)
	}
	if err == nil {
		err = prepare(ctx, tool, wanted, source)
	}
	if err != nil {
		return Program{}, err
	}
	var p Program
	err = b.Cache.shelf.Keep(folderOf(wanted, main), roomForProgram, func(folder string) (any, error) {
		fmt.Fprintf(b.Progress, "compiling %s %s: minutes, unless most of it was compiled before\n", wanted.Module, wanted.Version)
		p, err = compile(ctx, tool, wanted, source, folder)
		return p, err
	})
	p.Folder = filepath.Join(b.Cache.shelf.Folder, folderOf(wanted, main))
	return p, err
}

// Mains returns the main packages of a module, each as ./cmd/manager.
func (b Builder) Mains(ctx context.Context, wanted scenario.Build) ([]string, error) {
	if err := wanted.Check(); err != nil {
		return nil, err
	}
	tool, remove, err := build.FindGo(b.Progress)
	if err != nil {
		return nil, err
	}
	defer remove()
	source, err := fetch(ctx, tool, wanted)
	if err != nil {
		return nil, err
	}
	return findMains(source.Dir)
}

// fetch gets the module of a program.
func fetch(ctx context.Context, tool build.GoTool, wanted scenario.Build) (build.Listed, error) {
	all, err := tool.Download(ctx, wanted.Module+"@"+wanted.Version)
	if err != nil {
		return build.Listed{}, err
	}
	source := all[wanted.Module]
	switch there, err := source.IsThere(); {
	case err != nil && strings.Contains(err.Error(), "requires go >="):
		return source, fmt.Errorf("%w: %w", err, ErrNewerGo)
	case err != nil:
		return source, fmt.Errorf("fetch %s %s: %w", wanted.Module, wanted.Version, err)
	case !there:
		published, err := tool.Versions(ctx, wanted.Module)
		if err != nil {
			return source, err
		}
		known := "it has no version of that module: check the path, and which proxy GOPROXY names"
		if len(published) > 0 {
			const few = 6
			known = "its newest are " + strings.Join(published[max(0, len(published)-few):], ", ")
		}
		return source, fmt.Errorf("%s %s: %w; %s", wanted.Module, wanted.Version, ErrUnknown, known)
	}
	return source, nil
}

// prepare writes a module that links the program, and asks the go command whether all that
// the program imports is there.
func prepare(ctx context.Context, tool build.GoTool, wanted scenario.Build, source build.Listed) error {
	if wanted.Main == "" {
		if err := checkMain(wanted, source.Dir); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(source.GoMod)
	if err != nil {
		return err
	}
	mod, beside, err := moduleFile(wanted, raw)
	if err != nil {
		return err
	}
	if err := checkBeside(ctx, tool, wanted, beside); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tool.Dir, "go.mod"), []byte(mod), 0o600); err != nil {
		return err
	}
	if _, err := tool.Run(ctx, "list", "-mod=mod", "-deps", "-f", "{{.Name}}", target(wanted)); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%s %s: %w: %w", wanted.Module, wanted.Version, ErrNotWhole, err)
	}
	return nil
}

// checkBeside says whether modules of the program's repository that its go.mod takes from
// folders are published under the program's version.
func checkBeside(ctx context.Context, tool build.GoTool, wanted scenario.Build, beside map[string]module.Version) error {
	for _, folder := range slices.Sorted(maps.Keys(beside)) {
		m := beside[folder]
		all, err := tool.Download(ctx, m.String())
		if err != nil {
			return err
		}
		switch there, err := all[m.Path].IsThere(); {
		case err != nil:
			return fmt.Errorf("fetch %s %s: %w", m.Path, m.Version, err)
		case !there:
			return fmt.Errorf("%s %s: %w: its go.mod replaces %s by the folder %s, and nobody publishes %s %s; build it there and name it as command",
				wanted.Module, wanted.Version, ErrLocal, m.Path, folder, m.Path, m.Version)
		}
	}
	return nil
}

// mainFile has the main package of a scenario, beside the go.mod that links it.
const mainFile = "main.go"

// target returns what the go command compiles: a package of the module, or the scenario's
// file, whatever build constraints it has.
func target(wanted scenario.Build) string {
	if wanted.Main != "" {
		return mainFile
	}
	return wanted.ImportPath()
}

// checkMain says whether a package of a module is a program, and if not, which ones are.
func checkMain(wanted scenario.Build, root string) error {
	p, err := gobuild.ImportDir(filepath.Join(root, wanted.PackagePath()), 0)
	if err == nil && p.IsCommand() {
		return nil
	}
	what := fmt.Sprintf("%s has no Go files", wanted.PackagePath())
	if err == nil {
		what = fmt.Sprintf("%s is package %s", wanted.PackagePath(), p.Name)
	}
	mains, err := findMains(root)
	if err != nil {
		return err
	}
	known := "none of its packages is one: name another module"
	if len(mains) > 0 {
		const few = 12
		known = "its main packages are " + strings.Join(mains[:min(few, len(mains))], ", ")
	}
	return fmt.Errorf("%s %s: %w: %s; %s", wanted.Module, wanted.Version, ErrNoMain, what, known)
}

// findMains returns the main packages below a module's root.
func findMains(root string) (out []string, err error) {
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (name == "vendor" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		if p, err := gobuild.ImportDir(path, 0); err == nil && p.IsCommand() {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			out = append(out, scenario.Build{Package: filepath.ToSlash(relative)}.PackagePath())
		}
		return nil
	})
	return out, err
}

// compile links a program into a folder and puts the YAML files of its module beside it.
func compile(ctx context.Context, tool build.GoTool, wanted scenario.Build, source build.Listed, folder string) (Program, error) {
	p := Program{Product: build.Product{Folder: folder, System: build.System}, Package: wanted.PackagePath(), Main: wanted.Main}
	path := filepath.Join(folder, NameOf(wanted))
	if _, err := tool.Run(ctx, "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, target(wanted)); err != nil {
		if ctx.Err() != nil || errors.Is(err, build.ErrNoRoom) {
			return p, err
		}
		return p, fmt.Errorf("%s %s, %s: %w: %w", wanted.Module, wanted.Version, wanted.PackagePath(), ErrNotCompiled, err)
	}
	info, err := build.ReadInfo(path)
	if err != nil {
		return p, err
	}
	p.SetCompiler(info)
	p.AddModules(info)
	if wanted.Main == "" {
		p.Modules = append(p.Modules, build.Module{Path: info.Main.Path, Version: info.Main.Version, Sum: info.Main.Sum})
	}
	i := slices.IndexFunc(p.Modules, func(m build.Module) bool { return m.Path == wanted.Module && m.Version == wanted.Version })
	switch {
	case i < 0 && wanted.Main != "":
		return p, fmt.Errorf("%s imports nothing of %s %s", wanted.Main, wanted.Module, wanted.Version)
	case i < 0:
		return p, fmt.Errorf("built %s %s in place of %s %s", info.Main.Path, info.Main.Version, wanted.Module, wanted.Version)
	}
	p.Module = p.Modules[i]
	p.Modules = slices.Delete(p.Modules, i, i+1)
	if err := errors.Join(p.AddFile(path), p.Sum()); err != nil {
		return p, err
	}
	err = p.addFiles(source.Dir)
	return p, err
}

// addFiles copies the YAML files of a module and notes which ones are objects.
func (p *Program) addFiles(root string) error {
	const maxFile = 16 << 20 // some definitions are large
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > maxFile {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch holds(raw) {
		case definitions:
			p.Definitions = append(p.Definitions, filepath.ToSlash(name))
		case objects:
			p.Manifests = append(p.Manifests, filepath.ToSlash(name))
		}
		to := filepath.Join(p.Files(), name)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, raw, 0o600))
	})
	return errors.Join(err, os.MkdirAll(p.Files(), 0o700))
}
