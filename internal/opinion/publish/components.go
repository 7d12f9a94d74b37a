package publish

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Executable is a program of the runs whose digest a manifest has. Its list of components
// (SBOM, CycloneDX) is in the bundle, or it is said why not.
type Executable struct {
	Name       string `json:"name"`
	SHA256     string `json:"sha256"`
	Components string `json:"components,omitempty"` // file in the bundle; empty: none
	Modules    int    `json:"modules,omitempty"`    // Go modules in it
	Why        string `json:"why,omitempty"`        // it has no list; empty with no list: it is missing
}

// componentsFolder has the lists of components, and componentsFile is the name of one.
const componentsFolder = "components"

var componentsFile = regexp.MustCompile(`^` + componentsFolder + `/[A-Za-z0-9][A-Za-z0-9._=-]*\.cdx\.json\.gz$`)

// errComponents says that a list of components is not that of the runs' executable.
var errComponents = errors.New("list of components")

// file is where the list of components of an executable is.
func (e Executable) file() string {
	return fmt.Sprintf("%s/%s-%.12s.cdx.json.gz", componentsFolder, unsafeRune.ReplaceAllString(e.Name, "_"), e.SHA256)
}

// bom is a list of components as CycloneDX 1.6 has it, with what Go writes into an
// executable.
type bom struct {
	Format      string         `json:"bomFormat"`
	SpecVersion string         `json:"specVersion"`
	Version     int            `json:"version"`
	Metadata    bomMetadata    `json:"metadata"`
	Components  []bomComponent `json:"components"`
}

type bomMetadata struct {
	Component bomComponent `json:"component"`
}

