package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Listable returns the resources whose objects can be listed, each in the
// version that the server prefers of those that have it, sorted by name. It asks
// anew each time: what is served may have changed. Groups that do not answer, such as those of
// an extension server that is down, are left out, and the error names them.
func (c *Cache) Listable(ctx context.Context) ([]Resource, error) {
	var groups struct {
		Groups []struct {
			Versions []struct {
				GroupVersion string `json:"groupVersion"`
			} `json:"versions"`
			PreferredVersion struct {
				GroupVersion string `json:"groupVersion"`
			} `json:"preferredVersion"`
		} `json:"groups"`
	}
	if _, err := c.get(ctx, "/apis", &groups); err != nil {
		return nil, fmt.Errorf("discover groups: %w", err)
	}
	versions := []string{"v1"}
	for _, g := range groups.Groups {
		versions = append(versions, g.PreferredVersion.GroupVersion)
	}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, v.GroupVersion)
		}
	}
	var out []Resource
	var faults []error
	asked, known := map[string]bool{}, map[string]bool{}
	for _, v := range versions {
		if asked[v] {
			continue
		}
		asked[v] = true
		more, err := c.listable(ctx, v)
		faults = append(faults, err)
		for _, r := range more {
			if !known[r.Name] {
				known[r.Name] = true
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return out, errors.Join(faults...)
}

func (c *Cache) listable(ctx context.Context, apiVersion string) ([]Resource, error) {
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
	if _, err := c.get(ctx, root, &list); err != nil {
		return nil, fmt.Errorf("discover %s: %w", apiVersion, err)
	}
	var out []Resource
	for _, one := range list.Resources {
		if strings.Contains(one.Name, "/") || len(one.Verbs) > 0 && !slices.Contains(one.Verbs, "list") {
			continue
		}
		out = append(out, Resource{Name: one.Name + group, Root: root, Plural: one.Name, APIVersion: apiVersion, Kind: one.Kind, Namespaced: one.Namespaced})
	}
	return out, nil
}
