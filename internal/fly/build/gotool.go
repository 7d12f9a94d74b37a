package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Errors of the go command.
var (
	// ErrNoGo says that there is no go command.
	ErrNoGo = errors.New("building needs Go: no command go in PATH; see https://go.dev/doc/install")
	// ErrSum says that a module is not the one that the checksum database or a go.sum names.
	ErrSum = errors.New("the sum of a module does not match")
)

// GoTool runs the go command, which asks the module proxy that the environment names.
type GoTool struct {
	Dir      string // in which it runs
	path     string
	progress io.Writer // gets what go says
}

// FindGo returns the go command of PATH, or ErrNoGo. It runs in a new temporary folder, which
// remove deletes, and says what it does to progress.
func FindGo(progress io.Writer) (tool GoTool, remove func(), err error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return GoTool{}, nil, ErrNoGo
	}
	dir, err := os.MkdirTemp("", "windtunnel-build-")
	if err != nil {
		return GoTool{}, nil, namedIfFull(fmt.Errorf("make a folder for the build: %w: set TMPDIR to a folder that exists and can be written to", err))
	}
	return GoTool{dir, path, progress}, func() { _ = os.RemoveAll(dir) }, nil
}

// Run runs go and returns what it prints, also with an error. A user's GOFLAGS hold, but
// for -mod: the module of a build is written here and has no vendor folder.
func (g GoTool) Run(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, g.path, args...)
	c.Dir = g.Dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, io.MultiWriter(&said, g.progress)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // it removes its temporary files
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		if cause := explain(said.String()); cause != nil {
			return out.Bytes(), fmt.Errorf("go %s: %w", args[0], cause)
		}
		return out.Bytes(), fmt.Errorf("go %s: %w: %s", args[0], err, lastLines(said.String()))
	}
	return out.Bytes(), nil
}

// lastLines returns the end of what the go command said, without its progress.
func lastLines(text string) string {
	const few = 6
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool { return strings.HasPrefix(line, "go: downloading ") })
	return strings.Join(lines[max(0, len(lines)-few):], "\n")
}

// mismatch is how the go command says that a module is not the one that somebody else got:
// the sum of what was downloaded, who knows another, and that.
var mismatch = regexp.MustCompile(`checksum mismatch\s+downloaded:\s+(\S+)\s+(\S+):\s+(\S+)`)

// withheld is how the go command says that a build needs a module whose zip a proxy lacks.
var withheld = regexp.MustCompile(`(\S+)@(v\S+): reading \S+: (?:403|404|410) `)

// explain returns the cause of a failure that the go command has many lines for; nil: it is
// none that is known.
func explain(said string) error {
	if m := mismatch.FindStringSubmatch(said); m != nil {
		return fmt.Errorf("%w: the module proxy has %s, and %s has %s: set GOPROXY to another proxy, or run `go clean -modcache` if it was damaged on this machine",
			ErrSum, m[1], m[2], m[3])
	}
	if m := withheld.FindStringSubmatch(said); m != nil {
		return fmt.Errorf("the module proxy lacks %s %s: set GOPROXY to one that has it, or build another version", m[1], m[2])
	}
	for line := range strings.Lines(said) {
		if isFull(line) {
			return namedIfFull(errors.New(strings.TrimSpace(line)))
		}
	}
	return nil
}

// Module is one module as the go command knows it.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Sum     string `json:"sum,omitempty"` // h1: of its zip
}

// Listed is an answer of `go list -m -json`, or of `go mod download -json`.
type Listed struct {
	Path, Version, Info, GoMod, Dir, Sum string

	Versions []string
	Error    listedError
}

// lacking is how the go command says that a proxy does not have something. Whatever else
// it says, such as that the disk is full, says nothing of the proxy.
var lacking = regexp.MustCompile(`(?i)\b(403|404|410) [a-z]|not found|no such file|unknown revision|not available`)

// IsThere says whether a proxy has a module, or in one line why that is not known.
func (l Listed) IsThere() (bool, error) {
	switch {
	case l.Error == "":
		return true, nil
	case lacking.MatchString(string(l.Error)):
		return false, nil
	}
	if cause := explain(string(l.Error)); cause != nil {
		return false, cause
	}
	return false, fmt.Errorf("%s; `go env GOPROXY GOMODCACHE` prints where the go command asks, and where it keeps modules", strings.Join(strings.Fields(string(l.Error)), " "))
}

// listedError is a string in one of the two forms, a struct in the other.
type listedError string

func (e *listedError) UnmarshalJSON(raw []byte) error {
	var form struct{ Err string }
	if json.Unmarshal(raw, (*string)(e)) == nil {
		return nil
	}
	err := json.Unmarshal(raw, &form)
	*e = listedError(form.Err)
	return err
}

// List asks about modules, each PATH@VERSION. Without the error of a module it is there.
func (g GoTool) List(ctx context.Context, args ...string) (map[string]Listed, error) {
	out, err := g.Run(ctx, append([]string{"list", "-m", "-e", "-json"}, args...)...)
	if err != nil {
		return nil, err
	}
	return readListed(out)
}

// Download fetches the zips of modules, each PATH@VERSION. Without the error of a module
// it is there. A proxy may have the go.mod of a module and not its zip.
func (g GoTool) Download(ctx context.Context, args ...string) (map[string]Listed, error) {
	out, failed := g.Run(ctx, append([]string{"mod", "download", "-json"}, args...)...)
	if ctx.Err() != nil {
		return nil, failed
	}
	all, err := readListed(out)
	if len(all) == 0 { // it fails also where it says of each module why
		return nil, errors.Join(failed, err)
	}
	return all, err
}

// readListed reads answers about modules, by path.
func readListed(out []byte) (map[string]Listed, error) {
	all := map[string]Listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var one Listed
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what the go command says of modules: %w", err)
		}
		all[one.Path] = one
	}
}

// Versions returns the releases of a module that the proxy has, if any.
func (g GoTool) Versions(ctx context.Context, module string) ([]string, error) {
	all, err := g.List(ctx, "-versions", module)
	if err != nil {
		return nil, err
	}
	if there, err := all[module].IsThere(); err != nil {
		return nil, fmt.Errorf("ask the module proxy for releases of %s: %w", module, err)
	} else if !there {
		return nil, nil
	}
	return all[module].Versions, nil
}
