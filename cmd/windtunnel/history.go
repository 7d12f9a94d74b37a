package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/record"
)

// historyVerb follows a scenario over many runs.
func historyVerb(env *environment) *cobra.Command {
	h := &historian{env: env}
	var failAbove string
	verb := &cobra.Command{
		Use:   "history [DIR]",
		Short: "Find changes of measures over many runs of a scenario",
		Long: "history reads every run directory in DIR, the runs of --add and the history file of earlier\n" +
			"builds, and marks where the level of a measure changed. The file keeps what history needs\n" +
			"of each run; the run directories may be deleted.",
		Example: "  windtunnel history runs/density\n" +
			"  windtunnel history --file history.json --add runs/density/latest --fail-above 5% --output markdown\n" +
			"  windtunnel history --file history.json --accept --measure cpu_ms_per_pod --reason \"audit log on\"\n" +
			"  windtunnel history --csv results.csv --higher throughput",
		Args: cobra.MaximumNArgs(1),
	}
	flags := verb.Flags()
	flags.StringArrayVar(&h.add, "add", nil, "run directory `RUN` to add; repeatable")
	flags.StringVar(&h.file, "file", "", "history `FILE`, kept from build to build; created if it does not exist")
	flags.IntVar(&h.keep, "keep", history.DefaultKeep, "`NUMBER` of newest runs to keep in the file")
	flags.StringVar(&h.csv, "csv", "", "CSV `FILE` of runs to add: a column time, a row for each run; columns of numbers are measures")
	flags.StringSliceVar(&h.higher, "higher", nil, "columns of --csv that begin with `PREFIX` are better when higher; repeatable")
	flags.BoolVar(&h.accept, "accept", false, "accept all changes up to now, or those of --measure: they no longer fail a build")
	flags.StringVar(&h.acceptance.Reason, "reason", "", "`TEXT` that says why the changes are accepted")
	flags.StringVar(&h.acceptance.Owner, "owner", "", "`NAME` of who accepts the changes")
	flags.StringVar(&failAbove, "fail-above", "", "exit with 1 if a measure has become worse by more than `SHARE`, such as 5%; with 0 while there are too few runs")
	flags.BoolVar(&h.every, "all", false, "list every measure, also unchanged ones")
	flags.StringSliceVar(&h.options.Only, "measure", nil, "use only measures whose keys in verdict.json start with `PREFIX`; repeatable")
	forms := append(outputForms(), "csv")
	addOutput(verb, &h.output, forms...)
	verb.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := errors.Join(wantOneOf("--output", h.output, forms...), h.checkFlags()); err != nil {
			return err
		}
		if failAbove != "" {
			if h.options.FailAbove, err = parseShare("--fail-above", failAbove); err != nil {
				return err
			}
		}
		return h.run(cmd.Context(), args)
	}
	return verb
}

// historian is one call of the verb.
type historian struct {
	file, output string
	add          []string
	keep         int
	csv          string
	higher       []string // see history.File.AddCSV
	accept       bool
	acceptance   history.Acceptance
	every        bool // measure is listed, not only those that changed
	options      history.Options
	env          *environment
}

// checkFlags refuses flags that would do nothing.
func (h *historian) checkFlags() error {
	switch {
	case !h.accept && (h.acceptance.Reason != "" || h.acceptance.Owner != ""):
		return errors.New("--reason and --owner go with --accept")
	case h.accept && h.file == "":
		return errors.New("--accept: want --file: what is accepted is kept in the history file")
	case h.csv == "" && len(h.higher) > 0:
		return errors.New("--higher goes with --csv")
	}
	return nil
}

func (h *historian) run(ctx context.Context, args []string) error {
	if len(args) == 0 && len(h.add) == 0 && h.csv == "" && h.file == "" {
		return errors.New("history: want a folder of runs, --add, --csv or --file")
	}
	if h.keep < 1 {
		return fmt.Errorf("--keep %d: want at least 1", h.keep)
	}
	var runs []compare.Run
	for _, folder := range args {
		some, err := h.openRuns(folder)
		if err != nil {
			return err
		}
		runs = append(runs, some...)
	}
	added, err := h.env.openRuns(h.add)
	if err != nil {
		return err
	}
	f, err := h.addRuns(ctx, append(runs, added...))
	if err != nil {
		return err
	}
	return h.printHistory(f)
}

// addRuns adds runs to the file. Builds that end at the same time wait for one
// another: what one has added the next one reads.
func (h *historian) addRuns(ctx context.Context, runs []compare.Run) (*history.File, error) {
	unlock, err := h.lockFile(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := h.readFile()
	if err != nil {
		return nil, err
	}
	if err := f.Add(runs...); err != nil {
		return nil, err
	}
	if err := h.addCSV(f); err != nil {
		return nil, err
	}
	if h.accept {
		h.acceptance.Measures = h.options.Only
		if err := f.Accept(h.acceptance); err != nil {
			return nil, err
		}
	}
	f.Keep(h.keep)
	return f, h.writeFile(f)
}

func (h *historian) addCSV(f *history.File) error {
	if h.csv == "" {
		return nil
	}
	raw, err := record.Dir(filepath.Dir(h.csv)).Read(filepath.Base(h.csv))
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	return f.AddCSV(h.csv, bytes.NewReader(raw), h.higher)
}

// lockTime is how long a history waits for others that write to its folder: they
// have read their runs before and need some milliseconds.
const lockTime = time.Minute

func (h *historian) lockFile(ctx context.Context) (unlock func(), err error) {
	if h.file == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	for {
		unlock, err = record.Dir(filepath.Dir(h.file)).Lock()
		if !errors.Is(err, record.ErrBusy) || clock.Sleep(ctx, 10*time.Millisecond) != nil {
			return unlock, err
		}
	}
}

// readFile reads the file; a new history where there is none.
func (h *historian) readFile() (*history.File, error) {
	if h.file == "" {
		return &history.File{}, nil
	}
	raw, err := os.ReadFile(h.file)
	if errors.Is(err, fs.ErrNotExist) {
		return &history.File{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return history.Decode(h.file, raw)
}

// openRuns opens the run directories in a folder. One that cannot be read is named
// and left out: another version's, or half a one; links such as latest are not
// followed.
func (h *historian) openRuns(folder string) ([]compare.Run, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	var out []compare.Run
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		r, err := compare.Open(filepath.Join(folder, e.Name()))
		switch {
		case errors.Is(err, record.ErrNotRun):
		case err != nil:
			fmt.Fprintf(h.env.stderr, "left out: %v\n", err)
		default:
			out = append(out, r)
		}
	}
	if len(out) == 0 && len(h.add) == 0 {
		return nil, fmt.Errorf("%s: no run directory in it", folder)
	}
	return out, nil
}

// writeFile replaces the file in one step.
func (h *historian) writeFile(f *history.File) error {
	if h.file == "" || len(f.Entries) == 0 {
		return nil
	}
	raw, err := f.Encode()
	if err != nil {
		return err
	}
	return record.Dir(filepath.Dir(h.file)).Write(filepath.Base(h.file), raw)
}

func (h *historian) printHistory(f *history.File) error {
	r, err := history.Look(f, h.options)
	if err != nil {
		return err
	}
	switch h.output {
	case "json":
		err = r.JSON(h.env.data())
	case "csv":
		err = f.WriteCSV(h.env.data(), h.options.Only)
	default:
		err = r.Write(h.env.stdout, h.output == "markdown", h.every)
	}
	if err == nil && r.Gate != nil && !r.Gate.Neutral() {
		return verdictError{r.Gate.Verdict}
	}
	return err
}
