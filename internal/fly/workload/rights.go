package workload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/scenario"
)

// Place is a resource and where it lies.
type Place struct {
	Group, Resource string // nodes, nodes/status
	Namespace       string // empty: all of them, or none
	Optional        bool   // the run does without a right there, and says so
}

// Right is what a user may do at a place.
type Right struct {
	Place
	Verbs []string // sorted
}

// Rights are what a run in a cluster of others needs its user to be allowed to do.
type Rights struct {
	All   []Right
	Notes []string // what cannot be known of the scenario alone
}

// Namespaces are those in which the rights lie that are not of the whole cluster.
func (r Rights) Namespaces() (out []string) {
	for _, one := range r.All {
		if one.Namespace != "" && !slices.Contains(out, one.Namespace) {
			out = append(out, one.Namespace)
		}
	}
	return out
}

// rights gathers them.
type rights struct {
	w     *Workload
	at    map[Place]map[string]bool
	notes map[string]bool
}

// Rights returns the rights that the scenario needs.
func (w *Workload) Rights() Rights {
	r := &rights{w, map[Place]map[string]bool{}, map[string]bool{}}
	s := w.Scenario
	r.addVerbs(Place{Group: "coordination.k8s.io", Resource: "leases", Namespace: "default", Optional: true}, "create", "delete", "get", "list", "patch")
	if s.Namespaces.Count > 0 {
		r.addVerbs(Place{Resource: "namespaces"}, "create", "delete", "get", "list")
		r.addVerbs(Place{Resource: "serviceaccounts"}, "get")
	}
	if w.WatchesPods() {
		r.addVerbs(Place{Resource: "pods"}, "list", "watch")
		r.addVerbs(Place{Group: "apiregistration.k8s.io", Resource: "apiservices", Optional: true}, "list") // by which it is known how late watches are
	}
	if s.Fleet.Nodes > 0 {
		r.addVerbs(Place{Resource: "nodes"}, "create", "delete", "get", "list", "patch", "watch")
		r.addVerbs(Place{Resource: "nodes/status"}, "patch")
		r.addVerbs(Place{Resource: "pods"}, "delete", "get", "list", "patch", "watch")
		r.addVerbs(Place{Resource: "pods/status"}, "patch")
		r.addVerbs(Place{Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease"}, "create", "get", "list", "update", "watch")
		if len(s.Fleet.Stages) > 0 {
			r.addNote("stages of the fleet may do more: add what theirs make and change")
		}
	}
	for _, x := range s.Subjects {
		r.addNote("subject " + x.Name + " has this user's rights: add those that it needs")
	}
	if len(s.CRDs) > 0 {
		r.addVerbs(Place{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "create", "delete", "get", "list", "patch")
	}
	if len(s.Manifests) > 0 {
		r.addNote("manifests are created, read and deleted: add these rights for their kinds")
	}
	for step := range s.AllSteps() {
		if step.Cluster == "" {
			r.addStep(step)
		}
		if c := step.Clients; c != nil && c.As != nil && !c.HasCertificates() {
			r.addVerbs(Place{Resource: "users"}, "impersonate")
			if len(c.As.Groups) > 0 {
				r.addVerbs(Place{Resource: "groups"}, "impersonate")
			}
			r.addNote("clients " + c.Name + " act as users of their own: these need the rights of step " + step.Name)
		}
	}
	return r.sortedRights()
}

func (r *rights) addVerbs(p Place, verbs ...string) {
	if r.at[p] == nil {
		r.at[p] = map[string]bool{}
	}
	for _, verb := range verbs {
		r.at[p][verb] = true
	}
}

func (r *rights) addNote(text string) { r.notes[text] = true }

// sortedRights leaves out what a right of the whole cluster covers.
func (r *rights) sortedRights() (out Rights) {
	for p, verbs := range r.at {
		wide := p
		wide.Namespace, wide.Optional = "", false
		if p.Namespace != "" {
			maps.DeleteFunc(verbs, func(verb string, _ bool) bool { return r.at[wide][verb] })
		}
		if len(verbs) > 0 {
			out.All = append(out.All, Right{p, slices.Sorted(maps.Keys(verbs))})
		}
	}
	slices.SortFunc(out.All, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(fmt.Sprint(a.Optional), fmt.Sprint(b.Optional)))
	})
	out.Notes = slices.Sorted(maps.Keys(r.notes))
	return out
}

// addStep adds what one step needs.
func (r *rights) addStep(step *scenario.Step) {
	switch {
	case step.Create != nil:
		r.addObjects(step.Create, "", "create", "delete", "get", "list", "watch")
	case step.Scale != nil:
		r.addMade(step.Scale.Step, "/scale", "patch", "update")
		r.addMade(step.Scale.Step, "", "create", "delete", "patch")
	case step.Update != nil:
		r.addMade(step.Update.Step, "", "patch", "update")
	case step.Churn != nil:
		r.addMade(step.Churn.Step, "", "create", "delete")
	case step.Requests != nil:
		for i := range step.Requests.Mix {
			r.addCall(&step.Requests.Mix[i])
		}
	case step.Probe != nil:
		r.addNamed("configmaps", "", "", "create", "delete", "get", "list", "update", "watch")
	case step.Wait != nil && step.Wait.Objects != "":
		r.addNamed(step.Wait.Objects, "", step.Wait.Namespace, "get", "list", "watch")
	case step.Exec != nil:
		r.addNote("step " + step.Name + " runs a command with this user's rights: add those that it needs")
	}
}

// addObjects adds verbs on what a create step makes.
func (r *rights) addObjects(c *scenario.Create, part string, verbs ...string) {
	bodies := []string{c.Body}
	for _, o := range c.Objects {
		bodies = append(bodies, o.Body)
	}
	for _, name := range bodies {
		body := r.w.Bodies[name]
		if body == nil {
			continue
		}
		if body.Kind() == "" {
			r.addNote("the kind of body " + name + " is known only when it is rendered: add the rights to create, read and delete it")
			continue
		}
		gv, _ := schema.ParseGroupVersion(body.APIVersion())
		plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(body.Kind()))
		for _, namespace := range r.placesOf(plural.Resource, r.w.NamespacesOf(c)) {
			r.addVerbs(Place{Group: gv.Group, Resource: plural.Resource + part, Namespace: namespace}, verbs...)
		}
	}
}

