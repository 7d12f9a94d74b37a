package serve

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// answerDiscovery answers what is not about objects: versions, and what is served.
func (c *Cluster) answerDiscovery(q *request, path string) bool {
	if q.Method != http.MethodGet {
		return false
	}
	kinds := c.registry.Kinds()
	path = strings.TrimSuffix(path, "/")
	f, _ := parseAccept(q.Header.Get("Accept"), false)
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case path == "/version":
		q.writeJSON(http.StatusOK, versionInfo())
	case path == "/api" || path == "/apis":
		if f.as == "APIGroupDiscoveryList" {
			q.answerAggregated(kinds, path == "/api")
			return true
		}
		q.answerGroups(kinds, path == "/api")
	case len(parts) == 2 && parts[0] == "api" && kinds.HasGroup("", parts[1]):
		q.writeJSON(http.StatusOK, resourceList(kinds, "", parts[1]))
	case len(parts) == 2 && parts[0] == "apis" && parts[1] != "" && kinds.HasGroup(parts[1], ""):
		g := groupOf(kinds, parts[1])
		g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		q.writeJSON(http.StatusOK, g)
	case len(parts) == 3 && parts[0] == "apis" && parts[1] != "" && kinds.HasGroup(parts[1], parts[2]):
		q.writeJSON(http.StatusOK, resourceList(kinds, parts[1], parts[2]))
	default:
		return false
	}
	return true
}

func versionInfo() apiversion.Info {
	minor, _, _ := strings.Cut(strings.TrimPrefix(kind.Version, "v1."), ".")
	return apiversion.Info{
		Major: "1", Minor: minor, GitVersion: kind.Version, GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// answerGroups answers which groups and versions there are, in the form of old.
func (q *request) answerGroups(kinds *kind.Set, core bool) {
	if core {
		q.writeJSON(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: strings.TrimPrefix(q.cluster.address, "https://")}}})
		return
	}
	out := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, name := range groupNames(kinds) {
		if name != "" {
			out.Groups = append(out.Groups, groupOf(kinds, name))
		}
	}
	q.writeJSON(http.StatusOK, out)
}

// groupNames returns the groups in the order in which they are found first.
func groupNames(kinds *kind.Set) (out []string) {
	seen := map[string]bool{}
	for _, k := range kinds.All() {
		if !seen[k.Group] {
			seen[k.Group] = true
			out = append(out, k.Group)
		}
	}
	return out
}

func versionsOf(kinds *kind.Set, group string) (out []string) {
	seen := map[string]bool{}
	for _, k := range kinds.All() {
		if k.Group == group && !seen[k.Version] {
			seen[k.Version] = true
			out = append(out, k.Version)
		}
	}
	return out
}

func groupOf(kinds *kind.Set, name string) metav1.APIGroup {
	g := metav1.APIGroup{Name: name}
	for _, v := range versionsOf(kinds, name) {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

// resourceList returns the resources of a group and version in the form of old.
func resourceList(kinds *kind.Set, group, version string) metav1.APIResourceList {
	out := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range kinds.All() {
		if k.Group != group || k.Version != version {
			continue
		}
		out.GroupVersion = k.APIVersion()
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name: k.Plural, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind,
			Verbs: k.Verbs, ShortNames: k.Short, Categories: k.Categories, StorageVersionHash: k.StorageHash(),
		})
		for _, s := range k.Sub {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: k.Plural + "/" + s.Name, Namespaced: k.Namespaced, Kind: s.Kind, Group: s.Group, Version: s.Version, Verbs: s.Verbs,
			})
		}
	}
	return out
}

// answerAggregated answers with all resources at once.
func (q *request) answerAggregated(kinds *kind.Set, core bool) {
	out := apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscoveryv2.APIGroupDiscovery{},
	}
	for _, name := range groupNames(kinds) {
		if (name == "") != core {
			continue
		}
		g := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, v := range versionsOf(kinds, name) {
			g.Versions = append(g.Versions, versionDiscovery(kinds, name, v))
		}
		out.Items = append(out.Items, g)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		q.writeError(err)
		return
	}
	q.writeBytes(http.StatusOK, typeJSON+";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", raw)
}

func versionDiscovery(kinds *kind.Set, group, version string) apidiscoveryv2.APIVersionDiscovery {
	out := apidiscoveryv2.APIVersionDiscovery{Version: version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, k := range kinds.All() {
		if k.Group != group || k.Version != version {
			continue
		}
		r := apidiscoveryv2.APIResourceDiscovery{
			Resource: k.Plural, SingularResource: k.Singular, Verbs: k.Verbs, ShortNames: k.Short, Categories: k.Categories,
			ResponseKind: &metav1.GroupVersionKind{Group: group, Version: version, Kind: k.Kind}, Scope: apidiscoveryv2.ScopeCluster,
		}
		if k.Namespaced {
			r.Scope = apidiscoveryv2.ScopeNamespace
		}
		for _, s := range k.Sub {
			r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: s.Name, Verbs: s.Verbs, ResponseKind: &metav1.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind},
			})
		}
		out.Resources = append(out.Resources, r)
	}
	return out
}
