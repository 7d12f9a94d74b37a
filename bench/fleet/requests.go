package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

const (
	namespace = "bench"
	podsPath  = "/api/v1/namespaces/" + namespace + "/pods"
	inFlight  = 64 // calls of the bench with the server at once
)

// requests creates and deletes nodes and pods, the same way for both sides.
type requests struct {
	client *wire.Client
	clock  clock.Clock
}

func newRequests(ep endpoint.Endpoint, c clock.Clock) (*requests, error) {
	client, err := wire.New(ep, wire.Options{Connections: 2, UserAgent: "bench-fleet", Clock: c})
	if err != nil {
		return nil, err
	}
	return &requests{client, c}, nil
}

func (r *requests) Close() error { return r.client.Close() }

// makeNamespace makes the namespace and waits until pods can be made in it.
func (r *requests) makeNamespace(ctx context.Context) error {
	c := r.client
	answer, err := c.Do(ctx, &wire.Request{Method: http.MethodPost, Path: "/api/v1/namespaces", ContentType: "application/json",
		Body: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + namespace + `"}}`)})
	if err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("make namespace: status %d: %.200s", answer.Code, answer.Body)
	}
	for {
		answer, err := c.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + namespace + "/serviceaccounts/default"})
		if err == nil && answer.Code == http.StatusOK {
			return nil
		}
		if err := clock.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the namespace's service account: %w", err)
		}
	}
}

// batch is calls of one kind.
type batch struct {
	what, method string
	count        int
	rate         float64 // calls a second; 0: as fast as it goes
	path         func(i int) string
	body         func(i int) []byte // nil: none
}

// sendBatch sends a batch, each call when it is due or as soon after as fewer than
// inFlight are under way, and waits for the answers. A call that failed is an
// error.
func (r *requests) sendBatch(ctx context.Context, b batch) error {
	var faults failures
	slots := make(chan struct{}, inFlight)
	begin := r.clock.Now()
	var ended error
	for i := range b.count {
		if b.rate > 0 {
			if ended = r.sleepUntil(ctx, begin.Add(time.Duration(float64(i)/b.rate*float64(time.Second)))); ended != nil {
				break
			}
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			ended = context.Cause(ctx)
		}
		if ended != nil {
			break
		}
		req := &wire.Request{Method: b.method, Path: b.path(i), Discard: true}
		if b.body != nil {
			req.ContentType, req.Body = "application/json", b.body(i)
		}
		r.client.Send(req, func(answer *wire.Response) {
			faults.noteFailure(answer)
			<-slots
		})
	}
	for range inFlight { // every answer frees its slot
		slots <- struct{}{}
	}
	if err := errors.Join(ended, faults.asError(b.count)); err != nil {
		return fmt.Errorf("%s: %w", b.what, err)
	}
	return nil
}

// sleepUntil waits until a call is due.
func (r *requests) sleepUntil(ctx context.Context, due clock.Time) error {
	if left := r.clock.Until(due); left > 0 {
		return clock.Sleep(ctx, left)
	}
	return context.Cause(ctx)
}

// failures counts the calls that failed and keeps the first.
type failures struct {
	mu    sync.Mutex
	count int
	first string
}

func (f *failures) noteFailure(r *wire.Response) {
	if r.Err == nil && r.Code < 400 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; f.count == 1 {
		f.first = fmt.Sprintf("status %d, %v, %.200s", r.Code, r.Err, r.Body)
	}
}

func (f *failures) asError(of int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d failed, the first with %s", f.count, of, f.first)
}

func nodeName(i int) string { return fmt.Sprintf("node-%06d", i) }

// createNodes makes the nodes from number first on, as kwokctl's scale does: with
// what they have to give in their status, and without conditions.
func (r *requests) createNodes(ctx context.Context, first, count int) error {
	return r.sendBatch(ctx, batch{
		what: "create nodes", method: http.MethodPost, count: count,
		path: func(int) string { return "/api/v1/nodes" },
		body: func(i int) []byte {
			name := nodeName(first + i)
			return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"annotations":{"kwok.x-k8s.io/node":"fake"},`+
				`"labels":{"type":"kwok","kubernetes.io/hostname":%q,"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"}},`+
				`"status":{"allocatable":{"cpu":"32","memory":"256Gi","pods":"110"},"capacity":{"cpu":"32","memory":"256Gi","pods":"110"},`+
				`"nodeInfo":{"architecture":"amd64","operatingSystem":"linux"}}}`, name, name)
		},
	})
}

// createPods makes pods at a rate; bind says that they name their node, so that
// no scheduler is needed.
func (r *requests) createPods(ctx context.Context, names []string, rate float64, bind int) error {
	return r.sendBatch(ctx, batch{
		what: "create pods", method: http.MethodPost, count: len(names), rate: rate,
		path: func(int) string { return podsPath },
		body: func(i int) []byte {
			node := ""
			if bind > 0 {
				node = fmt.Sprintf(`"nodeName":%q,`, nodeName(i%bind))
			}
			return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":%q,"labels":{"app":"bench"}},`+
				`"spec":{%s"containers":[{"name":"main","image":"registry.example/main:1","resources":{"requests":{"cpu":"10m","memory":"16Mi"}}}]}}`,
				names[i], namespace, node)
		},
	})
}

// deletePods deletes pods as fast as it goes, with their own grace period.
func (r *requests) deletePods(ctx context.Context, names []string) error {
	return r.sendBatch(ctx, batch{
		what: "delete pods", method: http.MethodDelete, count: len(names),
		path: func(i int) string { return podsPath + "/" + names[i] },
	})
}
