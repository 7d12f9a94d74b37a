package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/fly/steps/command"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// execsAtOnce is how many of a step's commands run at the same time, one for each
// member: they are processes of this machine, beside the plane.
const execsAtOnce = 8

// Exec runs a local command: in the scenario's folder, with a kubeconfig of the
// plane, its output in logs/STEP.log.
type Exec struct {
	Step string
	Spec *scenario.Exec
}

// Do runs it.
func (x Exec) Do(ctx context.Context, s *Session) error {
	kubeconfig, err := s.Plane.AdminKubeconfig()
	if err != nil {
		return err
	}
	return x.runLogged(ctx, s, x.Step, "KUBECONFIG="+kubeconfig)
}

// inMembers runs it once for each of some members, with the kubeconfig and the name of
// each, its output in logs/STEP/MEMBER.log.
func (x Exec) inMembers(ctx context.Context, s *Session, members []*Member) error {
	var done atomic.Int64
	s.Progress.Waiting(x.Step, 0, len(members))
	own := make([]error, len(members)) // of commands that were not ended with the step
	errs := forEachMember(ctx, execsAtOnce, members, func(i int, m *Member) error {
		kubeconfig := filepath.Join(s.MemberFolder, m.Name+".kubeconfig")
		err := x.runLogged(ctx, s, filepath.Join(x.Step, m.Name), "KUBECONFIG="+kubeconfig, scenario.VarMember+"="+m.Name)
		s.Progress.Waiting(x.Step, int(done.Add(1)), len(members))
		if err != nil && !errors.Is(err, context.Cause(ctx)) {
			own[i] = err
		}
		return err
	})
	if err := ofMembers(members, own); err != nil {
		return err
	}
	return ofMembers(members, errs)
}

// runLogged runs it with its output in a log of this name.
func (x Exec) runLogged(ctx context.Context, s *Session, log string, env ...string) (err error) {
	name := s.Dir.File(filepath.Join(record.LogFolder, log+".log"))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	out, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("keep a command's output: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	env = append(env, scenario.VarMembers+"="+s.MemberFolder)
	if mark := s.Plane.OwnerMark(); mark != "" {
		env = append(env, mark)
	}
	c := command.Command{Exec: x.Spec, Folder: filepath.Dir(s.Workload.File), Environment: env, Started: s.Plane.LookAfter}
	return c.Run(ctx, out)
}

// CheckCommand says that the program of the first command of the steps is missing. Later ones
// are not looked for: an earlier command may make them.
func CheckCommand(w *workload.Workload) error {
	for step := range w.Scenario.AllSteps() {
		if step.Exec != nil {
			name := step.Exec.Command[0]
			if err := command.Find(filepath.Dir(w.File), name); err != nil {
				return fmt.Errorf("%s: command `%s`: %w", w.PlaceOfStep(step), name, err)
			}
			return nil
		}
	}
	return nil
}
