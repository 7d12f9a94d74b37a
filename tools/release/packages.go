package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // nfpm.Get finds formats by these imports
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// writePackages writes a .deb and an .rpm for each Linux.
func (b build) writePackages(context.Context) error {
	for _, t := range b.targets {
		if t.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := b.writePackage(t, format); err != nil {
				return fmt.Errorf("%s for %s: %w", format, t.arch, err)
			}
		}
	}
	return nil
}

func (b build) writePackage(t target, format string) (err error) {
	contents, err := b.packageContents(t)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "windtunnel", Arch: t.arch, Platform: "linux", Version: b.version(), Release: "1", MTime: b.time,
		Section: "devel", Priority: "optional", License: "Apache-2.0", Vendor: "The windtunnel authors",
		Maintainer:   "The windtunnel authors <https://github.com/windtunnel/windtunnel>",
		Homepage:     "https://github.com/windtunnel/windtunnel",
		Description:  "Wind tunnel for Kubernetes control planes\nSimulates nodes and an exactly timed load around a control plane, measures it, and gives a verdict.",
		Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "windtunnel", Group: "Development/Tools"}},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	out, err := os.Create(b.path(fmt.Sprintf("windtunnel_%s_linux_%s.%s", b.version(), t.arch, format)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return packager.Package(info, out)
}

// packageContents places the files of the archive in the folders of a Linux system.
func (b build) packageContents(t target) (files.Contents, error) {
	all, err := b.files(t)
	if err != nil {
		return nil, err
	}
	var out files.Contents
	for _, f := range all {
		to := path.Join("/usr/share/doc/windtunnel", f.name)
		switch dir, name := path.Split(f.name); {
		case f.mode == 0o755:
			to = path.Join("/usr/bin", f.name)
		case dir == "man/":
			to = path.Join("/usr/share/man/man1", name)
		case name == "windtunnel.bash":
			to = "/usr/share/bash-completion/completions/windtunnel"
		case name == "windtunnel.zsh":
			to = "/usr/share/zsh/site-functions/_windtunnel"
		case name == "windtunnel.fish":
			to = "/usr/share/fish/vendor_completions.d/windtunnel.fish"
		case name == "windtunnel.powershell":
			continue
		}
		out = append(out, &files.Content{
			Source: filepath.ToSlash(f.path), Destination: to,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: b.time},
		})
	}
	return out, nil
}
