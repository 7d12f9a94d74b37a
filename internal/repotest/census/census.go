// Package census counts every object of a cluster, by means that share nothing with what
// windtunnel itself finds its objects by: client-go's discovery and dynamic client, and no
// label. Tests compare what stood in a cluster before a run and after it.
package census

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Census is what is compared of each object, by RESOURCE NAMESPACE/NAME.
type Census map[string]string

// Take lists all objects of all resources that the cluster of a kubeconfig serves, but events:
// the cluster's controllers write them about whatever they do, and they end by themselves.
func Take(ctx context.Context, kubeconfig string) (Census, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := served.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("take a census: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	out := Census{}
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" || r.Name == "componentstatuses" {
				continue
			}
			list, err := client.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("take a census of %s: %w", r.Name, err)
			}
			for i := range list.Items {
				o := &list.Items[i]
				out[strings.TrimSuffix(r.Name+"."+gv.Group, ".")+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")] = comparedPart(r.Name, o)
			}
		}
	}
	return out, nil
}

// comparedPart is what is compared of an object: its uid, its version and who manages what. What
// renews itself, leases and the statuses of nodes, is compared without the version and the
// status.
func comparedPart(resource string, o *unstructured.Unstructured) string {
	text := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		return string(raw)
	}
	managers := map[string]bool{}
	for _, m := range o.GetManagedFields() {
		managers[m.Manager] = true
	}
	by := text(slices.Sorted(maps.Keys(managers)))
	switch resource {
	case "leases":
		if o.GetLabels()["apiserver.kubernetes.io/identity"] != "" {
			return "of an API server, which makes it anew when it starts"
		}
		return fmt.Sprintf("uid %s labels %s by %s", o.GetUID(), text(o.GetLabels()), by)
	case "nodes":
		return fmt.Sprintf("uid %s labels %s annotations %s spec %s by %s", o.GetUID(), text(o.GetLabels()), text(o.GetAnnotations()), text(o.Object["spec"]), by)
	}
	return fmt.Sprintf("uid %s version %s managed %s", o.GetUID(), o.GetResourceVersion(), text(o.GetManagedFields()))
}

// Differences says what is not as it was, one line each.
func (c Census) Differences(now Census) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		switch is, ok := now[name]; {
		case !ok:
			out = append(out, name+" is gone")
		case is != c[name]:
			out = append(out, name+" was "+c[name]+" and is "+is)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := c[name]; !ok {
			out = append(out, name+" is new: "+now[name])
		}
	}
	return out
}
