package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/component/skew"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
)

// ErrRelease says that a process does not report the release that it was started as.
var ErrRelease = errors.New("another release answers")

// FindRelease finds the executables of a release for a plane that executable starts; empty:
// this one.
func FindRelease(w release.Wanted, executable string) (release.Plane, error) {
	if executable == "" {
		path, err := os.Executable()
		if err != nil {
			return release.Plane{}, fmt.Errorf("find own executable: %w", err)
		}
		executable = path
	}
	return release.Find(w, executable)
}

// releaseOf returns the release that a process of a component has among executables.
func releaseOf(of string, p release.Plane) string {
	if of == component.Etcd {
		return p.Etcd
	}
	return p.Kubernetes
}

// Replace ends a process as Terminate does, and starts it again with the executable of
// another release: with the same data, the flags that windtunnel and the scenario give it in
// that release, and the same limits. It returns when the process is ready and reports the
// release. When it does not, it stays down as after a Restart that fails.
func (c Component) Replace(ctx context.Context, to release.Plane) error {
	if c.supervisor == nil || c.supervisor.commandFor == nil {
		return fmt.Errorf("replace %s: %w", c.Name, ErrNotOurs)
	}
	if err := c.Terminate(); err != nil {
		return err
	}
	c.supervisor.setCommand(c.supervisor.commandFor(to))
	if err := c.Restart(ctx); err != nil {
		return err
	}
	of, _ := component.Of(c.Name)
	got, err := c.ReportedRelease(ctx)
	if err == nil && got != releaseOf(of, to) {
		err = fmt.Errorf("%w: it reports %s, and %s was started", ErrRelease, got, releaseOf(of, to))
	}
	if err != nil {
		return fmt.Errorf("release of %s: %w", c.Name, err)
	}
	return nil
}

// setCommand has later starts run another command.
func (s *supervisor) setCommand(path string, args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec.Path, s.spec.Args = path, args
}

// ReportedRelease asks a process for its release, such as v1.36.3: API servers and etcd at
// /version, the others by their metrics.
func (c Component) ReportedRelease(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	ask, err := newAsker(c.Scrape)
	if err != nil {
		return "", err
	}
	defer ask.client.CloseIdleConnections()
	var said struct{ GitVersion, Etcdserver string }
	switch of, _ := component.Of(c.Name); of {
	case component.Etcd:
		err = ask.Ask(ctx, "/version", nil, &said)
		said.GitVersion = "v" + said.Etcdserver
	case component.APIServer:
		err = ask.Ask(ctx, "/version", nil, &said)
	default:
		var metrics string
		if metrics, err = ask.readText(ctx, c.MetricsURL); err == nil {
			said.GitVersion, err = releaseIn(metrics)
		}
	}
	return said.GitVersion, err
}

var buildInfo = regexp.MustCompile(`(?m)^kubernetes_build_info\{.*\bgit_version="([^"]+)"`)

// releaseIn reads the metrics of a component of Kubernetes.
func releaseIn(metrics string) (string, error) {
	m := buildInfo.FindStringSubmatch(metrics)
	if m == nil {
		return "", errors.New("kubernetes_build_info is not among its metrics")
	}
	return m[1], nil
}

// maxMetrics bounds what is read of a component's metrics, in bytes.
const maxMetrics = 64 << 20

// readText reads an address as text.
func (a *Asker) readText(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := a.client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMetrics))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = &statusError{req.URL.Path, answer.StatusCode, string(text)}
	}
	return string(text), err
}

// AllowEtcdDowngrade prepares etcd for members of an older minor release: it enables the
// downgrade, which from etcd 3.6 on is needed, and waits until the data of all members have
// the older form (https://etcd.io/docs/v3.6/downgrades/). With the same minor release it does
// nothing.
func AllowEtcdDowngrade(ctx context.Context, p *Plane, to string) error {
	members := processesOf(p, component.Etcd)
	wanted, ok := skew.Parse(to)
	if !ok || len(members) == 0 {
		return fmt.Errorf("downgrade etcd to %q: %w", to, ErrNoFault)
	}
	said, err := members[0].ReportedRelease(ctx)
	if err != nil {
		return fmt.Errorf("downgrade etcd: %w", err)
	}
	if now, ok := skew.Parse(said); ok && now.Minor == wanted.Minor || !atLeast(said, 3, 6) {
		return nil
	}
	target := strconv.Itoa(wanted.Major) + "." + strconv.Itoa(wanted.Minor)
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not prepared within %v", readyWithin))
	defer cancel()
	if err := askEtcd(ctx, members[0], "downgrade", map[string]string{"action": "ENABLE", "version": target + ".0"}, nil); err != nil {
		return fmt.Errorf("enable the downgrade of etcd to %s: %w", target, err)
	}
	for _, m := range members {
		err := pollUntil(ctx, p.log, m.Name+" to store as "+target, func(ctx context.Context) error {
			var status struct{ StorageVersion string }
			if err := askEtcd(ctx, m, "status", struct{}{}, &status); err != nil {
				return err
			}
			if !strings.HasPrefix(status.StorageVersion, target+".") {
				return fmt.Errorf("its data are of %s", status.StorageVersion)
			}
			return nil
		}, func() error { return nil })
		if err != nil {
			return fmt.Errorf("downgrade etcd to %s: %w", target, err)
		}
	}
	return nil
}

// askEtcd asks a member by the JSON form of etcd's maintenance API.
func askEtcd(ctx context.Context, member Component, method string, in, out any) error {
	ask, err := newAsker(member.Scrape)
	if err != nil {
		return err
	}
	defer ask.client.CloseIdleConnections()
	return ask.Ask(ctx, "/v3/maintenance/"+method, in, out)
}

// ForEachProcess does something with the processes of a component one after another, with
// who leads at the beginning last; between is the time from one being done to the next.
func ForEachProcess(ctx context.Context, p *Plane, name string, between time.Duration, do func(Component) error) error {
	all := processesOf(p, name)
	if len(all) == 0 {
		return fmt.Errorf("%s: the plane has no such component: %w", name, ErrNoFault)
	}
	if i := slices.IndexFunc(all, func(c Component) bool { return c.leads(ctx) }); i >= 0 {
		all = append(slices.Delete(slices.Clone(all), i, i+1), all[i])
	}
	for i, c := range all {
		if i > 0 {
			if err := clock.Sleep(ctx, between); err != nil {
				return err
			}
		}
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}
