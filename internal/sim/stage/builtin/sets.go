package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/folder"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

// maxFile is how large a file of stages may be, in bytes.
const maxFile = 16 << 20

// Sets returns the stages of several sets and files together, in order: a name
// of Names is a built-in set, anything else a file in kwok's format inside the
// folder base. The error joins all faults.
func Sets(names []string, base string) (*kwok.File, error) {
	out := &kwok.File{}
	var faults []error
	for _, name := range names {
		f, err := loadOne(name, base)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		out.Stages, out.Others = append(out.Stages, f.Stages...), append(out.Others, f.Others...)
	}
	if len(out.Stages) == 0 && len(faults) == 0 {
		faults = append(faults, fmt.Errorf("read stages: there are no stages in %s", strings.Join(names, ", ")))
	}
	return out, errors.Join(faults...)
}

func loadOne(name, base string) (*kwok.File, error) {
	if slices.Contains(Names(), name) {
		return Load(name)
	}
	content, err := folder.Read(base, within(base, name), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("read stages: %w (the built-in sets are %s)", err, strings.Join(Names(), ", "))
	}
	return kwok.Load(name, content)
}

// within returns an absolute name as it is called from base.
func within(base, name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	if local, err := filepath.Rel(base, name); err == nil {
		return local
	}
	return name
}

// FromFlags returns names that somebody gave on a command line, and the folder with which
// Sets finds their files wherever they are: unlike those that a file names, they may lead
// out of the folder where the command is given.
func FromFlags(names []string) (absolute []string, base string) {
	absolute = slices.Clone(names)
	for i, name := range absolute {
		if path, err := filepath.Abs(name); err == nil && !slices.Contains(Names(), name) {
			absolute[i] = path
		}
	}
	if base, err := filepath.Abs(string(filepath.Separator)); err == nil {
		return absolute, base
	}
	return names, "."
}

// Volumes is the set that binds claims, and VolumesClass the StorageClass whose claims it binds.
const (
	Volumes      = "volumes"
	VolumesClass = "windtunnel"
)

// BindClasses has the stages that are about claims and volumes of VolumesClass be about
// those of other classes too.
func BindClasses(f *kwok.File, classes []string) {
	for _, s := range f.Stages {
		if s.Spec.Selector == nil {
			continue
		}
		for i := range s.Spec.Selector.MatchExpressions {
			if q := s.Spec.Selector.MatchExpressions[i].JQ; q != nil && q.Key == ".spec.storageClassName" && slices.Equal(q.Values, []string{VolumesClass}) {
				q.Values = append(slices.Clone(q.Values), classes...)
			}
		}
	}
}
