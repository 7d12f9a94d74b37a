package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// Bounds of single requests; that of a read is an option.
const (
	listTimeout  = 30 * time.Second
	writeTimeout = 15 * time.Second
)

// requests bounds each request to a server by its verb, and times it.
type requests struct {
	metrics     *metrics
	readTimeout time.Duration
}

// timeoutOf returns the bound of a request by its verb in KubeVela's words.
func (r requests) timeoutOf(verb string) time.Duration {
	switch verb {
	case "Get":
		return r.readTimeout
	case "List":
		return listTimeout
	}
	return writeTimeout
}

// begin begins a request, which ends when the returned function is called.
func (r requests) begin(ctx context.Context, verb, kind, apiVersion string) (context.Context, func()) {
	return bound(ctx, r.timeoutOf(verb), r.metrics.timeRequest(verb, kind, apiVersion))
}

// beginOwn begins a request on one of the plane's own kinds.
func (r requests) beginOwn(ctx context.Context, verb, kind string) (context.Context, func()) {
	return r.begin(ctx, verb, kind, api.GroupVersion().String())
}

// beginOn begins a request on an object of any kind, in the cluster that ctx names.
func (r requests) beginOn(ctx context.Context, verb string, o *unstructured.Unstructured) (context.Context, func()) {
	ctx = inBucket(ctx, o)
	return bound(ctx, r.timeoutOf(verb), r.metrics.timeRequestTo(ctx, verb, o.GetKind(), o.GetAPIVersion()))
}

func bound(ctx context.Context, timeout time.Duration, timed func()) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, func() { timed(); cancel() }
}
