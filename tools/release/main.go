// Command release builds a release of windtunnel: archives, packages, the image, lists of
// licenses and of components, manifests for package managers, the action, and their sums.
// The same commit gives the same bytes in any folder.
//
//	go run . -root ../.. -version v0.1.0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := flag.String("root", "../..", "`FOLDER` of the repository")
	version := flag.String("version", "", "`VERSION` to release, such as v0.1.0")
	planes := flag.Bool("plane", true, "build kube-plane as well")
	targets := flag.String("targets", "", "`LIST` of systems, such as linux/amd64,darwin/arm64 (default: all)")
	dirty := flag.Bool("dirty", false, "allow changes that are not committed")
	flag.Parse()
	if err := run(ctx, *root, *version, *targets, *planes, *dirty); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A build is what all parts of a release share.
type build struct {
	root    string // the repository
	dist    string // the result
	work    string // what is compiled on the way: dist/build
	tag     string // v0.1.0
	commit  string
	time    time.Time // of the commit: the time of every file
	plane   bool      // with kube-plane where there is one
	targets []target
}

// version is the tag without its v.
func (b build) version() string { return strings.TrimPrefix(b.tag, "v") }

// path returns the path of a result.
func (b build) path(name string) string { return filepath.Join(b.dist, name) }

func run(ctx context.Context, root, tag, list string, plane, dirty bool) error {
	b, err := newBuild(ctx, root, tag, list, plane, dirty)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(b.dist), os.MkdirAll(b.work, 0o755)); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		make func(context.Context) error
	}{
		{"executables", b.compile},
		{"completions and manual pages", b.document},
		{"licenses", b.collectLicenses},
		{"archives", b.writeArchives},
		{"packages", b.writePackages},
		{"lists of components", b.writeComponents},
		{"image", b.writeImage},
		{"install.sh", b.copyInstaller},
		{"manifests", b.writeManifests},
		{"action", b.writeAction},
		{"sums", b.writeSums},
	} {
		fmt.Println("release:", part.name)
		if err := part.make(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return os.RemoveAll(b.work)
}

// tags are those of releases: semantic versions.
var tags = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func newBuild(ctx context.Context, root, tag, list string, plane, dirty bool) (build, error) {
	if !tags.MatchString(tag) {
		return build{}, fmt.Errorf("VERSION is %q: use the form v0.1.0", tag)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return build{}, err
	}
	dist := filepath.Join(root, "dist")
	b := build{root: root, dist: dist, work: filepath.Join(dist, "build"), tag: tag, plane: plane}
	if b.targets, err = parseTargets(list); err != nil {
		return b, err
	}
	changes, err := output(ctx, root, "git", "status", "--porcelain")
	if err != nil {
		return b, err
	}
	if changes != "" && !dirty {
		first, _, _ := strings.Cut(changes, "\n")
		return b, fmt.Errorf("the checkout has changes that are not committed (%s): a release is built from a commit", strings.TrimSpace(first))
	}
	head, err := output(ctx, root, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return b, err
	}
	var seconds string
	b.commit, seconds, _ = strings.Cut(head, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	b.time = time.Unix(at, 0).UTC()
	return b, err
}

// environment is that of every program that is started: nothing of the user's settings
// changes what is built.
func (b build) environment(extra ...string) []string {
	return append(os.Environ(), append([]string{
		"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "LC_ALL=C", "TZ=UTC",
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.time.Unix(), 10),
	}, extra...)...)
}

// start runs a program in a folder of the repository. Its output is shown.
func (b build) start(ctx context.Context, folder string, extra []string, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = filepath.Join(b.root, folder), b.environment(extra...), os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// output returns what a program prints.
func output(ctx context.Context, folder, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = folder, os.Stderr
	raw, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(raw)), nil
}
