// Package profile keeps what the components of a plane spend their time on: it
// fetches profiles from /debug/pprof while they are busy.
//
// A profile costs its component some CPU, so they are few: a component is looked at
// only while it is busy, for two seconds, and not again for half a minute. It
// judges nothing: package diagnose reads which locks were waited for. The files are
// for `go tool pprof`.
package profile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Folder is where a run directory has its profiles: COMPONENT.KIND.pb.gz.
const Folder = "profiles"

// maxProfile is how large one profile may be, in bytes: some ten times what a
// kube-apiserver gives. A larger one is not kept.
const maxProfile = 8 << 20

// Bounds of when a component is busy and how often it is looked at.
const (
	busyCores = 0.5 // that it uses, or
	busyShare = 0.8 // of its CPU limit
	cpuFor    = 2 * time.Second
	again     = 30 * time.Second
	maxTimes  = 4 // in a run; the last one stays
	look      = time.Second
)

// Target is a component that may serve profiles.
type Target struct {
	Name   string
	URL    string // without /debug/pprof: https://127.0.0.1:6443
	Client *http.Client
	Limit  float64 // cores that it may use; 0: all
	// CPU returns the CPU seconds that the component has used until now.
	CPU func() (float64, error)
}

// Options say where profiles go.
type Options struct {
	Folder string // made when the first profile is there
	Log    *slog.Logger
	// Taken is called for each profile of CPU that begins, so that a reader can
	// tell what it disturbed. May be nil.
	Taken func(component string)
}

// Run looks at every target once a second until ctx is done, and fetches profiles
// of those that are busy. A component that serves none is said once and left
// alone.
func Run(ctx context.Context, targets []Target, o Options) {
	var wait guard.Group
	for _, t := range targets {
		wait.Go(func() { watchTarget(ctx, t, o) })
	}
	wait.Wait()
}

// watchTarget looks at one target.
func watchTarget(ctx context.Context, t Target, o Options) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	before, err := t.CPU()
	for times := 0; times < maxTimes && err == nil; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var now float64
		if now, err = t.CPU(); err != nil {
			return // it has ended
		}
		busy := t.isBusy((now - before) / look.Seconds())
		if before = now; !busy {
			continue
		}
		if err := t.takeProfiles(ctx, o); err != nil {
			if ctx.Err() == nil {
				o.Log.Info("no profiles", slog.String("component", t.Name), slog.Any("error", err))
			}
			return
		}
		times++
		if clock.Sleep(ctx, again) != nil {
			return
		}
		before, err = t.CPU()
	}
}

func (t Target) isBusy(cores float64) bool {
	return cores >= busyCores || t.Limit > 0 && cores >= busyShare*t.Limit
}

// profileKinds are the profiles that are kept, in the order in which they are fetched.
// Of locks there is one only where a component keeps count: kube-scheduler, and
// the others with --contention-profiling.
func profileKinds() []struct{ name, path string } {
	return []struct{ name, path string }{
		{"cpu", fmt.Sprintf("profile?seconds=%d", int(cpuFor.Seconds()))}, {"block", "block"}, {"mutex", "mutex"}, {"goroutine", "goroutine"},
	}
}

// takeProfiles fetches a target's profiles in place of those that there are.
func (t Target) takeProfiles(ctx context.Context, o Options) error {
	if o.Taken != nil {
		o.Taken(t.Name)
	}
	for _, k := range profileKinds() {
		raw, err := t.fetchProfile(ctx, k.path)
		if err != nil {
			return fmt.Errorf("profile %s: %w", k.name, err)
		}
		p, err := profile.ParseData(raw)
		if err != nil {
			return fmt.Errorf("profile %s: %w", k.name, err)
		}
		if len(p.Sample) == 0 {
			continue // nobody counts
		}
		if err := writeProfile(o.Folder, t.Name+"."+k.name+".pb.gz", raw); err != nil {
			return err
		}
	}
	return nil
}

func (t Target) fetchProfile(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cpuFor+30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(t.URL, "/")+"/debug/pprof/"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := t.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProfile+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %.100s", resp.Status, bytes.TrimSpace(raw))
	case len(raw) > maxProfile:
		return nil, fmt.Errorf("it has more than %d bytes", maxProfile)
	}
	return raw, nil
}

// writeProfile writes a profile in one step, mode 0600.
func writeProfile(folder, name string, raw []byte) error {
	dir, err := record.MakeFolder(folder, 0o700)
	if err != nil {
		return fmt.Errorf("keep profile: %w", err)
	}
	return dir.Write(name, raw)
}
