package outline

import (
	"cmp"
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
)

// definitionFile is a file of a module with whole CustomResourceDefinitions.
type definitionFile struct {
	name  string   // from the module's root
	kinds []string // names of the definitions
	pure  bool     // it has nothing else
}

// Definitions returns patterns of files that define each kind of a module once. A
// module has its definitions several times: in a folder of their own, in one file with all
// that an installation needs, with and without descriptions, in the data of tests. mixed are
// the files of which some kinds are only defined together with other objects: they are not
// among the patterns.
func Definitions(p program.Program) (patterns, mixed []string) {
	taken := map[string]bool{}
	chosen := map[string]bool{}
	for _, folder := range sortFolders(readDefinitionFiles(p)) {
		for _, f := range folder {
			isNew := func(kind string) bool { return !taken[kind] }
			if !f.pure && slices.ContainsFunc(f.kinds, isNew) {
				mixed = append(mixed, f.name)
			} else if !slices.ContainsFunc(f.kinds, func(kind string) bool { return taken[kind] }) {
				chosen[f.name] = true
				for _, kind := range f.kinds {
					taken[kind] = true
				}
			}
		}
	}
	return coverFiles(p, chosen), mixed
}

// readDefinitionFiles reads the files with definitions that can be applied.
func readDefinitionFiles(p program.Program) (out []definitionFile) {
	for _, name := range p.Definitions {
		objects, err := subject.DecodeBuilt(p, name)
		if err != nil {
			continue
		}
		f := definitionFile{name: name, pure: true}
		for _, o := range objects {
			if d, ok := readDefinition(o); ok && len(d.Spec.Versions) > 0 && d.Spec.Names.Kind != "" {
				f.kinds = append(f.kinds, o.Name)
			} else {
				f.pure = false
			}
		}
		if len(f.kinds) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// isOfTests tells files whose kinds no controller serves.
func isOfTests(name string) bool {
	return slices.ContainsFunc(strings.Split(path.Dir(name), "/"), func(element string) bool {
		return slices.Contains([]string{"test", "tests", "testing", "testdata", "e2e"}, element)
	})
}

// isOfAnother tells files that belong to another program of the module than the one in a
// package: they are below its main package. Those of the root belong to all.
func isOfAnother(name, pkg string, mains []string) bool {
	owner := "."
	for _, main := range mains {
		folder := path.Clean(main)
		if len(folder) > len(owner) && strings.HasPrefix(name, folder+"/") {
			owner = folder
		}
	}
	return owner != "." && owner != path.Clean(pkg)
}

// sortFolders returns files by folder, the likeliest folder first: one with nothing but
// definitions, with most of them, with the shortest name.
func sortFolders(files []definitionFile) (out [][]definitionFile) {
	byFolder := map[string][]definitionFile{}
	for _, f := range files {
		folder := path.Dir(f.name)
		byFolder[folder] = append(byFolder[folder], f)
	}
	for _, all := range byFolder {
		out = append(out, all)
	}
	mixed := func(all []definitionFile) int {
		if slices.ContainsFunc(all, func(f definitionFile) bool { return !f.pure }) {
			return 1
		}
		return 0
	}
	count := func(all []definitionFile) (n int) {
		for _, f := range all {
			n += len(f.kinds)
		}
		return n
	}
	slices.SortFunc(out, func(a, b []definitionFile) int {
		return cmp.Or(mixed(a)-mixed(b), count(b)-count(a), len(path.Dir(a[0].name))-len(path.Dir(b[0].name)), strings.Compare(a[0].name, b[0].name))
	})
	return out
}

// coverFiles returns patterns that fit these files and no others of a module: one for a
// folder if that is possible, else the names.
func coverFiles(p program.Program, files map[string]bool) (out []string) {
	for name := range files {
		pattern := path.Join(path.Dir(name), "*"+path.Ext(name))
		found, err := p.Match(pattern)
		if err != nil || slices.ContainsFunc(found, func(file string) bool { return !files[nameIn(p, file)] }) {
			pattern = name
		}
		out = append(out, pattern)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nameIn returns the name of a file of a module from the module's root.
func nameIn(p program.Program, file string) string {
	name, err := filepath.Rel(p.Files(), file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(name)
}

// chooseWebhooks returns patterns of files that say which webhooks of the program an API
// server calls: for admission, and for conversions, which Kustomize adds to definitions.
// Files that do so for the same object a second time are left out.
func chooseWebhooks(p program.Program) []string {
	taken, chosen := map[string]bool{}, map[string]bool{}
	for _, name := range slices.Concat(p.Manifests, p.Definitions) {
		objects, err := subject.DecodeBuilt(p, name)
		if err != nil || len(objects) == 0 || slices.ContainsFunc(objects, func(o subject.Object) bool { return !callsOnly(o) || taken[o.Kind+"/"+o.Name] }) {
			continue
		}
		chosen[name] = true
		for _, o := range objects {
			taken[o.Kind+"/"+o.Name] = true
		}
	}
	return coverFiles(p, chosen)
}

// callsOnly tells an object that does nothing but have webhooks called.
func callsOnly(o subject.Object) bool {
	d, _ := readDefinition(o)
	return len(d.Spec.Versions) == 0 && subject.CheckWebhook(o) == nil
}

// readDefinition reads a CustomResourceDefinition; false: the object is none.
func readDefinition(o subject.Object) (d definition, ok bool) {
	ok = o.Kind == "CustomResourceDefinition" && json.Unmarshal(o.Body, &d) == nil
	return d, ok
}
