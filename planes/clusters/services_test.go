package clusters_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
)

// mark makes a ServiceExport or a ServiceImport.
func (r *rig) mark(config *rest.Config, resource, kind, name string) {
	r.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": api.GroupServices + "/" + api.Version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "default"}}}
	c := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: api.GroupServices, Version: api.Version, Resource: resource})
	if _, err := c.Namespace("default").Create(r.t.Context(), o, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// service makes one with slices of two addresses each.
func (r *rig) service(name string, slices int) {
	r.t.Helper()
	ctx, port := r.t.Context(), int32(80)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
	if _, err := r.host.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	for i := range slices {
		e := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}}}
		e.Name, e.Labels = fmt.Sprint(name, "-", i), map[string]string{discoveryv1.LabelServiceName: name}
		e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("192.0.2.%d", i)}}, {Addresses: []string{fmt.Sprintf("192.0.2.1%02d", i)}}}
		if _, err := r.host.DiscoveryV1().EndpointSlices("default").Create(ctx, e, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestServices holds that members have the services that they ask for, and what a
// change of one slice costs: members x (3 + 2 slices) calls, or one call for each.
func TestServices(t *testing.T) {
	const slices, importing = 4, 2
	for way, want := range map[string]int{tree.ImportMCS: importing * (3 + 2*slices), tree.ImportDirect: importing} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, shape{members: 3, nodes: 1, mode: api.LeafAll})
			m := r.manage(func(o *tree.Options) { calm(o); o.Import = way })
			r.joined(m)
			r.service("web", slices)
			r.mark(r.endpoint.Config("test"), api.ResourceExports, "ServiceExport", "web")
			for _, far := range r.members[:importing] {
				r.mark(far.cluster.Endpoint().Config("test"), api.ResourceImports, "ServiceImport", "web")
			}
			has := func(far *far, i int, address string) bool {
				s, err := far.DiscoveryV1().EndpointSlices("default").Get(t.Context(), fmt.Sprint("web-", i), metav1.GetOptions{})
				_, err2 := far.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
				return err == nil && err2 == nil && s.Endpoints[0].Addresses[0] == address
			}
			for _, far := range r.members[:importing] {
				repotest.Eventually(t, "it has all slices", func() bool {
					for i := range slices {
						if !has(far, i, fmt.Sprintf("192.0.2.%d", i)) {
							return false
						}
					}
					return true
				})
			}
			repotest.Eventually(t, "it rests", m.idle)
			calls := func() (n int) {
				for _, resource := range []string{"services", "endpointslices", "serviceimports", "events"} {
					n += m.memberCalls("CREATE", resource) + m.memberCalls("UPDATE", resource)
				}
				return n
			}
			before := calls()
			s, err := r.host.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "web-1", metav1.GetOptions{})
			if err == nil {
				s.Endpoints[0].Addresses[0] = "192.0.2.200"
				_, err = r.host.DiscoveryV1().EndpointSlices("default").Update(t.Context(), s, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, far := range r.members[:importing] {
				repotest.Eventually(t, "it follows", func() bool { return has(far, 1, "192.0.2.200") })
			}
			repotest.Eventually(t, "it rests again", m.idle)
			if got := calls() - before; got != want {
				t.Errorf("a change of one slice took %d calls to members, want %d", got, want)
			}
			list, err := r.members[importing].DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) > 0 {
				t.Errorf("a member that asked for nothing has %d slices, %v", len(list.Items), err)
			}
		})
	}
}
