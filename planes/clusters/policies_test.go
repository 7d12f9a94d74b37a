package clusters_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// policy makes a PodConvertPolicy in the namespace default, or a ClusterPodConvertPolicy,
// of a spec in YAML.
func (r *rig) policy(resource, name, spec string) {
	r.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	repotest.NoError(r.t, yaml.Unmarshal([]byte("spec: "+spec), &o.Object))
	o.SetAPIVersion(api.Group + "/" + api.Version)
	o.SetName(name)
	var in dynamic.ResourceInterface = r.kosmos(resource)
	if o.SetKind("ClusterPodConvertPolicy"); resource == api.ResourcePolicies {
		o.SetKind("PodConvertPolicy")
		in = r.kosmos(resource).Namespace("default")
	}
	repotest.Must(in.Create(r.t.Context(), o, metav1.CreateOptions{}))(r.t)
}

// TestConvertPolicies holds which policy changes a pod on its way down, and that each
// kind of converter comes through to the member.
func TestConvertPolicies(t *testing.T) {
	r := newRig(t, shape{members: 2, nodes: 2, mode: api.LeafParty})
	r.policy(api.ResourcePolicies, "b-later", `{labelSelector: {}, converters: {schedulerNameConverter: {convertType: replace, schedulerName: wrong}}}`)
	r.policy(api.ResourcePolicies, "a-none", `{labelSelector: {}}`) // without converters it is passed over
	r.policy(api.ResourcePolicies, "a-web", `
  labelSelector: {matchLabels: {app: web}}
  leafNodeSelector: {matchLabels: {zone: z0}}
  converters:
    schedulerNameConverter: {convertType: add, schedulerName: default-scheduler}
    nodeSelectorConverter: {convertType: remove}
    tolerationConverter: {convertType: add, tolerations: [{key: gpu, operator: Exists}]}
    affinityConverter:
      convertType: replace
      affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: Exists}]}}]}}
    topologySpreadConstraintsConverter:
      convertType: add
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
    hostAliasesConverter: {convertType: add, hostAliases: [{ip: 192.0.2.9, hostnames: [other]}]}`)
	r.policy(api.ResourceClusterPolicies, "everywhere", `{labelSelector: {}, converters: {nodeNameConverter: {convertType: replace, nodeName: m1-n1}}}`)
	m := r.manage()
	r.joined(m)
	web := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web"}
		p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"mine"}}} // add leaves it alone
	}
	r.create(pod("web", web, on("kosmos-m0-0")))
	r.create(pod("far", web, on("kosmos-m0-1"))) // of another zone
	elsewhere := pod("elsewhere", on("kosmos-m1-0"))
	elsewhere.Namespace = "other" // where only the cluster's policy is
	repotest.Must(r.host.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}))(t)
	r.create(elsewhere)
	got := func(member int, namespace, name string) (p *corev1.Pod) {
		t.Helper()
		repotest.Eventually(t, name+" is in its member", func() (ok bool) {
			var err error
			p, err = r.members[member].CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil
		})
		return p
	}
	p := got(0, "default", "web")
	s := p.Spec
	if p.Annotations[api.AnnotationPolicy] != "a-web" || s.SchedulerName != "default-scheduler" || len(s.NodeSelector) != 0 || s.Affinity == nil || s.Affinity.NodeAffinity == nil || len(s.TopologySpreadConstraints) != 1 {
		t.Errorf("web of policy %q has scheduler %q, selector %v, affinity %v, spread %v", p.Annotations[api.AnnotationPolicy], s.SchedulerName, s.NodeSelector, s.Affinity, s.TopologySpreadConstraints)
	}
	if !slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool { return t.Key == "gpu" }) || len(s.HostAliases) != 1 || s.HostAliases[0].IP != "192.0.2.1" {
		t.Errorf("web has tolerations %v and aliases %v", s.Tolerations, s.HostAliases)
	}
	if p := got(0, "default", "far"); p.Annotations[api.AnnotationPolicy] != "b-later" || p.Spec.SchedulerName != "wrong" || p.Spec.NodeSelector["zone"] != "z1" {
		t.Errorf("far of policy %q has scheduler %q and selector %v", p.Annotations[api.AnnotationPolicy], p.Spec.SchedulerName, p.Spec.NodeSelector)
	}
	if p := got(1, "other", "elsewhere"); p.Annotations[api.AnnotationPolicy] != "everywhere" || p.Spec.NodeName != "m1-n1" {
		t.Errorf("elsewhere of policy %q is on %q", p.Annotations[api.AnnotationPolicy], p.Spec.NodeName)
	}
	if n := value(t, m.registry, "tree_pods_converted_total"); n < 3 {
		t.Errorf("%v pods are converted, want 3", n)
	}
}
