package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// A module is one that an executable holds.
type module struct{ path, version string }

// licensesOf returns the path of the licenses of all that a target's archive holds.
func (b build) licensesOf(t target) string {
	return filepath.Join(b.work, t.os+"_"+t.arch, "THIRD_PARTY_LICENSES")
}

// collectLicenses writes the licenses of the modules that Go names in each executable.
func (b build) collectLicenses(ctx context.Context) error {
	texts, err := b.bundledLicenses(ctx)
	if err != nil {
		return err
	}
	for _, t := range b.targets {
		modules, err := modulesOf(b.executables(t))
		if err != nil {
			return err
		}
		folders, err := downloadModules(ctx, modules)
		if err != nil {
			return err
		}
		all := maps.Clone(texts)
		for m, folder := range folders {
			if all[m.path+" "+m.version], err = readLicense(folder); err != nil {
				return fmt.Errorf("%s %s: %w", m.path, m.version, err)
			}
		}
		if err := os.WriteFile(b.licensesOf(t), renderLicenses(all), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// modulesOf returns the modules of executables, but for those of this repository.
func modulesOf(executables []string) ([]module, error) {
	found := map[module]bool{}
	for _, path := range executables {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if !strings.HasPrefix(m.Path, "github.com/windtunnel/windtunnel") {
				found[module{m.Path, m.Version}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b module) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.version, b.version))
	}), nil
}

// downloadModules returns the folders of modules in Go's cache.
func downloadModules(ctx context.Context, modules []module) (map[module]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.path+"@"+m.version)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Stderr = os.TempDir(), os.Stderr // outside of a module
	c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	raw, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("download modules: %w", err)
	}
	out := map[module]string{}
	for in := json.NewDecoder(bytes.NewReader(raw)); ; {
		var m struct{ Path, Version, Dir string }
		if err := in.Decode(&m); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out[module{m.Path, m.Version}] = m.Dir
	}
}

// licenseFiles are the names of texts that have to come along.
var licenseFiles = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// readLicense returns the texts of a module's folder. A text that is no known license is an
// error: a person has to read it.
func readLicense(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	known := false
	for _, e := range entries {
		if e.IsDir() || !licenseFiles.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", err
		}
		if cover := licensecheck.Scan(raw); cover.Percent >= 70 {
			known = true
		}
		fmt.Fprintf(&out, "%s\n\n", strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n")))
	}
	if !known {
		return "", fmt.Errorf("no file in %s is a license that licensecheck knows", folder)
	}
	return out.String(), nil
}

// bundledLicenses returns the licenses of what no module names: Go itself, and what the
// report's script holds.
func (b build) bundledLicenses(ctx context.Context) (map[string]string, error) {
	goroot, err := output(ctx, b.root, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, err := output(ctx, b.root, "go", "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	text, err := readLicense(goroot)
	if err != nil {
		return nil, fmt.Errorf("Go: %w", err)
	}
	script, err := os.ReadFile(filepath.Join(b.root, "internal/opinion/report/bundle/report.js"))
	if err != nil {
		return nil, err
	}
	from, to := bytes.Index(script, []byte("/*!")), bytes.Index(script, []byte("*/"))
	if from < 0 || to < from || !bytes.Contains(script[from:to], []byte("uPlot")) {
		return nil, fmt.Errorf("report.js does not begin with the license of uPlot")
	}
	return map[string]string{"Go " + version: text, "uPlot (in the report)": strings.TrimSpace(string(script[from+3:to])) + "\n\n"}, nil
}

// renderLicenses joins texts by what they are of. A text that several modules share stands once.
func renderLicenses(texts map[string]string) []byte {
	sharing := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		sharing[texts[name]] = append(sharing[texts[name]], name)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "The executables of windtunnel contain the following software.\n\n")
	for _, text := range slices.SortedFunc(maps.Keys(sharing), func(a, b string) int { return strings.Compare(sharing[a][0], sharing[b][0]) }) {
		fmt.Fprintf(&out, "%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(sharing[text], "\n"), text)
	}
	return out.Bytes()
}
