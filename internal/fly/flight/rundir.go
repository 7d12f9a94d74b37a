package flight

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/fly/flight/journal"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// directory is the run directory of a run under way.
type directory struct {
	record.Dir
	made     []string // folders that this run has made, its own first; nil: where it was told to
	before   string   // what the link latest led to; empty: there was none
	unlock   func()   // lets others write to it
	records  *record.Writer
	told     int // limits that are not in force, as far as that is told
	manifest record.Manifest
	clock    clock.Clock
	log      *slog.Logger
}

// newDirectory makes the run directory and what is in it from the start.
func newDirectory(o Options, in Imported, id string, c clock.Clock) (*directory, error) {
	out := o.Out
	var made []string
	if out == "" {
		name := filepath.Join("runs", in.Scenario.Name, c.Epoch().Format("20060102T150405Z"))
		for folder := filepath.Dir(name); folder != "."; folder = filepath.Dir(folder) {
			if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
				made = append(made, folder)
			}
		}
		out = makeVacant(name)
		made = append([]string{out}, made...)
	}
	dir, err := record.CreateDir(out)
	if err != nil {
		return nil, err
	}
	unlock, err := dir.Lock()
	if err != nil {
		return nil, err
	}
	d := &directory{Dir: dir, made: made, unlock: unlock, clock: c, log: o.Log, manifest: newManifest(in, o, c)}
	d.manifest.Run = id
	if err := dir.Write(record.ScenarioFile, in.Native); err != nil {
		return nil, err
	}
	if d.records, err = record.Create(dir.File(record.StreamFile)); err != nil {
		return nil, err
	}
	// With its manifest the folder is a run, which judge can read whenever it was killed.
	if err := d.saveManifest(); err != nil {
		return nil, errors.Join(err, d.records.Close())
	}
	if o.Out == "" {
		d.linkLatest()
	}
	return d, nil
}

// makeVacant makes a folder of that name, or of that name with a number: of runs that begin
// in the same second each has its own. What keeps it from that is said by who uses it.
func makeVacant(name string) string {
	_ = os.MkdirAll(filepath.Dir(name), 0o700)
	path := name
	for i := 2; errors.Is(os.Mkdir(path, 0o700), fs.ErrExist); i++ {
		path = fmt.Sprintf("%s-%d", name, i)
	}
	return path
}

func newManifest(in Imported, o Options, c clock.Clock) record.Manifest {
	s := in.Scenario
	out := record.Manifest{
		Format: record.Format, Scenario: s.Name, File: filepath.Base(o.File), Imported: in.Format,
		Command: commandWithoutSecrets(o.Command), Parameters: KeptParameters(s.Values), Seed: s.Seed, Started: c.Epoch(),
		Versions: o.Versions, SHA256: build.OwnSHA256(), Machine: usage.Machine(), MaxNeighbours: o.MaxNeighbours,
		Fleet: record.FleetFacts{
			Nodes: s.Fleet.Nodes, LeaseSeconds: time.Duration(s.Fleet.Lease).Seconds(),
			RenewEverySeconds:  time.Duration(s.Fleet.Lease).Seconds() / 4,
			StatusEverySeconds: time.Duration(s.Fleet.Status).Seconds(),
			StretchedHeartbeat: s.Fleet.Nodes > 0 && time.Duration(s.Fleet.Lease) != scenario.DefaultLease,
		},
	}
	if n := o.Workers.CountAll(); n > 0 {
		out.Workers = &record.WorkersFact{Count: n, Fleets: o.Workers.Fleets, Where: "processes", Tolerate: o.Workers.Tolerate}
		switch {
		case o.Workers.Pods != nil:
			out.Workers.Where = "pods"
		case o.Workers.Manual != nil:
			out.Workers.Where = "byHand"
		}
	}
	return out
}

// linkLatest points runs/SCENARIO/latest at this run. A file system without links
// costs only the convenience.
func (d *directory) linkLatest() {
	latest := filepath.Join(filepath.Dir(string(d.Dir)), "latest")
	d.before, _ = os.Readlink(latest) // empty where there is none
	tmp := latest + ".new"
	_ = os.Remove(tmp)
	if err := os.Symlink(filepath.Base(string(d.Dir)), tmp); err == nil {
		if os.Rename(tmp, latest) != nil {
			_ = os.Remove(tmp)
		}
	}
}

// removeIfEmpty removes a directory that this run has made by itself and in which nothing stands
// but why it was refused: no component has written a log. The link latest is what it was
// before. False: it is kept.
func (d *directory) removeIfEmpty() bool {
	logs, err := os.ReadDir(d.File(record.LogFolder))
	if len(d.made) == 0 || err != nil || len(logs) > 0 {
		return false
	}
	latest := filepath.Join(filepath.Dir(string(d.Dir)), "latest")
	if to, err := os.Readlink(latest); err == nil && to == filepath.Base(string(d.Dir)) {
		_ = os.Remove(latest)
		if d.before != "" {
			_ = os.Symlink(d.before, latest)
		}
	}
	if os.RemoveAll(string(d.Dir)) != nil {
		return false
	}
	for _, folder := range d.made[1:] {
		_ = os.Remove(folder) // unless something else is in it by now
	}
	return true
}

func (d *directory) saveManifest() error { return d.WriteJSON(record.ManifestFile, d.manifest) }

// newJournal writes the run's events.
func (d *directory) newJournal() journal.Journal {
	return journal.Journal{Records: d.records, Clock: d.clock}
}

// addWarning keeps a sentence for the manifest and the report, and says it now.
func (d *directory) addWarning(text string) {
	d.addNote(text)
	d.log.Warn(text)
}

// addNote keeps a sentence for the manifest and the report.
func (d *directory) addNote(text string) {
	d.manifest.Warnings = append(d.manifest.Warnings, text)
	d.newJournal().Warned(text)
}

// recordUnmet keeps in the records that something which the run was asked for did not come
// about: the verdict is made of it.
func (d *directory) recordUnmet(asked string, state record.State, why string) {
	d.newJournal().Unmet(asked, state, why)
	d.log.Warn(asked+": "+why, slog.String("state", string(state)))
}

// claimOwner says in the run directory which process flies the run, for the live
// page; what it returns takes that back, and lets others write to the directory.
func (d *directory) claimOwner() (release func()) {
	self, err := process.Self()
	if err == nil {
		err = d.WriteJSON(record.OwnerFile, self)
	}
	if err != nil {
		d.log.Debug("the live page will not know of this run", slog.Any("error", err))
		return d.unlock
	}
	return func() {
		_ = os.Remove(d.File(record.OwnerFile))
		_ = os.Remove(d.File(record.StatusFile))
		d.unlock()
	}
}

// tellUnlimited says whose limits are not in force, each once; all is as many as at the call
// before, or more.
func (d *directory) tellUnlimited(all []plane.Unlimited) {
	for _, u := range all[d.told:] {
		d.recordUnmet("limit of "+u.Name, record.NotInForce, u.Why)
	}
	d.told = len(all)
}
