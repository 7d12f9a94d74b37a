package plane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/text"
)

const (
	pollEvery   = 25 * time.Millisecond
	pollTimeout = 5 * time.Second // of one question
	readyWithin = 2 * time.Minute // with one of each: far beyond any start that goes well, also with CPU limits
	bodyBytes   = 1 << 20         // of an answer are read
)

// bringUp starts the components in the order that wastes least time. etcd and
// kube-apiserver start at once: it is busy until etcd answers. While it then
// gets ready, which has fixed waits, windtunnel's own objects are made. The
// other two would fail until it is ready, log that, and ask again only a
// second later, so they start then; the scheduler while the controller-manager
// waits for its own rate limit.
func (f flight) bringUp(ctx context.Context) error {
	within := readyWithin * time.Duration(len(f.cfg.Processes())) / time.Duration(len(component.Names()))
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not ready within %v", within))
	defer cancel()
	servers := f.cfg.Processes(component.APIServer)
	for _, name := range append(f.cfg.Processes(component.Etcd), servers...) {
		if err := f.launchComponent(name); err != nil {
			return err
		}
	}
	api, err := newAsker(f.plane.scrapes[servers[0]])
	if err != nil {
		return err
	}
	defer api.client.CloseIdleConnections()
	for _, step := range []struct {
		what string
		good func(context.Context) error
	}{
		{"kube-apiserver to answer", api.anyAnswer},
		{"the rights of windtunnel's users", api.bindAdmin},
		{"the controllers' service accounts", api.createAccounts},
		{"kube-apiserver to be ready", api.healthyAt("/readyz")},
	} {
		if err := f.awaitReady(ctx, step.what, step.good); err != nil {
			return err
		}
	}
	for _, name := range servers[1:] {
		if err := f.awaitHealth(ctx, name); err != nil {
			return err
		}
	}
	if err := f.plane.balancer.start(ctx); err != nil {
		return err
	}
	for _, name := range []string{component.ControllerManager, component.Scheduler} {
		all := f.cfg.Processes(name)
		for _, process := range all {
			if err := f.launchComponent(process); err != nil {
				return err
			}
		}
		for _, process := range all {
			if err := f.awaitHealth(ctx, process); err != nil {
				return err
			}
			if c, ok := f.plane.Component(process); ok && len(all) > 1 {
				c.supervisor.setElected()
			}
		}
	}
	// Admission refuses pods until their namespace has its service account,
	// which is also the sign that the controllers run.
	return f.awaitReady(ctx, "the service account of the namespace default", api.hasPaths(
		"/api/v1/namespaces/kube-system", "/api/v1/namespaces/default/serviceaccounts/default"))
}

// awaitHealth waits for a component's own port.
func (f flight) awaitHealth(ctx context.Context, name string) error {
	ask, err := newAsker(f.plane.scrapes[name])
	if err != nil {
		return err
	}
	defer ask.client.CloseIdleConnections()
	return f.awaitReady(ctx, name+" to be ready", ask.isReady)
}

// awaitReady asks until the answer is good, a component dies, or ctx ends.
func (f flight) awaitReady(ctx context.Context, what string, good func(context.Context) error) error {
	return pollUntil(ctx, f.plane.log, what, good, func() error {
		select {
		case death := <-f.plane.died:
			return death.Err
		default:
			return nil
		}
	})
}

// pollUntil asks until the answer is good, dead says that there will be none, or ctx
// ends.
func pollUntil(ctx context.Context, log *slog.Logger, what string, good func(context.Context) error, dead func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		question, cancel := context.WithTimeout(ctx, pollTimeout)
		err := good(question)
		cancel()
		if err == nil {
			log.Debug("reached", "what", what)
			return nil
		}
		if last == nil || ctx.Err() == nil { // else it says only that ctx has ended
			last = err
		}
		if err := dead(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w", what, context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

// Asker asks a server single questions that no run measures.
type Asker struct {
	client *http.Client
	base   *url.URL
	limit  int64 // of an answer, in bytes
}

func newAsker(e endpoint.Endpoint) (*Asker, error) { return NewAsker(e, bodyBytes) }

// NewAsker returns who asks a server for answers of so many bytes at most.
func NewAsker(e endpoint.Endpoint, limit int64) (*Asker, error) {
	client, base, err := e.Client()
	if err != nil {
		return nil, err
	}
	return &Asker{client, base, limit}, nil
}

// statusError is an answer of 400 or above.
type statusError struct {
	path string
	code int
	body string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answers %d: %.300s", e.path, e.code, strings.Join(strings.Fields(e.body), " "))
}

// Ask sends a request, with in as its JSON body unless it is nil, and decodes
// the answer into out unless that is nil.
func (a *Asker) Ask(ctx context.Context, path string, in, out any) error {
	return a.ask(ctx, path, "", in, out)
}

func (a *Asker) ask(ctx context.Context, path, query string, in, out any) error {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode body for %s: %w", path, err)
		}
		method, body = http.MethodPost, bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base.JoinPath(path).String(), body)
	if err != nil {
		return fmt.Errorf("ask %s: %w", path, err)
	}
	req.URL.RawQuery = query
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	resp, err := a.client.Do(req)
	if err != nil {
		return err // names method and URL
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, a.limit))
	if err != nil {
		return fmt.Errorf("ask %s: %w", path, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return &statusError{path, resp.StatusCode, string(raw)}
	}
	if out == nil {
		return nil
	}
	return text.DecodeJSON("the answer to GET "+path, raw, out)
}

