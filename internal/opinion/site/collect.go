// Package site makes one page of the results of many runs: verdicts, trends, changes of
// level, any two runs side by side, and the claims of published bundles.
//
// It judges nothing. It believes the verdict.json of a run directory and reads no records,
// so that ten thousand runs take seconds. It verifies a bundle, and shows nothing of one
// that does not hold.
package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bounds of what is read and shown. Run directories and bundles come from anywhere.
const (
	maxRuns     = 20_000
	maxDepth    = 8   // of folders in a folder
	maxMeasures = 500 // that are judged, of one run
	maxName     = 200 // characters of a name
)

// readingGC trades memory for time.
const readingGC = 300

// ErrNothing says that no source has a result.
var ErrNothing = errors.New("there is no run, bundle or history that can be shown")

// Options say what is on the page.
type Options struct {
	Sources []string // run directories, folders of them, bundles (.wtb), history files (.json)
	Signers []string // fingerprints of who may have signed bundles
	Version string   // of this windtunnel
	Folder  string   // that the page is written to: it links to reports that lie below
}

// collector reads sources.
type collector struct {
	o       Options
	folder  string // Options.Folder without links, absolute
	found   []runFolder
	runs    []oneRun
	bundles []bundleView
	notes   []string // of what was left out, sentences
}

// oneRun is what the page needs of a run.
type oneRun struct {
	history.Entry
	scenario string
	report   string // URL, relative to the page; empty: none
}

// bundleView is a bundle as the page shows it.
type bundleView struct {
	Name, State, Word, Scenario, Level, Signer, Runs string
	Claims, Checks                                   []stated
}

// stated is a sentence with what became of it.
type stated struct{ State, Text string }

// collect reads all sources.
func collect(ctx context.Context, o Options) (*collector, error) {
	c := &collector{o: o}
	folder, err := filepath.Abs(o.Folder)
	if err == nil {
		c.folder, err = filepath.EvalSymlinks(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("make site: %w", err)
	}
	for _, source := range o.Sources {
		if err := c.addSource(ctx, source); err != nil {
			return nil, err
		}
	}
	if err := c.readRuns(ctx); err != nil {
		return nil, err
	}
	if len(c.runs)+len(c.bundles) == 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(append(c.notes, o.Sources...), " "), ErrNothing)
	}
	return c, nil
}

// addSource reads a source that the user named. Its name on the page has no path before it.
func (c *collector) addSource(ctx context.Context, source string) error {
	whole, err := filepath.Abs(source)
	if err == nil {
		whole, err = filepath.EvalSymlinks(whole)
	}
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	info, err := os.Stat(whole)
	name := filepath.Base(whole)
	switch {
	case err != nil:
		return fmt.Errorf("read results: %w", err)
	case info.IsDir():
		return c.addFolder(ctx, whole, name, 0)
	case filepath.Ext(whole) == ".wtb":
		return c.addBundle(ctx, whole, name)
	case filepath.Ext(whole) == ".json":
		return c.addHistory(whole)
	}
	return fmt.Errorf("%s: want a run directory, a folder of them, a bundle (.wtb) or a history file (.json)", source)
}

// addFolder finds the run directories and the bundles in a folder, which may be a run
// directory itself. Links in it are not followed.
func (c *collector) addFolder(ctx context.Context, folder, name string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := os.Lstat(filepath.Join(folder, record.ManifestFile)); err == nil {
		c.found = append(c.found, runFolder{folder, name})
		return nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		c.leaveOut(name, strings.ReplaceAll(err.Error(), folder, name))
		return nil
	}
	for _, e := range entries {
		inside, err := path.Join(name, e.Name()), error(nil)
		switch {
		case e.IsDir() && depth == maxDepth:
			c.leaveOut(inside, fmt.Sprintf("it lies more than %s deep", unit.Count(maxDepth, "folders")))
		case e.IsDir():
			err = c.addFolder(ctx, filepath.Join(folder, e.Name()), inside, depth+1)
		case e.Type().IsRegular() && filepath.Ext(e.Name()) == ".wtb":
			err = c.addBundle(ctx, filepath.Join(folder, e.Name()), inside)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runFolder is a run directory that was found.
type runFolder struct{ path, name string }

// readRuns reads the run directories that were found, on all cores.
func (c *collector) readRuns(ctx context.Context) error {
	defer debug.SetGCPercent(debug.SetGCPercent(readingGC)) // what is alive is a tenth of what is read
	runs, faults := make([]oneRun, len(c.found)), make([]error, len(c.found))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(c.found) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				runs[i], faults[i] = c.readRun(c.found[i])
			}
		})
	}
	readers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, f := range c.found {
		err := faults[i]
		if err == nil {
			err = c.admit(runs[i])
		}
		if err != nil {
			c.leaveOut(f.name, strings.ReplaceAll(err.Error(), f.path, f.name))
		}
	}
	return nil
}

// leaveOut says why something is not on the page.
func (c *collector) leaveOut(name, why string) {
	c.notes = append(c.notes, text.Sentence(fmt.Sprintf("%s: %s", name, strings.TrimPrefix(why, name+": "))))
}

