package release

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/kernel"
)

// sources are those of plane/ and what takes their place where etcd is an executable of
// its own. They end in .txt, so that they belong to no package of windtunnel.
//
//go:embed source/*.txt
var sources embed.FS

// Errors of building.
var (
	// ErrNotWhole says that the module proxy lacks modules of a release.
	ErrNotWhole = errors.New("the module proxy does not have all modules of it")
	// ErrUnknown says that the module proxy has no such release.
	ErrUnknown = errors.New("the module proxy does not have it")
)

// BuildTags are those of official builds of Kubernetes.
const BuildTags = "selinux,notest,grpcnotrace"

// Builder makes planes of releases from modules.
type Builder struct {
	Cache    Cache
	Progress io.Writer // gets what it does, and what the go command says
}

// Release is what the module proxy has of a release.
type Release struct {
	Kubernetes string
	Etcd       string   // that is built with it
	Missing    []string // modules that its components need and the proxy lacks, each MODULE VERSION

	needs   needs
	version version
	has     map[string]bool // of its repository
}

// Build makes a plane, or returns the one that the cache has unless again is set. What
// the module proxy lacks is named before anything is compiled.
func (b Builder) Build(ctx context.Context, w Wanted, again bool) (Plane, error) {
	if err := kernel.Require("a control plane that windtunnel builds"); err != nil {
		return Plane{}, err
	}
	if err := CheckNames(w.Kubernetes, w.Etcd); err != nil {
		return Plane{}, err
	}
	tool, remove, err := build.FindGo(b.Progress)
	if err != nil {
		return Plane{}, err
	}
	defer remove()
	r, err := look(ctx, tool, w)
	if err != nil {
		return Plane{}, err
	}
	if len(r.Missing) > 0 {
		return Plane{}, fmt.Errorf("Kubernetes %s: %w: it lacks %s; `windtunnel plane check v1.%d` names a release that is whole",
			r.Kubernetes, ErrNotWhole, strings.Join(r.Missing, ", "), r.version.minor)
	}
	name := folderOf(r.Kubernetes, r.Etcd, build.System)
	if p, err := b.Cache.read(filepath.Join(b.Cache.shelf.Folder, name)); err == nil && !again {
		fmt.Fprintf(b.Progress, "the cache has Kubernetes %s with etcd %s already; --again builds it once more\n", p.Kubernetes, p.Etcd)
		return p, nil
	}
	return b.Cache.keep(name, func(folder string) (Plane, error) {
		fmt.Fprintf(b.Progress, "compiling Kubernetes %s with etcd %s: minutes, and some 5 GB in TMPDIR and GOCACHE, unless most of it was compiled before\n", r.Kubernetes, r.Etcd)
		return compile(ctx, tool, r, folder)
	})
}

// look asks the module proxy for a release.
func look(ctx context.Context, tool build.GoTool, w Wanted) (Release, error) {
	r := Release{Kubernetes: w.Kubernetes, has: map[string]bool{}}
	r.version, _ = parseVersion(w.Kubernetes)
	all, err := tool.List(ctx, kubernetesModule+"@"+w.Kubernetes)
	if err != nil {
		return r, err
	}
	switch there, err := all[kubernetesModule].IsThere(); {
	case err != nil:
		return r, fmt.Errorf("ask the module proxy for Kubernetes %s: %w", w.Kubernetes, err)
	case !there:
		published, err := tool.Versions(ctx, kubernetesModule)
		if err != nil {
			return r, err
		}
		return r, unknown("Kubernetes", r.version, published)
	case all[kubernetesModule].GoMod == "": // the go command says no word of it
		return r, fmt.Errorf("Kubernetes %s: the go command cannot keep its go.mod: set GOMODCACHE to a folder that can be written to", w.Kubernetes)
	}
	mod, err := os.ReadFile(all[kubernetesModule].GoMod)
	if err != nil {
		return r, err
	}
	if r.needs, err = readNeeds(string(mod)); err != nil {
		return r, err
	}
	if err := r.lookForStaging(ctx, tool); err != nil {
		return r, err
	}
	if len(r.Missing) > 0 {
		return r, nil
	}
	if err := r.lookForEtcd(ctx, tool, w.Etcd); err != nil || len(r.Missing) > 0 {
		return r, err
	}
	var staging []build.Module
	for _, name := range r.needs.staging {
		if r.has[name] && !slices.Contains(neverLinked(), name) {
			staging = append(staging, build.Module{Path: name, Version: r.version.staging()})
		}
	}
	if err = r.fetch(ctx, tool, staging); err != nil || len(r.Missing) > 0 {
		return r, err // without the largest ones
	}
	return r, r.fetch(ctx, tool, []build.Module{{Path: kubernetesModule, Version: r.Kubernetes}})
}