// anyAnswer is good as soon as there is any answer.
func (a *Asker) anyAnswer(ctx context.Context) error {
	err := a.Ask(ctx, "/livez", nil, nil)
	var status *statusError
	if errors.As(err, &status) {
		return nil
	}
	return err
}

// healthyAt is good when a health path says so.
func (a *Asker) healthyAt(path string) func(context.Context) error {
	return func(ctx context.Context) error { return a.Ask(ctx, path, nil, nil) }
}

// isReady is good when the server says that it is ready, or healthy if that is
// all it can say: kube-controller-manager and older schedulers, older etcd.
func (a *Asker) isReady(ctx context.Context) (err error) {
	for _, path := range []string{"/readyz", "/healthz", "/health"} {
		err = a.Ask(ctx, path, nil, nil)
		var status *statusError
		if !errors.As(err, &status) || status.code != http.StatusNotFound {
			return err
		}
	}
	return err
}

// hasPaths is good when all paths exist.
func (a *Asker) hasPaths(paths ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, path := range paths {
			if err := a.Ask(ctx, path, nil, nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// createAccounts makes the service accounts of the controllers. The
// controller-manager would make them itself, three requests each, before it
// starts the first controller: at its own limit of 20 requests a second that
// takes over four seconds.
func (a *Asker) createAccounts(ctx context.Context) error {
	names := make(chan string)
	faults := make([]error, accountWorkers)
	var workers guard.Group
	for i := range faults {
		workers.Go(func() {
			for name := range names {
				faults[i] = errors.Join(faults[i], a.createObject(ctx, "/api/v1/namespaces/kube-system/serviceaccounts", map[string]any{
					"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": name},
				}))
			}
		})
	}
	for _, name := range controllerAccounts() {
		names <- name
	}
	close(names)
	workers.Wait()
	return errors.Join(faults...)
}

// bootManager owns the fields of the objects that a plane is booted with: they stay as
// long as it does, so that they must not look like what a run left behind.
const bootManager = "plane-boot"

// createObject creates an object; that it exists is no fault, since a request that
// timed out or was asked again may have been heard all the same.
func (a *Asker) createObject(ctx context.Context, path string, object any) error {
	err := a.ask(ctx, path, "fieldManager="+bootManager, object, nil)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusConflict {
		return nil
	}
	return err
}

// bindAdmin makes windtunnel's group cluster-admin. Its users are not in
// system:masters, which API priority and fairness would let pass unqueued.
func (a *Asker) bindAdmin(ctx context.Context) error {
	const api = "rbac.authorization.k8s.io"
	return a.createObject(ctx, "/apis/"+api+"/v1/clusterrolebindings", map[string]any{
		"apiVersion": api + "/v1", "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": group},
		"roleRef":  map[string]any{"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{map[string]any{"apiGroup": api, "kind": "Group", "name": group}},
	})
}

// accountWorkers is how many service accounts are made at a time.
const accountWorkers = 4

// controllerAccounts are the service accounts that a controller-manager of
// Kubernetes 1.37 makes when it starts. One that another release does not know
// stays without use, one that is missing here the controller-manager makes.
func controllerAccounts() []string {
	return strings.Fields(`
		attachdetach-controller certificate-controller clusterrole-aggregation-controller
		cronjob-controller daemon-set-controller deployment-controller device-taint-eviction-controller
		disruption-controller endpoint-controller endpointslice-controller endpointslicemirroring-controller
		ephemeral-volume-controller expand-controller generic-garbage-collector horizontal-pod-autoscaler
		job-controller kube-apiserver-serving-clustertrustbundle-publisher legacy-service-account-token-cleaner
		namespace-controller node-controller persistent-volume-binder pod-garbage-collector
		podcertificaterequestcleaner pv-protection-controller pvc-protection-controller replicaset-controller
		replication-controller resource-claim-controller resourcequota-controller root-ca-cert-publisher
		service-account-controller service-cidrs-controller statefulset-controller
		storage-version-migrator-controller ttl-after-finished-controller ttl-controller
		validatingadmissionpolicy-status-controller volumeattributesclass-protection-controller`)
}
