package experiment

import (
	"context"
	"errors"

	"github.com/windtunnel/windtunnel/diagnose"
	"github.com/windtunnel/windtunnel/observe/profile"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/series/promql"
)

// diagnose says what limited the plane and writes diagnosis.json.
func (j judged) diagnose() error {
	facts, err := diagnose.Collect(j.dir.File(record.StreamFile), j.manifest)
	if err != nil {
		return err
	}
	db, err := promql.Open(j.facts.Series, optionsFor(j.manifest))
	if err != nil {
		return err
	}
	if err := facts.Ask(context.Background(), db); err != nil {
		return err
	}
	facts.Contended = map[string]diagnose.Contention{}
	var unread error // profiles: the rest is said without them
	for _, c := range j.manifest.Processes() {
		locks, ok, err := profile.Contended(string(j.dir), c.Name)
		unread = errors.Join(unread, err)
		if ok {
			facts.Contended[c.Name] = diagnose.Contention(locks)
		}
	}
	return errors.Join(unread, j.dir.WriteJSON(diagnose.File, diagnose.Findings(facts)))
}
