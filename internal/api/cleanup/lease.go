package cleanup

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

// A run that is being flown renews a lease, so that nobody takes its objects for
// leftovers.
const (
	leases     = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	renewEvery = 5 * time.Second
	// FlownWithin is how long a lease is looked at that may be a living run's. Times of
	// other machines are not compared with ours.
	FlownWithin = 3 * renewEvery
)

func leaseName(run string) string { return "windtunnel-run-" + run }

// Holder says to people who holds a run's lease.
func Holder() string {
	host, _ := os.Hostname() // who reads it can do without
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

// Hold makes the lease of a run and renews it until release, which leaves it to be
// deleted with all else that carries the run's stamp. Without the right to it the
// run does without.
func Hold(ctx context.Context, client discovery.Doer, run, holder string, c clock.Clock) (release func(), err error) {
	now := func() string { return c.Wall(c.Now()).UTC().Format("2006-01-02T15:04:05.000000Z07:00") }
	body := fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"labels":{%q:%q}},"spec":{"holderIdentity":%q,"leaseDurationSeconds":%d,"renewTime":%q}}`,
		leaseName(run), object.RunLabel, run, holder, int(FlownWithin.Seconds()), now())
	answer, err := client.Do(ctx, &wire.Request{Method: http.MethodPost, Path: leases, ContentType: "application/json", Body: []byte(body)})
	switch {
	case err != nil:
		return nil, fmt.Errorf("say that the run is being flown: %w", err)
	case !answer.Success():
		return nil, fmt.Errorf("say that the run is being flown: %w", answer.Refusal())
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait guard.Group
	wait.Go(func() {
		for clock.Sleep(ctx, renewEvery) == nil {
			_, _ = client.Do(ctx, &wire.Request{ // the next renewal makes up for one that is lost
				Method: http.MethodPatch, Path: leases + "/" + leaseName(run), ContentType: "application/merge-patch+json",
				Body: fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now()),
			})
		}
	})
	return func() { cancel(); wait.Wait() }, nil
}

// Drop deletes the lease of a run where the run does not sweep.
func Drop(ctx context.Context, client discovery.Doer, run string) error {
	answer, err := client.Do(ctx, &wire.Request{Method: http.MethodDelete, Path: leases + "/" + leaseName(run)})
	switch {
	case err != nil:
		return fmt.Errorf("delete the lease of the run: %w", err)
	case !answer.Success() && answer.Code != http.StatusNotFound:
		return fmt.Errorf("delete the lease of the run: %w", answer.Refusal())
	}
	return nil
}

// Flown says whether a run is being flown now: whether its lease is renewed while
// it is looked at, which takes up to 15 s.
func Flown(ctx context.Context, client discovery.Doer, run string) (bool, error) {
	first, err := leaseVersion(ctx, client, run)
	if err != nil || first == "" {
		return false, err
	}
	for waited := time.Duration(0); waited < FlownWithin; waited += time.Second {
		if err := clock.Sleep(ctx, time.Second); err != nil {
			return false, err
		}
		now, err := leaseVersion(ctx, client, run)
		if err != nil || now == "" {
			return false, err
		}
		if now != first {
			return true, nil
		}
	}
	return false, nil
}

// leaseVersion returns the resourceVersion of a run's lease; empty without one.
func leaseVersion(ctx context.Context, client discovery.Doer, run string) (string, error) {
	answer, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: leases + "/" + leaseName(run)})
	switch {
	case err != nil:
		return "", err
	case answer.Code == http.StatusNotFound:
		return "", nil
	case !answer.Success():
		return "", answer.Refusal()
	}
	about, err := object.ReadMetadata(answer.Body)
	return about.ResourceVersion, err
}