// readRun reads a run directory.
func (c *collector) readRun(f runFolder) (oneRun, error) {
	dir, manifest, err := record.OpenDir(f.path)
	if err != nil {
		return oneRun{}, err
	}
	raw, err := dir.Read(record.VerdictFile)
	if errors.Is(err, fs.ErrNotExist) {
		return oneRun{}, errors.New("it has no verdict.json: windtunnel judge writes it")
	}
	if err != nil {
		return oneRun{}, err
	}
	var verdict struct { // the objectives, the larger part, are not looked at
		Verdict  slo.Verdict            `json:"verdict"`
		Measures map[string]slo.Measure `json:"measures"` // slo.Measures would read them twice
	}
	if err := text.DecodeJSON(record.VerdictFile, raw, &verdict); err != nil {
		return oneRun{}, err
	}
	scenario, err := dir.Read(record.ScenarioFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return oneRun{}, err
	}
	slo.Measures(verdict.Measures).UseCurrentKeys()
	r := oneRun{Entry: history.NewEntry(compare.Run{
		Name: f.name, Manifest: manifest, Scenario: string(scenario),
		Judgement: slo.Judgement{Verdict: verdict.Verdict, Measures: verdict.Measures},
	}), scenario: manifest.Scenario}
	if _, ok := dir.Stat(record.ReportFile); ok {
		r.report = c.linkTo(filepath.Join(f.path, record.ReportFile))
	}
	if len(r.Measures) > maxMeasures {
		r.Measures = nil
		return r, fmt.Errorf("it has more than %s", unit.Count(maxMeasures, "measures"))
	}
	return r, nil
}

// admit takes a run that can be shown.
func (c *collector) admit(r oneRun) error {
	switch {
	case len(c.runs) == maxRuns:
		return fmt.Errorf("the page has %s already", unit.Count(maxRuns, "runs"))
	case r.Started.IsZero():
		return errors.New("its manifest does not say when it was run")
	case !slices.Contains([]slo.Verdict{slo.Pass, slo.Fail, slo.Unknown}, r.Verdict):
		return fmt.Errorf("its verdict is %q", r.Verdict)
	case len(r.Measures) > maxMeasures:
		return fmt.Errorf("it has more than %s", unit.Count(maxMeasures, "measures"))
	}
	c.runs = append(c.runs, r)
	return nil
}

// linkTo returns the URL of a file below the folder of the page; empty for any other, which
// would not be there where the page is copied to.
func (c *collector) linkTo(file string) string {
	rel, err := filepath.Rel(c.folder, file)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return (&url.URL{Path: "./" + filepath.ToSlash(rel)}).String()
}

// addHistory reads a history file.
func (c *collector) addHistory(file string) error {
	dir, base := record.SplitFile(file)
	raw, err := dir.Read(base)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	f, err := history.Decode(base, raw)
	if err != nil {
		return err
	}
	for _, e := range f.Entries {
		if err := c.admit(oneRun{Entry: e, scenario: f.Scenario}); err != nil {
			c.leaveOut(base+": "+e.Name, err.Error())
		}
	}
	return nil
}

// addBundle verifies a bundle. The error is the cause of a context that ended.
func (c *collector) addBundle(ctx context.Context, file, name string) error {
	v, err := publish.Verify(ctx, file, c.o.Signers, c.o.Version)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		c.leaveOut(name, strings.ReplaceAll(err.Error(), file, name))
		return nil
	}
	b := bundleView{Name: name, State: verdictOf(v.State), Signer: cmp.Or(v.Signer, "nobody"),
		Word: map[string]string{publish.Holds: "Holds", publish.Fails: "Does not hold", publish.Unknown: "It cannot be told whether it holds"}[v.State]}
	shown := v.State != publish.Fails && v.Results != nil
	for _, check := range v.Checks {
		if check.State != publish.Holds && !(shown && check.Name == "claim") {
			b.Checks = append(b.Checks, stated{verdictOf(check.State), check.Name + ": " + check.Why})
		}
	}
	if shown {
		c.addResults(&b, v)
	}
	c.bundles = append(c.bundles, b)
	return nil
}

// addResults adds the claims and the runs of a bundle that was verified.
func (c *collector) addResults(b *bundleView, v *publish.Verification) {
	b.Scenario, b.Runs, b.Level = v.Results.Scenario, unit.Count(len(v.Results.Runs), "runs"), v.Level()
	for _, claim := range v.Results.Claims {
		b.Claims = append(b.Claims, stated{verdictOf(claim.State), claim.Sentence()})
	}
	for _, r := range v.Runs {
		r.Name = b.Name + "/" + path.Base(r.Name)
		if err := c.admit(oneRun{Entry: history.NewEntry(r), scenario: r.Manifest.Scenario}); err != nil {
			c.leaveOut(r.Name, err.Error())
		}
	}
}

// verdictOf is the verdict that a state of a check stands for, whose colour the page has.
func verdictOf(state string) string {
	switch state {
	case publish.Holds:
		return string(slo.Pass)
	case publish.Fails:
		return string(slo.Fail)
	}
	return string(slo.Unknown)
}