// fetch fetches modules whose go.mod files are there, since a proxy may withhold the rest
// of a module: 1.32.13 is listed whole and cannot be built.
func (r *Release) fetch(ctx context.Context, tool build.GoTool, all []build.Module) error {
	var args []string
	for _, m := range all {
		args = append(args, m.Path+"@"+m.Version)
	}
	got, err := tool.Download(ctx, args...)
	if err != nil {
		return err
	}
	for _, m := range all {
		one, answered := got[m.Path]
		if !answered {
			return fmt.Errorf("fetch %s %s: the go command does not say what became of it", m.Path, m.Version)
		}
		switch there, err := one.IsThere(); {
		case err != nil:
			return fmt.Errorf("fetch %s %s: %w", m.Path, m.Version, err)
		case !there:
			r.Missing = append(r.Missing, m.Path+" "+m.Version)
			r.has[m.Path] = false
		}
	}
	return nil
}

// lookForStaging asks for the modules of Kubernetes' repository.
func (r *Release) lookForStaging(ctx context.Context, tool build.GoTool) error {
	var args []string
	for _, module := range r.needs.staging {
		args = append(args, module+"@"+r.version.staging())
	}
	all, err := tool.List(ctx, args...)
	if err != nil {
		return err
	}
	for _, module := range r.needs.staging {
		if r.has[module], err = all[module].IsThere(); err != nil {
			return fmt.Errorf("ask the module proxy for %s %s: %w", module, r.version.staging(), err)
		}
	}
	for _, module := range r.needs.missing(func(module string) bool { return r.has[module] }) {
		r.Missing = append(r.Missing, module+" "+r.version.staging())
	}
	return nil
}

// lookForEtcd chooses the release of etcd: the one that is wanted, or the best whose modules
// the proxy has.
func (r *Release) lookForEtcd(ctx context.Context, tool build.GoTool, wanted string) error {
	published, err := tool.Versions(ctx, etcdModule)
	if err != nil {
		return err
	}
	candidates := []string{wanted}
	if wanted == "" {
		candidates, err = etcdsFor(r.version, published)
	}
	if err != nil {
		return err
	}
	var missing []string
	for i, etcd := range candidates {
		all, err := tool.List(ctx, etcdModule+"@"+etcd)
		if err != nil {
			return err
		}
		there, err := all[etcdModule].IsThere()
		lacks := []string{etcdModule + " " + etcd}
		switch {
		case err != nil:
			return fmt.Errorf("ask the module proxy for etcd %s: %w", etcd, err)
		case there:
			lacks, err = lacksOfEtcd(ctx, tool, all[etcdModule])
		case wanted != "":
			v, _ := parseVersion(wanted)
			return unknown("etcd", v, published)
		}
		switch {
		case err != nil:
			return err
		case len(lacks) == 0:
			r.Etcd = etcd
			return nil
		case i == 0:
			r.Etcd, missing = etcd, lacks
		}
	}
	r.Missing = append(r.Missing, missing...)
	return nil
}

// lacksOfEtcd returns what the proxy lacks of a release of etcd: of the modules of its own
// repository, which its go.mod names.
func lacksOfEtcd(ctx context.Context, tool build.GoTool, etcd build.Listed) ([]string, error) {
	mod, err := os.ReadFile(etcd.GoMod)
	if err != nil {
		return nil, err
	}
	part := Release{has: map[string]bool{}}
	all := []build.Module{{Path: etcdModule, Version: etcd.Version}}
	for _, m := range etcdPartLine.FindAllStringSubmatch(string(mod), -1) {
		all = append(all, build.Module{Path: m[1], Version: m[2]})
	}
	err = part.fetch(ctx, tool, all)
	return part.Missing, err
}

// Check returns the newest release of a minor release, such as v1.34, whose modules the
// proxy has, and the newer ones that are not whole.
func Check(ctx context.Context, minor string, progress io.Writer) (whole *Release, others []Release, err error) {
	tool, remove, err := build.FindGo(progress)
	if err != nil {
		return nil, nil, err
	}
	defer remove()
	published, err := tool.Versions(ctx, kubernetesModule)
	if err != nil {
		return nil, nil, err
	}
	patches, err := patchesOf(minor, published)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range patches {
		r, err := look(ctx, tool, Wanted{Kubernetes: v.String()})
		if err != nil {
			return nil, others, err
		}
		if len(r.Missing) == 0 {
			return &r, others, nil
		}
		others = append(others, r)
	}
	return nil, others, nil
}

