package flight

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrExec says that a scenario would run programs, which its user does not want.
var ErrExec = errors.New("--no-exec: it would run on this machine")

// effectsOf says what a scenario does beside sending calls. The error is ErrExec.
func effectsOf(s *scenario.Scenario, in *installation, st stages.Set, o Options) (plan.Effects, error) {
	e := plan.Effects{Runs: plan.RunsOf(s)}
	if o.NoExec && len(e.Runs) > 0 {
		return e, fmt.Errorf("%s: %w: %s", o.File, ErrExec, strings.Join(e.Runs, "; "))
	}
	if o.Kubeconfig == "" {
		return e, nil
	}
	e.Changes = plan.ChangesOf(s)
	for _, object := range slices.Concat(in.definitions, in.manifests) {
		e.Changes = append(e.Changes, "makes and deletes "+object.Kind+" "+strings.TrimPrefix(object.Namespace+"/"+object.Name, "/"))
	}
	for _, d := range st.Objects {
		e.Changes = append(e.Changes, "makes and deletes "+d.Kind+" "+d.Name)
	}
	for _, name := range o.Adopt {
		e.Changes = append(e.Changes, "changes "+name+" for good, if it is there")
	}
	if o.Destructive {
		e.Changes = append(e.Changes, "requests may change and delete what others have made")
	}
	return e, nil
}