type bomComponent struct {
	Type       string        `json:"type"`
	Name       string        `json:"name"`
	Version    string        `json:"version,omitempty"`
	Hashes     []bomHash     `json:"hashes,omitempty"`
	PURL       string        `json:"purl,omitempty"`
	Properties []bomProperty `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// newComponents lists what an executable with this digest was built of.
func newComponents(name, sum string, info *debug.BuildInfo) bom {
	program := bomComponent{Type: "application", Name: name, Version: info.Main.Version, Hashes: []bomHash{{"SHA-256", sum}}}
	for _, s := range info.Settings {
		if s.Key != "-ldflags" { // which holds paths of the machine that built it
			program.Properties = append(program.Properties, bomProperty{"go:build:" + s.Key, s.Value})
		}
	}
	out := bom{"CycloneDX", "1.6", 1, bomMetadata{program}, []bomComponent{newLibrary("std", info.GoVersion, "")}}
	for _, m := range info.Deps {
		if m.Replace != nil && strings.HasPrefix(m.Replace.Version, "v") { // else a folder, whose path says nothing to others
			m = m.Replace
		}
		out.Components = append(out.Components, newLibrary(m.Path, m.Version, m.Sum))
	}
	return out
}

// newLibrary is a Go module. Its digest is that of go.sum, as cyclonedx-gomod writes it.
func newLibrary(path, version, sum string) bomComponent {
	c := bomComponent{Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + version}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == sha256.Size {
		c.Hashes = []bomHash{{"SHA-256", fmt.Sprintf("%x", raw)}}
	}
	return c
}

// encode returns the list as a file of a bundle.
func (b bom) encode(clean func([]byte) ([]byte, error)) ([]byte, error) {
	raw, err := json.Marshal(b)
	if err == nil {
		raw, err = clean(raw)
	}
	if err == nil {
		raw, err = encodeFile(json.RawMessage(raw))
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // a level that there is
	if _, err = z.Write(raw); err == nil {
		err = z.Close()
	}
	return out.Bytes(), err
}

// decodeComponents reads a list of components.
func decodeComponents(raw []byte) (b bom, err error) {
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return b, err
	}
	raw, err = io.ReadAll(io.LimitReader(z, record.MaxFile+1))
	if err == nil && len(raw) > record.MaxFile {
		err = record.ErrTooLarge
	}
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(raw, &b)
}

// executablesOf lists the executables whose digests the manifests of runs have.
func executablesOf(runs []compare.Run) (out []Executable) {
	for _, r := range runs {
		for _, p := range r.Manifest.Programs() {
			addNew(&out, Executable{Name: p.Name, SHA256: p.SHA256})
		}
	}
	return out
}

// addComponents adds the list of components of each executable of a run that is at hand as
// it flew, and notes why there is none of another.
func (m *maker) addComponents(manifest record.Manifest) error {
	for _, p := range manifest.Programs() {
		e := Executable{Name: m.redact.Text(p.Name), SHA256: p.SHA256}
		if _, err := os.Stat(m.dir.File(e.file())); err == nil || slices.ContainsFunc(m.index.WithoutComponents, func(l LeftOut) bool { return l.Name == e.file() }) {
			continue
		}
		list, why := readComponents(e, m.find(p, manifest))
		if why != "" {
			m.index.WithoutComponents = append(m.index.WithoutComponents, LeftOut{e.file(), why})
			continue
		}
		m.redact.Begin(e.file())
		raw, err := list.encode(m.redact.JSON)
		if err == nil {
			err = os.MkdirAll(m.dir.File(componentsFolder), 0o700)
		}
		if err == nil {
			err = m.writeFile(e.file(), raw)
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", e.file(), err)
		}
	}
	return nil
}

// find returns the path of a program of a run; empty: it is not known.
func (m *maker) find(p record.Program, manifest record.Manifest) string {
	if p.Path == "" && m.FindProgram != nil {
		return m.FindProgram(p.Name, manifest)
	}
	return p.Path
}

// readComponents reads the list of an executable; why says that there is none.
func readComponents(e Executable, path string) (list bom, why string) {
	if path == "" {
		return list, "the executable was not at hand"
	}
	file, err := os.Open(path)
	if err != nil {
		return list, "the executable was not at hand"
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return list, "the executable cannot be read"
	}
	if fmt.Sprintf("%x", sum.Sum(nil)) != e.SHA256 {
		return list, "the executable at hand is another"
	}
	info, err := buildinfo.Read(file)
	if err != nil {
		return list, "the executable does not say what Go modules it was built of"
	}
	return newComponents(e.Name, e.SHA256, info), ""
}

// checkComponents holds the lists of components in the folder against the executables of
// the runs.
func checkComponents(dir record.Dir, x *Index, runs []compare.Run) ([]Executable, error) {
	if x.Format < 2 {
		return nil, nil
	}
	out := executablesOf(runs)
	var known []string
	for i := range out {
		e := &out[i]
		known = append(known, e.file())
		why := slices.IndexFunc(x.WithoutComponents, func(l LeftOut) bool { return l.Name == e.file() })
		raw, err := dir.Read(e.file())
		switch {
		case errors.Is(err, fs.ErrNotExist) && why >= 0:
			e.Why = x.WithoutComponents[why].Why
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue
		}
		var list bom
		if err == nil {
			list, err = decodeComponents(raw)
		}
		if err == nil {
			err = list.check(*e, runs)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errComponents, e.file(), err)
		}
		e.Components, e.Modules = e.file(), len(list.Components)
	}
	return out, checkFolder(dir, known)
}

// checkFolder refuses lists of executables that no run names.
func checkFolder(dir record.Dir, known []string) error {
	entries, err := os.ReadDir(dir.File(componentsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if name := componentsFolder + "/" + entry.Name(); !slices.Contains(known, name) {
			return fmt.Errorf("%w: %s: no run has the executable", errComponents, name)
		}
	}
	return nil
}

// check says whether the list is one of this executable, and has the modules of which
// manifests say that it was built.
func (b bom) check(e Executable, runs []compare.Run) error {
	if b.Format != "CycloneDX" || b.Metadata.Component.Name != e.Name || !slices.Contains(b.Metadata.Component.Hashes, bomHash{"SHA-256", e.SHA256}) {
		return errors.New("it is of another executable")
	}
	if len(b.Components) == 0 {
		return errors.New("it is empty")
	}
	for _, r := range runs {
		build := r.Manifest.Plane.Build
		if build == nil || build.Executables[e.Name] != e.SHA256 || len(build.Executables) > 1 {
			continue // of several executables the manifest does not say which has a module
		}
		for path, said := range build.Modules {
			version, sum, _ := strings.Cut(said, " ")
			want := newLibrary(path, version, sum)
			if !slices.ContainsFunc(b.Components, func(c bomComponent) bool {
				return c.Name == want.Name && c.Version == want.Version && slices.Equal(c.Hashes, want.Hashes)
			}) {
				return fmt.Errorf("%s has the module %s %s, which is not in it", r.Name, path, version)
			}
		}
	}
	return nil
}

// checkExecutables says for which executables of the runs the bundle has what they were
// built of.
func (v *verifier) checkExecutables(all []Executable) {
	if len(all) == 0 {
		return // of a bundle of format 1, or of a plane that windtunnel did not start
	}
	state, listed := Holds, 0
	var without []string
	for _, e := range all {
		switch {
		case e.Components != "":
			listed++
		case e.Why == "":
			state = Unknown
			without = append(without, e.Name+" is missing")
		default:
			without = append(without, e.Name+": "+e.Why)
		}
	}
	why := fmt.Sprintf("lists of components of %d of %s", listed, unit.Count(len(all), "executables"))
	if len(without) > 0 {
		why += "; " + strings.Join(without, ", ")
	}
	v.add("components", state, why)
}
