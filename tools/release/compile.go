package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A target is a system that gets executables.
type target struct{ os, arch string }

// allTargets are the systems of a release. The tool measures on Linux; on the others it
// judges, reports, compares, serves, and tests clusters by a kubeconfig.
func allTargets() []target {
	return []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}
}

func parseTargets(list string) ([]target, error) {
	if list == "" {
		return allTargets(), nil
	}
	var out []target
next:
	for name := range strings.SplitSeq(list, ",") {
		for _, t := range allTargets() {
			if t.os+"/"+t.arch == name {
				out = append(out, t)
				continue next
			}
		}
		return nil, fmt.Errorf("-targets: %s is not a system of a release", name)
	}
	return out, nil
}

// hasPlane tells whether the target has an executable of the control plane.
func (b build) hasPlane(t target) bool { return b.plane && t.os == "linux" }

// tool and planeOf return the paths of a target's executables.
func (b build) tool(t target) string {
	name := "windtunnel"
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(b.work, t.os+"_"+t.arch, name)
}

func (b build) planeOf(t target) string {
	return filepath.Join(b.work, t.os+"_"+t.arch, "kube-plane")
}

// executables returns the paths of all executables of a target.
func (b build) executables(t target) []string {
	out := []string{b.tool(t)}
	if b.hasPlane(t) {
		out = append(out, b.planeOf(t))
	}
	return out
}

// compile builds all executables. Version and commit come by -X, not from Go's own look at
// git: that depends on which tags a clone has.
func (b build) compile(ctx context.Context) error {
	stamps := fmt.Sprintf("-s -w -X main.stamp=%s -X main.commit=%s", b.version(), b.commit)
	for _, t := range b.targets {
		system := []string{"GOOS=" + t.os, "GOARCH=" + t.arch}
		if err := b.start(ctx, ".", system, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stamps, "-o", b.tool(t), "./cmd/windtunnel"); err != nil {
			return err
		}
		if !b.hasPlane(t) {
			continue
		}
		// The Makefile knows the flags and stamps of official builds of Kubernetes.
		path, err := filepath.Rel(b.root, b.planeOf(t))
		if err != nil {
			return err
		}
		if err := b.start(ctx, ".", system, "make", "--no-print-directory", "PLANE="+path, path); err != nil {
			return err
		}
	}
	return nil
}

// native returns the target that this machine can run.
func (b build) native() (target, error) {
	for _, t := range b.targets {
		if t.os == runtime.GOOS && t.arch == runtime.GOARCH {
			return t, nil
		}
	}
	return target{}, fmt.Errorf("completions are written by windtunnel itself: -targets needs %s/%s", runtime.GOOS, runtime.GOARCH)
}

// document lets the tool write its completions and manual pages.
func (b build) document(ctx context.Context) error {
	t, err := b.native()
	if err != nil {
		return err
	}
	folder := filepath.Join(b.work, "completions")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text, err := output(ctx, b.root, b.tool(t), "completion", shell)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "windtunnel."+shell), []byte(text+"\n"), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return b.start(ctx, ".", nil, b.tool(t), "man", filepath.Join(b.work, "man"))
}
