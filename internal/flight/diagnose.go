package flight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/windtunnel/windtunnel/internal/diagnose"
	"github.com/windtunnel/windtunnel/internal/observe/profile"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/series/promql"
)

// diagnose says what limited the plane and writes diagnosis.json. What it could
// not read or work out is in the notes; the error is that of writing.
func (j judged) diagnose() (notes []string, err error) {
	facts, err := j.symptoms()
	if err != nil { // one of an earlier judgement does not belong to this one
		if gone := os.Remove(j.dir.File(diagnose.File)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return nil, gone
		}
		return []string{fmt.Sprintf("What gave way first is left out: %v", err)}, nil
	}
	facts.Contended = map[string]diagnose.Contention{}
	for _, c := range j.manifest.Processes() {
		locks, ok, err := profile.Contended(string(j.dir), c.Name)
		if err != nil {
			notes = append(notes, fmt.Sprintf("What %s waits for inside is left out: %v", c.Name, err))
		}
		if ok {
			facts.Contended[c.Name] = diagnose.Contention(locks)
		}
	}
	return notes, j.dir.WriteJSON(diagnose.File, diagnose.Findings(facts))
}

// symptoms is what the records say of what limited the plane.
func (j judged) symptoms() (*diagnose.Facts, error) {
	facts, err := diagnose.Collect(j.dir.File(record.StreamFile), j.manifest)
	if err != nil {
		return facts, err
	}
	db, err := promql.Open(j.facts.Series, optionsFor(j.manifest))
	if err != nil {
		return facts, err
	}
	return facts, facts.Ask(context.Background(), db)
}
