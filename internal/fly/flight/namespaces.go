package flight

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
)

// namespaces are those of the scenario.
type namespaces struct {
	workload *workload.Workload // names them
	stamp    object.Stamp
}

// namespaceRate is how many namespaces are made in a second.
const namespaceRate = 50

// createAll makes them and waits until pods can be made in them: the admission of
// pods wants the namespace's service account.
func (n *namespaces) createAll(ctx context.Context, generator *load.Generator, client *wire.Client) error {
	codes, err := n.postAll(ctx, generator)
	if err != nil {
		return err
	}
	for i, code := range codes {
		name := n.workload.Namespace(i)
		switch {
		case code == http.StatusConflict:
			return existsError(ctx, client, name)
		case code < 200 || code >= 300:
			return fmt.Errorf("namespace %s could not be made: status %d", name, code)
		}
		if err := awaitUsable(ctx, client, name, usableWithin); err != nil {
			return err
		}
	}
	return nil
}

// existsError says that a namespace exists already, and what to do: one with the label of a run
// is a killed run's, or that of one under way.
func existsError(ctx context.Context, client *wire.Client, name string) error {
	answer, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + name, Accept: "application/json"})
	if err == nil && answer.Success() {
		if about, err := object.ReadMetadata(answer.Body); err == nil && about.Labels[object.RunLabel] != "" {
			return fmt.Errorf("namespace %s: %w: it was made by run %s; if that run was killed, windtunnel clean --kubeconfig FILE --run %[3]s deletes what it left", name, ErrExists, about.Labels[object.RunLabel])
		}
	}
	return fmt.Errorf("namespace %s: %w: it is left alone; set namespaces.prefix to another name", name, ErrExists)
}

// postAll sends their creations and returns the status of each.
func (n *namespaces) postAll(ctx context.Context, generator *load.Generator) (codes []int, err error) {
	count := n.workload.Scenario.Namespaces.Count
	codes = make([]int, count)
	return codes, generator.Run(ctx, load.Plan{
		Ops:   []record.Op{{Source: load.Source, Step: "namespaces", Verb: "create", Resource: "namespaces", Scope: "resource"}},
		Count: count, Pace: pace.Constant(namespaceRate),
		Build: func(i int, req *load.Request) (bool, error) {
			req.Method, req.Path, req.ContentType = http.MethodPost, "/api/v1/namespaces", "application/json"
			body, err := n.stamp.MarkJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, n.workload.Namespace(i)))
			req.Body = append(req.Body, body...)
			return true, err
		},
		// Each call has places of its own, and Run returns after the last.
		Done: func(answer load.Result) { codes[answer.Index] = answer.Response.Code },
	})
}

// A namespace that is not usable yet is looked at so often, and for so long: one
// after the other, and each has been there since before the first look.
const (
	usableEvery  = 25 * time.Millisecond
	usableWithin = time.Minute
)

// awaitUsable waits for a namespace's service account "default".
func awaitUsable(ctx context.Context, client *wire.Client, namespace string, within time.Duration) error {
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/default"
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it has no service account \"default\" after %v: the cluster's controller manager is to make it, a hollow cluster does with --service-accounts", within))
	defer cancel()
	for {
		answer, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
		if err == nil && answer.Code == http.StatusOK {
			return nil
		}
		if err := clock.Sleep(ctx, usableEvery); err != nil {
			return fmt.Errorf("namespace %s did not become usable: %w", namespace, err)
		}
	}
}
