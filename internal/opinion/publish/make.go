package publish

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/archive"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/redact"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/seal"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
)

// Options say what is published.
type Options struct {
	Source  string     // a run directory, or a folder of them such as that of the verb ab
	Control string     // a folder of an A/A comparison; empty: there is none
	Claims  []byte     // the file of claims; empty: none
	Key     ssh.Signer // nil: the bundle is not signed
	Remove  []string   // texts that are taken out wherever they stand
	MadeBy  string     // version of windtunnel

	// FindProgram returns where a program of the runs is that windtunnel itself brings or
	// finds, such as kube-plane; empty: nowhere. Nil: they are not at hand.
	FindProgram func(name string, m record.Manifest) string

	Calibration *Calibration   // of Machine; nil: none
	Machine     record.Machine // runs of another have no calibration
}

// maker is one bundle that is being made in a folder.
type maker struct {
	Options
	dir    record.Dir
	redact *redact.Redactor
	index  Index
	folder []string // of each run of the experiment as it was flown
}

// Make writes a bundle to w and returns what is in it. Where a claim does not hold, or its
// runs cannot show it, it writes nothing: the state of the claim tells. It ends with the
// context's cause where that ends first.
func Make(ctx context.Context, w io.Writer, o Options) (*Results, error) {
	folder, err := os.MkdirTemp("", "windtunnel-publish-")
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	defer os.RemoveAll(folder)
	m := &maker{Options: o, dir: record.Dir(folder), redact: redact.New(o.Remove...), index: Index{Format: Format, MadeBy: o.MadeBy, Logs: []Log{}}}
	if err := m.collect(ctx, &m.index.Experiment, o.Source, runsFolder); err != nil {
		return nil, err
	}
	if o.Control != "" {
		m.index.Control = &Experiment{}
		if err := m.collect(ctx, m.index.Control, o.Control, controlFolder); err != nil {
			return nil, err
		}
	}
	if err := m.calibrate(); err != nil {
		return nil, err
	}
	if err := errors.Join(m.writeFile(ClaimsFile, o.Claims), m.writeJSON(RemovedFile, removedList{m.redact.Removed()})); err != nil {
		return nil, err
	}
	b, err := m.build(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(b.results.Claims, func(c ClaimResult) bool { return c.State != Holds }) {
		return &b.results, nil
	}
	return &b.results, m.write(w, b)
}

// calibrate keeps the calibration beside the runs or, if one has none, that of now if it
// is of the machine of all runs.
func (m *maker) calibrate() error {
	if m.index.Calibration = CalibrationOf(m.folder); m.index.Calibration != nil {
		return nil
	}
	for _, p := range m.index.Experiment.paths() {
		var manifest record.Manifest
		if err := readJSON(m.dir, p+"/"+record.ManifestFile, &manifest); err != nil {
			return err
		}
		if !compare.SameMachine(compare.Run{Manifest: manifest}, compare.Run{Manifest: record.Manifest{Machine: m.Machine}}) {
			return nil
		}
	}
	m.index.Calibration = m.Calibration
	return nil
}

// build computes what follows. A run that cannot be judged is left out with the reason.
func (m *maker) build(ctx context.Context) (*built, error) {
	for {
		b, err := build(ctx, m.dir, &m.index)
		var bad *runError
		if !errors.As(err, &bad) {
			return b, err
		}
		e := &m.index.Experiment
		if strings.HasPrefix(bad.run, controlFolder+"/") {
			e = m.index.Control
		}
		e.leaveOut(bad.run, m.redact.Text(strings.ReplaceAll(bad.err.Error(), string(m.dir)+"/", "")))
		if err := os.RemoveAll(m.dir.File(bad.run)); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(e.Sides, func(s Side) bool { return len(s.Runs) == 0 }) {
			return nil, fmt.Errorf("%s: %w: %w", m.Source, ErrNoRuns, bad.err)
		}
	}
}

// leaveOut takes a run out of an experiment.
func (e *Experiment) leaveOut(run, why string) {
	for i := range e.Sides {
		e.Sides[i].Runs = slices.DeleteFunc(e.Sides[i].Runs, func(r string) bool { return r == run })
	}
	first, _, _ := strings.Cut(why, "\n")
	e.LeftOut = append(e.LeftOut, LeftOut{path.Base(run), first})
}

// collect copies the runs of a folder into the bundle, without what is to be taken out.
func (m *maker) collect(ctx context.Context, e *Experiment, source, folder string) error {
	if _, _, err := record.OpenDir(source); err == nil {
		e.Sides = []Side{{Runs: []string{}}}
		return m.addRun(ctx, e, 0, source, folder, filepath.Base(filepath.Clean(source)))
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	a, b, err := m.readSides(e, source)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() { // a link such as latest is a run twice
			continue
		}
		_, _, err := record.OpenDir(filepath.Join(source, name))
		first, _, _ := strings.Cut(name, "-unfinished-") // how ab moves a run aside
		side := 0
		parts := turnName.FindStringSubmatch(first)
		if len(e.Sides) == 2 && !slices.Contains(a, first) && (slices.Contains(b, first) || parts != nil && parts[1] == "b") {
			side = 1
		}
		switch {
		case errors.Is(err, record.ErrNotRun) && !slices.Contains(slices.Concat(a, b), name):
		case err != nil:
			e.LeftOut = append(e.LeftOut, LeftOut{name, m.redact.Text(err.Error())})
		default:
			if err := m.addRun(ctx, e, side, filepath.Join(source, name), folder, name); err != nil {
				return err
			}
		}
	}
	if len(e.paths()) == 0 {
		return fmt.Errorf("%s: %w", source, ErrNoRuns)
	}
	return nil
}

// sidesByName finds the runs of an experiment that was stopped before it was compared, by
// the names that the verb ab gives. There is one side where there are no such runs.
func (e *Experiment) sidesByName(source string) (a, b []string, err error) {
	entries, err := os.ReadDir(source)
	for _, entry := range entries {
		switch parts := turnName.FindStringSubmatch(entry.Name()); {
		case parts == nil || !entry.IsDir():
		case parts[1] == "a":
			a = append(a, entry.Name())
		default:
			b = append(b, entry.Name())
		}
	}
	e.Sides = []Side{{Runs: []string{}}}
	if len(a) > 0 && len(b) > 0 {
		e.Sides = append(e.Sides, Side{Runs: []string{}})
	}
	return a, b, err
}

// readSides reads which runs a comparison in the folder was made of.
func (m *maker) readSides(e *Experiment, source string) (a, b []string, err error) {
	raw, err := record.Dir(source).Read(ComparisonFile)
	if errors.Is(err, fs.ErrNotExist) {
		return e.sidesByName(source)
	}
	var c compare.Comparison
	if err == nil {
		err = text.DecodeJSON(filepath.Join(source, ComparisonFile), raw, &c)
	}
	if err != nil {
		return nil, nil, err
	}
	e.Sides = []Side{{m.redact.Text(c.A.Name), []string{}}, {m.redact.Text(c.B.Name), []string{}}}
	names := func(s compare.Side) (out []string) {
		for _, r := range s.Runs {
			out = append(out, filepath.Base(r))
		}
		for _, l := range s.LeftOut {
			name, _, _ := strings.Cut(l, ": ")
			out = append(out, filepath.Base(name))
		}
		return out
	}
	a, b = names(c.A), names(c.B)
	e.Mentioned = slices.Concat(a, b)
	for _, d := range c.Differences {
		if d.Asked {
			e.Asked = append(e.Asked, d.Fact)
		}
	}
	for _, w := range c.Warnings {
		if name, why, ok := strings.Cut(w, " could not be flown: "); ok {
			e.LeftOut = append(e.LeftOut, LeftOut{filepath.Base(name), m.redact.Text("could not be flown: " + why)})
		}
	}
	if c.Gate != nil {
		e.FailAbove = c.Gate.FailAbove
	}
	return a, b, nil
}

var unsafeRune = regexp.MustCompile(`^[^A-Za-z0-9]|[^A-Za-z0-9._=-]`)

// addRun copies one run.
func (m *maker) addRun(ctx context.Context, e *Experiment, side int, source, folder, name string) error {
	to := folder + "/" + unsafeRune.ReplaceAllString(m.redact.Text(name), "_")
	if slices.Contains(e.paths(), to) || !runPath.MatchString(to) {
		return fmt.Errorf("publish %s: a bundle cannot have a run of that name", source)
	}
	from := record.Dir(source)
	files := []string{record.ManifestFile, record.ScenarioFile, record.StreamFile}
	workers, err := os.ReadDir(from.File(record.WorkersFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("publish: %w", err)
	}
	for _, w := range workers {
		files = append(files, record.WorkersFolder+"/"+w.Name())
	}
	e.Sides[side].Runs = append(e.Sides[side].Runs, to)
	for _, file := range files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !runFile.MatchString(file) {
			continue
		}
		if err := m.copyFile(from, file, to+"/"+file); err != nil && (file != record.ScenarioFile || !errors.Is(err, fs.ErrNotExist)) {
			e.leaveOut(to, m.redact.Text(err.Error()))
			return os.RemoveAll(m.dir.File(to))
		}
	}
	var manifest record.Manifest // as it was flown: with the paths of its programs
	if err := readJSON(from, record.ManifestFile, &manifest); err != nil {
		return err
	}
	if e == &m.index.Experiment {
		m.folder = append(m.folder, source)
	}
	e.Seed = cmp.Or(e.Seed, manifest.Seed)
	return errors.Join(m.addLogs(from, to), m.addComponents(manifest))
}

// copyFile copies a file of a run without what is to be taken out.
func (m *maker) copyFile(from record.Dir, file, to string) error {
	m.redact.Begin(to)
	if err := os.MkdirAll(filepath.Dir(m.dir.File(to)), 0o700); err != nil {
		return err
	}
	if strings.HasSuffix(file, ".wt") {
		out, err := os.OpenFile(m.dir.File(to), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(from.RewriteStream(out, file, m.redact.Text), out.Close())
	}
	raw, err := from.Read(file)
	if err != nil {
		return err
	}
	if file == record.ScenarioFile {
		raw = []byte(m.redact.Scenario(string(raw)))
	} else if raw, err = m.redact.JSON(raw); err != nil {
		return err
	}
	return m.writeFile(to, raw)
}

// addLogs notes the digests of a run's logs.
func (m *maker) addLogs(from record.Dir, to string) error {
	entries, err := os.ReadDir(from.File(record.LogFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		name := record.LogFolder + "/" + entry.Name()
		file, err := from.Open(name)
		if err != nil {
			continue // a folder, or a link
		}
		sum := sha256.New()
		n, err := io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		m.index.Logs = append(m.index.Logs, Log{Name: to + "/" + m.redact.Text(name), Bytes: n, SHA256: fmt.Sprintf("%x", sum.Sum(nil))})
	}
	return err
}

// writeFile writes a file of the folder, which nobody wants after a power loss.
func (m *maker) writeFile(name string, content []byte) error {
	return os.WriteFile(m.dir.File(name), content, 0o600)
}

func (m *maker) writeJSON(name string, v any) error {
	raw, err := encodeFile(v)
	if err != nil {
		return err
	}
	return m.writeFile(name, raw)
}

// write writes what was computed, the digests and the statement, and then the archive.
func (m *maker) write(w io.Writer, b *built) error {
	if err := m.writeJSON(IndexFile, m.index); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if err := m.writeFile(name, b.files[name]); err != nil {
			return err
		}
	}
	if err := compressStreams(m.dir); err != nil {
		return err
	}
	digests, err := digestFolder(string(m.dir))
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(digests))
	sums := archive.Sums(names, digests)
	statement, err := newStatement(sums, digests, &b.results).Encode()
	if err != nil {
		return err
	}
	last := StatementFile
	if m.Key != nil {
		last = EnvelopeFile
		if statement, err = seal.Sign(statement, m.Key); err != nil {
			return err
		}
	}
	if err := errors.Join(m.writeFile(SumsFile, []byte(sums)), m.writeFile(last, statement)); err != nil {
		return err
	}
	names = append(names, SumsFile, last)
	slices.Sort(names)
	return archive.Write(w, names, func(name string) (io.ReadSeekCloser, error) { return m.dir.Open(name) })
}

// digestFolder returns the digests of all files in a folder.
func digestFolder(folder string) (map[string]archive.Digest, error) {
	out := map[string]archive.Digest{}
	err := filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, p)
		if err != nil {
			return err
		}
		file, err := os.Open(p)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		out[filepath.ToSlash(name)] = archive.Digest(sum.Sum(nil))
		return errors.Join(err, file.Close())
	})
	return out, err
}

