// Package discovery asks an API server which resources it serves and where.
//
// It asks once for each group and version and remembers the answer, but not a
// refusal: a resource may be installed meanwhile. It knows nothing of the
// resources themselves.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/text"
)

// ErrNotServed says that the server does not serve a kind.
var ErrNotServed = errors.New("the plane does not serve it")

// Resource is where objects of a kind are reached.
type Resource struct {
	Name       string // as in record.Op: "deployments.apps"
	Root       string // "/apis/apps/v1"
	Plural     string
	APIVersion string // "apps/v1"
	Kind       string
	Namespaced bool
}

// Collection returns the path of the resource's collection in a namespace, or
// of the cluster's when it has no namespaces.
func (r Resource) Collection(namespace string) string {
	if r.Namespaced {
		return r.Root + "/namespaces/" + namespace + "/" + r.Plural
	}
	return r.All()
}

// All returns the path of the resource's collection across all namespaces.
func (r Resource) All() string { return r.Root + "/" + r.Plural }

// Object returns the path of one object.
func (r Resource) Object(namespace, name string) string { return r.Collection(namespace) + "/" + name }

// Doer sends one request; *wire.Client is one.
type Doer interface {
	Do(context.Context, *wire.Request) (*wire.Response, error)
}

// Cache remembers what a server serves. It may be used by many goroutines.
type Cache struct {
	client Doer
	mu     sync.Mutex
	known  map[string][]Resource // by apiVersion
	groups map[string]string     // group -> preferred version
}

// New returns an empty cache.
func New(c Doer) *Cache {
	return &Cache{client: c, known: map[string][]Resource{}}
}

// Kind returns where objects of a kind are reached, such as apps/v1 Deployment.
func (c *Cache) Kind(ctx context.Context, apiVersion, kind string) (Resource, error) {
	return c.findResource(ctx, apiVersion, kind, func(r Resource) bool { return r.Kind == kind })
}

// Named returns where the objects of a resource are reached that is written
// as kubectl has it: configmaps, deployments.apps (in the version that the
// server prefers), widgets.v1alpha1.example.org.
func (c *Cache) Named(ctx context.Context, name string) (Resource, error) {
	plural, rest, _ := strings.Cut(name, ".")
	versions, err := c.versionsOf(ctx, rest)
	if err != nil {
		return Resource{}, fmt.Errorf("discover %s: %w", name, err)
	}
	for _, v := range versions {
		r, err := c.findResource(ctx, v, name, func(r Resource) bool { return r.Plural == plural })
		if err == nil || !errors.Is(err, ErrNotServed) {
			return r, err
		}
	}
	return Resource{}, fmt.Errorf("%s: %w", name, ErrNotServed)
}

// versionsOf returns what the rest of a resource's name may mean as apiVersion.
func (c *Cache) versionsOf(ctx context.Context, rest string) ([]string, error) {
	if rest == "" {
		return []string{"v1"}, nil
	}
	preferred, err := c.preferredVersions(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	if version, group, ok := strings.Cut(rest, "."); ok {
		out = append(out, group+"/"+version)
	}
	if version, ok := preferred[rest]; ok {
		out = append(out, version)
	}
	return out, nil
}

// preferredVersions returns the version that the server prefers of each group.
func (c *Cache) preferredVersions(ctx context.Context) (map[string]string, error) {
	c.mu.Lock()
	known := c.groups
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	list, err := c.groupList(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, g := range list {
		out[g.Name] = g.PreferredVersion.GroupVersion
	}
	c.mu.Lock()
	c.groups = out
	c.mu.Unlock()
	return out, nil
}

func (c *Cache) findResource(ctx context.Context, apiVersion, what string, is func(Resource) bool) (Resource, error) {
	all, err := c.resourcesOf(ctx, apiVersion)
	if err != nil {
		return Resource{}, fmt.Errorf("discover %s: %w", apiVersion, err)
	}
	for _, r := range all {
		if is(r) {
			return r, nil
		}
	}
	c.mu.Lock()
	delete(c.known, apiVersion) // it may come later
	c.groups = nil
	c.mu.Unlock()
	return Resource{}, fmt.Errorf("%s of %s: %w", what, apiVersion, ErrNotServed)
}

// resourcesOf returns the resources of a group and version; none when the server
// does not have it.
func (c *Cache) resourcesOf(ctx context.Context, apiVersion string) ([]Resource, error) {
	c.mu.Lock()
	known, ok := c.known[apiVersion]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	all, found, err := c.resourceList(ctx, apiVersion)
	if err != nil || !found {
		return nil, err
	}
	var out []Resource
	for _, r := range all {
		out = append(out, r.Resource)
	}
	c.mu.Lock()
	c.known[apiVersion] = out
	c.mu.Unlock()
	return out, nil
}

// group is one of the server's groups of resources.
type group struct {
	Name     string `json:"name"`
	Versions []struct {
		GroupVersion string `json:"groupVersion"`
	} `json:"versions"`
	PreferredVersion struct {
		GroupVersion string `json:"groupVersion"`
	} `json:"preferredVersion"`
}

// groupList asks for the groups.
func (c *Cache) groupList(ctx context.Context) ([]group, error) {
	var list struct {
		Groups []group `json:"groups"`
	}
	_, err := c.getDocument(ctx, "/apis", &list)
	return list.Groups, err
}

// listed is a resource as the server tells of it.
type listed struct {
	Resource
	verbs []string
}

// resourceList asks for the resources of a group and version, without
// subresources; not found when the server does not have it.
func (c *Cache) resourceList(ctx context.Context, apiVersion string) (out []listed, found bool, err error) {
	root, group := "/apis/"+apiVersion, ""
	if before, _, ok := strings.Cut(apiVersion, "/"); ok {
		group = "." + before
	} else {
		root = "/api/" + apiVersion
	}
	var list struct {
		Resources []struct {
			Name       string   `json:"name"`
			Kind       string   `json:"kind"`
			Namespaced bool     `json:"namespaced"`
			Verbs      []string `json:"verbs"`
		} `json:"resources"`
	}
	code, err := c.getDocument(ctx, root, &list)
	if err != nil || code == http.StatusNotFound {
		return nil, false, err
	}
	for _, one := range list.Resources {
		if !strings.Contains(one.Name, "/") {
			out = append(out, listed{Resource{
				Name: one.Name + group, Root: root, Plural: one.Name, APIVersion: apiVersion, Kind: one.Kind, Namespaced: one.Namespaced,
			}, one.Verbs})
		}
	}
	return out, true, nil
}

// getDocument reads a document; a code of 404 is no error.
func (c *Cache) getDocument(ctx context.Context, path string, into any) (code int, err error) {
	r, err := c.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
	switch {
	case err != nil:
		return 0, err
	case r.Code == http.StatusNotFound:
		return r.Code, nil
	case !r.Success():
		return r.Code, r.Refusal()
	}
	return r.Code, text.DecodeJSON(path, r.Body, into)
}
