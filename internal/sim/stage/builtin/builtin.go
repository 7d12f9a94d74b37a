// Package builtin holds the sets of stages that come with the program, as
// files in kwok's format: fast, general, chaos, volumes and deployments.
//
// It only hands out files; package machine compiles them. The fleet and
// the verb `fleet` call it.
package builtin

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

//go:embed fast/*.yaml general/*.yaml chaos/*.yaml volumes/*.yaml deployments/*.yaml
var files embed.FS

// ErrUnknown says that there is no set of that name.
var ErrUnknown = errors.New("no such set of stages")

// Names returns the sets' names.
func Names() []string { return []string{"chaos", "deployments", "fast", "general", "volumes"} }

// Load returns a set's stages, and in Others the objects that belong to it, such
// as the StorageClass of volumes.
func Load(name string) (*kwok.File, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	paths, err := fs.Glob(files, path.Join(name, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find stages: %w", err)
	}
	out := &kwok.File{}
	for _, p := range paths {
		content, err := files.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("read stages: %w", err)
		}
		f, err := kwok.Load("builtin/"+p, content)
		if err != nil {
			return nil, err
		}
		out.Stages, out.Others = append(out.Stages, f.Stages...), append(out.Others, f.Others...)
	}
	return out, nil
}