// newStatement says what the bundle of these digests shows.
func newStatement(sums string, digests map[string]archive.Digest, r *Results) seal.Statement {
	root := archive.Root(sums)
	s := seal.Statement{
		Type: seal.StatementType, Subject: []seal.Descriptor{seal.SHA256("windtunnel bundle, Merkle root", root[:])}, PredicateType: seal.PredicateType,
		Predicate: seal.TestResult{Result: "PASSED", Configuration: []seal.Descriptor{}},
	}
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		sum := digests[name]
		known := slices.ContainsFunc(s.Predicate.Configuration, func(d seal.Descriptor) bool {
			return bytes.Equal([]byte(d.Digest["sha256"]), fmt.Appendf(nil, "%x", sum))
		})
		if path.Base(name) == record.ScenarioFile && !known {
			s.Predicate.Configuration = append(s.Predicate.Configuration, seal.SHA256(name, sum[:]))
		}
	}
	for _, c := range r.Claims {
		s.Predicate.PassedTests = append(s.Predicate.PassedTests, c.Says)
	}
	for _, rule := range r.Checked {
		if !rule.Met {
			s.Predicate.Result = "WARNED"
			s.Predicate.WarnedTests = append(s.Predicate.WarnedTests, "run rule "+rule.Name+": "+cmp.Or(rule.Why, rule.Says))
		}
	}
	return s
}
