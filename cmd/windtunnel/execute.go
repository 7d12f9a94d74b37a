package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/planes"
)

// The exit codes of every verb.
const (
	exitPass    = 0
	exitFail    = 1
	exitUnknown = 2
	exitFault   = 3 // the tool or its input is at fault
)

// environment is what a verb sees of the world.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer               // for people; data is stdout for programs
	listen         func() <-chan os.Signal // to signals, which end a verb that does not call it; nil: there are none
	args           []string
	asks           bool // stdin is a terminal, where a person may answer
	terminal       bool // stderr is a terminal that a person watches: lines may be rewritten
	alone          bool // the process is there for this verb alone, which may go before other processes
}

// verdictError ends a verb with the exit code of its verdict.
type verdictError struct{ verdict slo.Verdict }

func (e verdictError) Error() string { return "verdict " + string(e.verdict) }

func (e verdictError) exitCode() int {
	switch e.verdict {
	case slo.Pass:
		return exitPass
	case slo.Fail:
		return exitFail
	}
	return exitUnknown
}

// rootVerb holds all verbs.
func rootVerb(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "windtunnel",
		Short: "A wind tunnel for Kubernetes control planes",
		Long: "windtunnel boots a control plane, simulates a fleet around it, sends an exactly timed\n" +
			"load, measures, and gives a verdict: 0 pass, 1 fail, 2 unknown, 3 bad input or a fault.",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.AddCommand(
		demoVerb(env), examplesVerb(env), initVerb(env), validateVerb(env), runVerb(env), upVerb(env), planeVerb(env), subjectVerb(env), faultVerb(env), fleetVerb(env), importVerb(env), judgeVerb(env), exportVerb(env),
		serveVerb(env), reportVerb(env), cleanVerb(env),
		compareVerb(env), abVerb(env), bisectVerb(env), atlasVerb(env), assessVerb(env), searchVerb(env), capacityVerb(env), historyVerb(env), publishVerb(env), verifyVerb(env), reproduceVerb(env), siteVerb(env), stageVerb(env), schemaVerb(env), hollowVerb(env),
		kubeletVerb(env), doctorVerb(env), manVerb(env), versionVerb(env), hollowMembersVerb(env), workerVerb(env),
	)
	for _, verb := range root.Commands() {
		if verb.Name() != fleetName { // it takes what kwok takes
			refuseEmpty(verb)
		}
	}
	root.AddCommand(planes.Verbs(env.planeHost())...)
	addWelcome(env, root)
	addCompletions(root)
	addVersion(root)
	explainUsage(root)
	groupHelp(root)
	return root
}

// planeHost is what a process of a reference plane sees of the world. What such a
// process holds is compared with what is published, so that it trims itself.
func (env *environment) planeHost() planes.Host {
	return planes.Host{Stdout: env.stdout, Stderr: env.stderr, Interruptible: func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := env.interruptibleContext(ctx, "stopping", func() { os.Exit(exitUnknown) })
		wait := trimPeriodically(ctx)
		return ctx, func() { cancel(); wait() }
	}}
}

// executeVerb runs the verb that args name and returns the exit code.
func executeVerb(ctx context.Context, env *environment, args []string) int {
	root := rootVerb(env)
	root.SetArgs(args)
	err := checkChild(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var verdict verdictError
	switch {
	case err == nil:
		return exitPass
	case errors.As(err, &verdict):
		return verdict.exitCode()
	}
	fmt.Fprintln(env.stderr, strings.TrimRight(err.Error(), "\n"))
	return exitFault
}

// flightContext is interruptible for a verb that flies: a process of its own is made ready
// to measure first. Several flights in one process would each take it further before others.
func (env *environment) flightContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if env.alone {
		process.Prefer()
		trimExecutablePages()
	}
	return env.interruptibleContext(ctx,
		"interrupted: saving what was measured and cleaning up; once more ends at once",
		func() { os.Exit(exitUnknown) }) // the reaper cleans up after us
}

// interruptibleContext returns a context that the first signal ends with
// ErrInterrupted. A second wish (see wishes) calls twice, which should not return.
func (env *environment) interruptibleContext(ctx context.Context, first string, twice func()) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var signals <-chan os.Signal
	if env.listen != nil {
		signals = env.listen()
	}
	go func() {
		c, heard := clock.Start(), wishes{}
		for {
			select {
			case <-signals:
				switch heard.nextWish(c.Now()) {
				case wishToStop:
					fmt.Fprintln(env.stderr, first)
					cancel(flight.ErrInterrupted)
					heard.setAnnounced(c.Now())
				case wishToEnd:
					twice()
					return
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); close(done) }
}

// oneWish is how long signals after the first one belong to it. GNU timeout signals
// its child and then the child's process group: two signals within microseconds, and
// nobody asked to skip the cleanup.
const oneWish = time.Second

// wishes tells what the signals of one process ask for.
type wishes struct {
	announced bool       // the first signal was announced
	at        clock.Time // when
}

// wish is what one signal asks for.
type wish int

const (
	wishHeard  wish = iota // nothing new
	wishToStop             // to stop and clean up
	wishToEnd              // to end at once
)

// nextWish returns what a signal at a time asks for.
func (w *wishes) nextWish(at clock.Time) wish {
	switch {
	case !w.announced:
		return wishToStop
	case at.Sub(w.at) >= oneWish:
		return wishToEnd
	}
	return wishHeard
}

// setAnnounced says that the user was told of the first signal, and what a second does.
func (w *wishes) setAnnounced(at clock.Time) { w.announced, w.at = true, at }
