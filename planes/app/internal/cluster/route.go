package cluster

import (
	"context"
	"net/http"
)

type nameKey struct{}

// In returns a context whose requests are for a member; Local and the empty name
// are the cluster that the applications are in.
func In(ctx context.Context, name string) context.Context {
	if name == Local {
		name = ""
	}
	return context.WithValue(ctx, nameKey{}, name)
}

// Of returns the member that a context's requests are for; empty for the local cluster.
func Of(ctx context.Context) string {
	name, _ := ctx.Value(nameKey{}).(string)
	return name
}

// Path returns the path at the gateway that stands for a path of a member.
func Path(name, path string) string {
	return "/apis/" + Group + "/" + Version + "/" + Resource + "/" + name + "/proxy" + path
}

// Route returns what client-go's transport is wrapped in: a request for a member is
// rewritten for the gateway, and goes by direct, or by the hub where that is nil.
func Route(direct http.RoundTripper) func(http.RoundTripper) http.RoundTripper {
	return func(hub http.RoundTripper) http.RoundTripper { return route{hub, direct} }
}

type route struct{ hub, direct http.RoundTripper }

// RoundTrip sends a request to the cluster that its context names.
func (t route) RoundTrip(r *http.Request) (*http.Response, error) {
	name := Of(r.Context())
	if name == "" {
		return t.hub.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = Path(name, r.URL.Path), ""
	if t.direct != nil {
		r.URL.Host = Service
		return t.direct.RoundTrip(r)
	}
	return t.hub.RoundTrip(r)
}
