package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/windtunnel/windtunnel/wire"
)

// ErrNotServed says that the plane does not serve a kind.
var ErrNotServed = errors.New("the plane does not serve it")

// Resource is where objects of a kind are reached.
type Resource struct {
	Name       string // as in record.Op: "deployments.apps"
	Root       string // "/apis/apps/v1"
	Plural     string
	Namespaced bool
}

// Collection returns the path of the resource's collection in a namespace, or
// of the cluster's when it has no namespaces.
func (r Resource) Collection(namespace string) string {
	if r.Namespaced {
		return r.Root + "/namespaces/" + namespace + "/" + r.Plural
	}
	return r.Root + "/" + r.Plural
}

// Object returns the path of one object.
func (r Resource) Object(namespace, name string) string { return r.Collection(namespace) + "/" + name }

// Discover asks the plane where objects of a kind are reached.
func Discover(ctx context.Context, c *wire.Client, apiVersion, kind string) (Resource, error) {
	root, group := "/apis/"+apiVersion, ""
	if before, _, ok := strings.Cut(apiVersion, "/"); ok {
		group = "." + before
	} else {
		root = "/api/" + apiVersion
	}
	r, err := c.Do(ctx, &wire.Request{Method: http.MethodGet, Path: root})
	if err != nil {
		return Resource{}, fmt.Errorf("discover %s: %w", apiVersion, err)
	}
	if r.Code == http.StatusNotFound {
		return Resource{}, fmt.Errorf("%s of %s: %w", kind, apiVersion, ErrNotServed)
	}
	if r.Code >= 400 {
		return Resource{}, fmt.Errorf("discover %s: %w", apiVersion, &wire.StatusError{Code: r.Code, Body: r.Body})
	}
	var list struct {
		Resources []struct {
			Name       string `json:"name"`
			Kind       string `json:"kind"`
			Namespaced bool   `json:"namespaced"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(r.Body, &list); err != nil {
		return Resource{}, fmt.Errorf("discover %s: %w", apiVersion, err)
	}
	for _, one := range list.Resources {
		if one.Kind == kind && !strings.Contains(one.Name, "/") {
			return Resource{Name: one.Name + group, Root: root, Plural: one.Name, Namespaced: one.Namespaced}, nil
		}
	}
	return Resource{}, fmt.Errorf("%s of %s: %w", kind, apiVersion, ErrNotServed)
}