// addMade adds verbs on what a create step of a name has made.
func (r *rights) addMade(name, part string, verbs ...string) {
	if step := r.w.StepNamed(name); step != nil && step.Create != nil {
		r.addObjects(step.Create, part, verbs...)
	}
}

// addCall adds what a call of a mix needs.
func (r *rights) addCall(c *scenario.Call) {
	part := ""
	if c.Subresource != "" {
		part = "/" + c.Subresource
	}
	verbs := []string{c.Verb}
	if c.Selector != "" && c.Name == "" || c.Informer != "" {
		verbs = append(verbs, "list")
	}
	switch {
	case c.Of != "":
		r.addMade(c.Of, part, verbs...)
	case c.Resource != "":
		r.addNamed(c.Resource, part, c.Namespace, verbs...)
	}
}

// addNamed adds verbs on a resource that a scenario names, such as deployments.apps.
func (r *rights) addNamed(resource, part, namespace string, verbs ...string) {
	plural, group, _ := strings.Cut(resource, ".")
	if first, rest, ok := strings.Cut(group, "."); ok && isVersion(first) {
		group = rest
	}
	names := []string{""}
	if namespace != "*" {
		names = r.placesOf(plural, r.w.NamespacesOf(&scenario.Create{Namespace: namespace}))
	}
	for _, name := range names {
		r.addVerbs(Place{Group: group, Resource: plural + part, Namespace: name}, verbs...)
	}
}

// isVersion tells v1, v1beta1 from the beginning of a group.
func isVersion(word string) bool {
	return len(word) > 1 && word[0] == 'v' && word[1] >= '0' && word[1] <= '9'
}

// placesOf are the namespaces in which a right is needed: all where the run makes them itself,
// and for what lies in none.
func (r *rights) placesOf(resource string, names []string) []string {
	whole := []string{
		"namespaces", "nodes", "persistentvolumes", "clusterroles", "clusterrolebindings", "customresourcedefinitions", "storageclasses", "priorityclasses",
		"apiservices", "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "flowschemas", "prioritylevelconfigurations", "runtimeclasses", "csidrivers", "csinodes", "volumeattachments",
	}
	if slices.Contains(whole, resource) || slices.ContainsFunc(names, r.w.Owns) {
		return []string{""}
	}
	return names
}

// WatchesPods says whether a run of the scenario observes pods: whether anything in it could
// have to do with pods.
func (w *Workload) WatchesPods() bool {
	s := w.Scenario
	if s.Fleet.Nodes > 0 || len(s.Groups) > 0 || len(s.Subjects) > 0 || len(s.CRDs) > 0 || len(s.Manifests) > 0 || len(s.Members) > 0 || len(s.Lifecycles) > 0 {
		return true
	}
	for _, o := range s.Objectives {
		if o.SLO != "" || o.Query != "" || o.SLI != "" && !strings.HasPrefix(o.SLI, "call") {
			return true
		}
	}
	podless := []string{"ConfigMap", "Secret", "Service", "ServiceAccount", "Namespace", "Lease", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ResourceQuota", "LimitRange", "NetworkPolicy", "Event", "Endpoints", "EndpointSlice"}
	for step := range s.AllSteps() {
		if step.Exec != nil || step.Wait != nil && step.Wait.Pods != "" || step.Churn != nil || step.Settle != nil || step.Scale != nil {
			return true
		}
		for _, name := range bodiesMade(step) {
			if body := w.Bodies[name]; body == nil || !slices.Contains(podless, body.Kind()) {
				return true
			}
		}
	}
	return false
}
