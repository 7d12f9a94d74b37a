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
	groups, err := c.groupList(ctx)
	if err != nil {
		return nil, fmt.Errorf("discover groups: %w", err)
	}
	versions := []string{"v1"}
	for _, g := range groups {
		versions = append(versions, g.PreferredVersion.GroupVersion)
	}
	for _, g := range groups {
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
		more, err := c.listableResources(ctx, v)
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

func (c *Cache) listableResources(ctx context.Context, apiVersion string) ([]Resource, error) {
	all, _, err := c.resourceList(ctx, apiVersion)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", apiVersion, err)
	}
	var out []Resource
	for _, r := range all {
		if len(r.verbs) == 0 || slices.Contains(r.verbs, "list") {
			out = append(out, r.Resource)
		}
	}
	return out, nil
}
