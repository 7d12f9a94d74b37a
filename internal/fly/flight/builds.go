package flight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/scenario"
)

// buildSubjects builds the programs of subjects that the cache does not have, before
// anything is started or measured.
func buildSubjects(ctx context.Context, s *scenario.Scenario, o Options) error {
	if o.NoExec {
		return nil // compileRun refuses it
	}
	for _, x := range s.Subjects {
		if x.Build == nil {
			continue
		}
		if _, err := subject.FindBuilt(*x.Build); !errors.Is(err, program.ErrAbsent) {
			continue // what is wrong with it is said where it is used
		}
		cache, err := program.UserCache()
		if err != nil {
			return err
		}
		o.Log.Warn("building a subject first: minutes, unless most of it was compiled before", slog.String("subject", x.Name), slog.String("module", x.Build.Module+"@"+x.Build.Version))
		if _, err := (program.Builder{Cache: cache, Progress: io.Discard}).Build(ctx, *x.Build, false); err != nil {
			return fmt.Errorf("subject %s: %w", x.Name, err)
		}
	}
	return nil
}