// compile links a release into a folder. etcd is an executable of its own unless
// Kubernetes' go.mod names the same release: its modules would change those of the API
// server.
func compile(ctx context.Context, tool build.GoTool, r Release, folder string) (Plane, error) {
	stamps, err := stampsOf(ctx, tool, r)
	if err != nil {
		return Plane{}, err
	}
	files := map[string]string{"main.go": "main.go.txt", "etcd.go": "etcd.go.txt"}
	together := r.needs.etcd == r.Etcd
	linked := r.Etcd
	if !together {
		files["etcd.go"], linked = "withoutetcd.go.txt", ""
	}
	mod := r.needs.moduleFile(r.version, linked, func(module string) bool { return r.has[module] })
	if err := link(ctx, tool, program{Executable, mod, files, stamps, folder}); err != nil {
		return Plane{}, err
	}
	if !together {
		mod := fmt.Sprintf("module github.com/windtunnel/windtunnel/plane/etcd\n\ngo %s\n\nrequire %s %s\n", r.needs.language, etcdModule, r.Etcd)
		if err := link(ctx, tool, program{component.Etcd, mod, map[string]string{"main.go": "etcdalone.go.txt"}, "-s -w", folder}); err != nil {
			return Plane{}, err
		}
	}
	p, err := Read(folder)
	if err != nil {
		return p, err
	}
	if p.Kubernetes != r.Kubernetes || p.Etcd != r.Etcd {
		return p, fmt.Errorf("built Kubernetes %s with etcd %s in place of %s with %s", p.Kubernetes, p.Etcd, r.Kubernetes, r.Etcd)
	}
	return p, errors.Join(checkSpoken(ctx, p), p.Sum())
}

// program is one executable to link.
type program struct {
	name, mod string
	files     map[string]string // name in the module: name among sources
	stamps    string            // for the linker
	folder    string            // for the executable
}

// link writes a module and builds it.
func link(ctx context.Context, tool build.GoTool, x program) error {
	module := filepath.Join(tool.Dir, x.name)
	if err := os.MkdirAll(filepath.Join(module, unusedFolder), 0o700); err != nil {
		return err
	}
	files := map[string]string{"go.mod": x.mod, filepath.Join(unusedFolder, "go.mod"): "module unused\n"}
	for _, name := range slices.Sorted(maps.Keys(x.files)) {
		raw, err := sources.ReadFile("source/" + x.files[name])
		if err != nil {
			return err
		}
		files[name] = string(raw)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	tool.Dir = module
	_, err := tool.Run(ctx, "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-tags", BuildTags, "-ldflags", x.stamps,
		"-o", filepath.Join(x.folder, x.name), ".")
	return err
}

// stampsOf returns the flags by which components know their release, its commit and its
// date, as official builds have them.
func stampsOf(ctx context.Context, tool build.GoTool, r Release) (string, error) {
	raw, err := tool.Run(ctx, "mod", "download", "-json", kubernetesModule+"@"+r.Kubernetes)
	if err != nil {
		return "", err
	}
	var module build.Listed
	var info struct {
		Time   string
		Origin struct{ Hash string }
	}
	if err := json.Unmarshal(raw, &module); err == nil && module.Info != "" {
		if raw, err = os.ReadFile(module.Info); err != nil {
			return "", err
		}
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("read what the module proxy says of %s: %w", kubernetesModule, err)
	}
	return stampFlags(r.version, info.Origin.Hash, info.Time), nil
}

// stampFlags returns the flags for the linker. component-base has the version that
// components print, client-go the one of their User-Agents. A proxy need not know the
// commit and the date: what is empty stays as it is in the sources.
func stampFlags(v version, commit, date string) string {
	values := map[string]string{
		"gitVersion": v.String(), "gitMajor": fmt.Sprint(v.major), "gitMinor": fmt.Sprint(v.minor),
		"gitTreeState": "clean", "gitCommit": commit, "buildDate": date,
	}
	out := []string{"-s -w"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == "" {
			continue
		}
		for _, at := range []string{"k8s.io/component-base/version.", "k8s.io/client-go/pkg/version."} {
			out = append(out, "-X "+at+name+"="+values[name])
		}
	}
	return strings.Join(out, " ")
}

// checkSpoken starts components to hear whether they say the versions that were built.
func checkSpoken(ctx context.Context, p Plane) error {
	for _, name := range []string{component.APIServer, component.Etcd} {
		said, err := AskVersion(ctx, p, name)
		if err != nil {
			return err
		}
		if want := p.Versions()[map[string]string{component.APIServer: "kubernetes", component.Etcd: component.Etcd}[name]]; said != want {
			return fmt.Errorf("%s says that it is %s, not %s", name, said, want)
		}
	}
	return nil
}

// AskHelp runs a component with --help and returns what it says.
func AskHelp(ctx context.Context, p Plane, name string) (string, error) {
	path, args := p.Command(name)
	out, err := exec.CommandContext(ctx, path, append(args, "--help")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ask %s %s for its help: %w", path, name, err)
	}
	return string(out), nil
}

// AskVersion runs a component with --version and returns what it says, such as v1.36.3,
// or 3.6.12 of etcd.
func AskVersion(ctx context.Context, p Plane, name string) (string, error) {
	path, args := p.Command(name)
	out, err := exec.CommandContext(ctx, path, append(args, "--version")...).CombinedOutput()
	first, _, _ := strings.Cut(string(out), "\n")
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w: %s", path, err, first)
	}
	for _, before := range []string{"Kubernetes ", "etcd Version: "} {
		if version, ok := strings.CutPrefix(first, before); ok {
			return version, nil
		}
	}
	return "", fmt.Errorf("ask %s for its version: it answered %.100q", path, first)
}
