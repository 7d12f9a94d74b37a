package clusters_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// mark makes a ServiceExport or a ServiceImport.
func (r *rig) mark(config *rest.Config, resource, kind, name string) {
	r.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": api.GroupServices + "/" + api.Version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "default"}}}
	repotest.Must(marks(config, resource).Create(r.t.Context(), o, metav1.CreateOptions{}))(r.t)
}

func marks(config *rest.Config, resource string) dynamic.ResourceInterface {
	c := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: api.GroupServices, Version: api.Version, Resource: resource})
	return c.Namespace("default")
}

func (r *rig) exports() dynamic.ResourceInterface {
	return marks(r.endpoint.Config("test"), api.ResourceExports)
}

func (f *member) imports() dynamic.ResourceInterface {
	return marks(f.cluster.Endpoint().Config("test"), api.ResourceImports)
}

// exchange exports a service and lets a member import it.
func (r *rig) exchange(name string, to *member) {
	r.t.Helper()
	r.mark(r.endpoint.Config("test"), api.ResourceExports, "ServiceExport", name)
	r.mark(to.cluster.Endpoint().Config("test"), api.ResourceImports, "ServiceImport", name)
}

// services returns the names of a cluster's services and slices.
func (r *rig) services(c kubernetes.Interface) (out []string) {
	r.t.Helper()
	all := repotest.Must(c.CoreV1().Services("default").List(r.t.Context(), metav1.ListOptions{}))(r.t)
	for i := range all.Items {
		out = append(out, all.Items[i].Name)
	}
	list := repotest.Must(c.DiscoveryV1().EndpointSlices("default").List(r.t.Context(), metav1.ListOptions{}))(r.t)
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	slices.Sort(out)
	return out
}

// service makes one with slices of two addresses each.
func (r *rig) service(name string, count int) {
	r.t.Helper()
	ctx, port := r.t.Context(), int32(80)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
	repotest.Must(r.host.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}))(r.t)
	for i := range count {
		r.slice(name, i)
	}
}

// slice makes the i-th slice of a service.
func (r *rig) slice(service string, i int) {
	r.t.Helper()
	port := int32(80)
	e := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}}}
	e.Name, e.Labels = fmt.Sprint(service, "-", i), map[string]string{discoveryv1.LabelServiceName: service}
	e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("192.0.2.%d", i)}}, {Addresses: []string{fmt.Sprintf("192.0.2.1%02d", i)}}}
	repotest.Must(r.host.DiscoveryV1().EndpointSlices("default").Create(r.t.Context(), e, metav1.CreateOptions{}))(r.t)
}

// TestServices holds that members have the services that they ask for, and what a
// change of one slice costs: with mcs at least two passes of 3 + 2 slices calls in each member,
// the second of which its own write started; or one call for each.
func TestServices(t *testing.T) {
	const count, importing = 4, 2
	planetest.Each(t, map[string]int{tree.ImportMCS: 2 * importing * (3 + 2*count), tree.ImportDirect: importing}, func(t *testing.T, way string, want int) {
		r := newRig(t, shape{members: 3, nodes: 1, mode: api.LeafAll})
		m := r.manage(func(o *tree.Options) { calm(o); o.Import = way })
		r.joined(m)
		r.service("web", count)
		r.mark(r.endpoint.Config("test"), api.ResourceExports, "ServiceExport", "web")
		for _, member := range r.members[:importing] {
			r.mark(member.cluster.Endpoint().Config("test"), api.ResourceImports, "ServiceImport", "web")
		}
		has := func(member *member, i int, address string) bool {
			s, err := member.DiscoveryV1().EndpointSlices("default").Get(t.Context(), fmt.Sprint("web-", i), metav1.GetOptions{})
			_, err2 := member.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
			return err == nil && err2 == nil && s.Endpoints[0].Addresses[0] == address
		}
		for _, member := range r.members[:importing] {
			repotest.Eventually(t, "it has all slices", func() bool {
				for i := range count {
					if !has(member, i, fmt.Sprintf("192.0.2.%d", i)) {
						return false
					}
				}
				return true
			})
		}
		m.rests()
		calls := func() (n int) {
			for _, resource := range []string{"services", "endpointslices", "serviceimports", "events"} {
				n += m.memberCalls("CREATE", resource) + m.memberCalls("UPDATE", resource)
			}
			// A write that met a newer import is made once more.
			return n - int(value(t, m.registry, "rest_client_requests_total", "verb=UPDATE", "resource=serviceimports", "code=409"))
		}
		before := calls()
		s := repotest.Must(r.host.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "web-1", metav1.GetOptions{}))(t)
		s.Endpoints[0].Addresses[0] = "192.0.2.200"
		repotest.Must(r.host.DiscoveryV1().EndpointSlices("default").Update(t.Context(), s, metav1.UpdateOptions{}))(t)
		for _, member := range r.members[:importing] {
			repotest.Eventually(t, "it follows", func() bool { return has(member, 1, "192.0.2.200") })
		}
		got := 0 // read when it rests: it seems to between its own write and that write's event
		repotest.Eventually(t, fmt.Sprint("it rests after whole passes, the first of ", want, " calls to members"), func() bool {
			got = calls() - before
			further := got - want
			return m.idle() && (further == 0 || further > 0 && way == tree.ImportMCS && further%(3+2*count) == 0)
		}, func() any { return got })
		list, err := r.members[importing].DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			t.Errorf("a member that asked for nothing has %d slices, %v", len(list.Items), err)
		}
	})
}

// TestServicesEnd holds what stays of a service in a member that imported it: when its
// import, its export, it itself or one of its slices is deleted, while a manager runs and
// while none does. With Kosmos' semantics an import takes along what it brought, and what
// the host takes back stays. What else the options come to is in services.trace.
func TestServicesEnd(t *testing.T) {
	service := func(name string) []string { return []string{name, name + "-0", name + "-1"} }
	for way, end := range map[string]string{tree.ImportMCS: tree.ImportEndOwn, tree.ImportDirect: tree.ImportEndAll} {
		for _, missed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/missed=%t", way, end, missed), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafAll})
				member, change := r.members[0], func(o *tree.Options) {
					calm(o)
					o.Import, o.ImportEnd, o.Retry = way, end, tree.RetryGrows
				}
				m := r.manage(change)
				r.joined(m)
				var all []string
				for _, name := range []string{"export", "import", "service", "slice"} {
					r.service(name, 2)
					r.exchange(name, member)
					all = append(all, service(name)...)
				}
				repotest.Eventually(t, "the member has all", func() bool { return slices.Equal(r.services(member), all) && m.idle() })
				r.agree()
				if missed {
					m.stop()
				}
				r.endServices(member)
				if missed {
					m = r.manage(change)
					r.joined(m)
				}
				r.service("late", 1) // whatever was deleted before is seen when it comes
				r.exchange("late", member)
				want := append(service("late")[:2], "slice", "slice-0")
				if end == tree.ImportEndOwn {
					want = append(append(want, service("export")...), service("service")...)
					if way == tree.ImportMCS || missed {
						want = append(want, "slice-1")
					}
				}
				slices.Sort(want)
				var got []string
				repotest.Eventually(t, "the member has what it is to have", func() bool {
					got = r.services(member)
					return slices.Equal(got, want) && m.idle()
				}, func() any { return fmt.Sprint(got, ", want ", want) })
				left := len(want) - 4 // beside the late ones, slice and slice-0
				var first any
				repotest.Eventually(t, "what is left is told", func() bool {
					n, all := r.differences()
					first = all
					return n == left && (n == 0 || all[0].How == "services")
				}, func() any { return first })
				r.marksEnded(member, end, way)
			})
		}
	}
}

// endServices deletes of each of four services what it is named after.
func (r *rig) endServices(importing *member) {
	r.t.Helper()
	ctx, now := r.t.Context(), metav1.DeleteOptions{}
	for what, err := range map[string]error{
		"export":  r.exports().Delete(ctx, "export", now),
		"import":  importing.imports().Delete(ctx, "import", now),
		"service": r.host.CoreV1().Services("default").Delete(ctx, "service", now),
		"slice":   r.host.DiscoveryV1().EndpointSlices("default").Delete(ctx, "slice-1", now),
	} {
		if err != nil {
			r.t.Fatal(what, err)
		}
	}
}

// marksEnded waits until exports and imports that were deleted are gone, and holds that
// their marks are.
func (r *rig) marksEnded(importing *member, end, way string) {
	r.t.Helper()
	ctx := r.t.Context()
	repotest.Eventually(r.t, "they are gone", func() bool {
		_, err := r.exports().Get(ctx, "export", metav1.GetOptions{})
		_, err2 := importing.imports().Get(ctx, "import", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(err2)
	})
	repotest.Eventually(r.t, "the host's slices are not exported any more", func() bool {
		s, err := r.host.DiscoveryV1().EndpointSlices("default").Get(ctx, "export-0", metav1.GetOptions{})
		return err == nil && s.Labels[api.LabelExported] == ""
	})
	o := repotest.Must(importing.imports().Get(ctx, "export", metav1.GetOptions{}))(r.t)
	addresses := o.GetAnnotations()[api.AnnotationAddresses]
	if kept := way == tree.ImportMCS && end == tree.ImportEndOwn; kept != (addresses != "") {
		r.t.Errorf("the import of what is exported no more says %q", addresses)
	}
	if held := end == tree.ImportEndOwn; held != (len(o.GetFinalizers()) > 0) {
		r.t.Errorf("it has finalizers %v", o.GetFinalizers())
	}
}

// TestHalfTakenBack holds what becomes of a service without its slices, and of slices
// without their service, of imports that end while no manager runs: such as when one was
// killed at it. With Kosmos' semantics slices alone stay.
func TestHalfTakenBack(t *testing.T) {
	planetest.Each(t, map[string][]string{tree.ImportEndOwn: {"slices-0"}, tree.ImportEndAll: nil}, func(t *testing.T, end string, left []string) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafAll})
		member, ctx := r.members[0], t.Context()
		change := func(o *tree.Options) { calm(o); o.Import, o.ImportEnd = tree.ImportMCS, end }
		m := r.manage(change)
		r.joined(m)
		for _, name := range []string{"service", "slices"} {
			r.service(name, 1)
			r.exchange(name, member)
		}
		repotest.Eventually(t, "the member has all", func() bool { return len(r.services(member)) == 4 && m.idle() })
		m.stop()
		for _, err := range []error{
			member.imports().Delete(ctx, "service", metav1.DeleteOptions{}),
			member.imports().Delete(ctx, "slices", metav1.DeleteOptions{}),
			member.DiscoveryV1().EndpointSlices("default").Delete(ctx, "service-0", metav1.DeleteOptions{}),
			member.CoreV1().Services("default").Delete(ctx, "slices", metav1.DeleteOptions{}),
		} {
			repotest.NoError(t, err)
		}
		m = r.manage(change)
		r.joined(m)
		var got []string
		repotest.Eventually(t, "the member has what it is to have", func() bool {
			got = r.services(member)
			return slices.Equal(got, left) && m.idle()
		}, func() any { return got })
	})
}

// TestSliceMadeWhileAMemberJoins holds that a member gets a slice that the host made after
// the member's import was seen and before the member was known.
func TestSliceMadeWhileAMemberJoins(t *testing.T) {
	for _, way := range []string{tree.ImportMCS, tree.ImportDirect} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := shape{members: 1, nodes: 1, mode: api.LeafAll, unjoined: true}
			r := newRig(t, s)
			release := r.held("/api/v1/persistentvolumes")
			r.join(s)
			r.service("web", 1)
			r.exchange("web", r.members[0])
			m := r.manage(func(o *tree.Options) { calm(o); o.Import = way })
			repotest.Eventually(t, "the import is seen", func() bool { return m.added("imports") >= 2 })
			r.slice("web", 1)
			r.service("later", 1) // its slice comes by the same watch, and is marked once it and its export are heard of
			r.mark(r.endpoint.Config("test"), api.ResourceExports, "ServiceExport", "later")
			repotest.Eventually(t, "the manager has heard of it", func() bool {
				s, err := r.host.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "later-0", metav1.GetOptions{})
				return err == nil && s.Labels[api.LabelExported] == "true"
			})
			if got := value(t, m.registry, "tree_members"); got != 0 {
				t.Fatalf("%v members have joined", got)
			}
			release()
			repotest.Eventually(t, "the member has both", func() bool { return slices.Equal(r.services(r.members[0]), []string{"web", "web-0", "web-1"}) })
		})
	}
}

// held puts a server before the first member that answers a manager's calls of a path
// after release only.
func (r *rig) held(path string) (release func()) {
	r.t.Helper()
	open := make(chan struct{})
	to := r.members[0].cluster.Endpoint().Config("held")
	target := repotest.Must(url.Parse(to.Host))(r.t)
	through := httputil.NewSingleHostReverseProxy(target)
	through.FlushInterval = -1
	through.Transport = repotest.Must(rest.TransportFor(to))(r.t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == path && q.UserAgent() == "tree-test" {
			select {
			case <-open:
			case <-q.Context().Done():
				return
			}
		}
		through.ServeHTTP(w, q)
	}))
	r.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	config := clientcmdapi.NewConfig()
	config.Clusters["m"] = &clientcmdapi.Cluster{Server: s.URL, InsecureSkipTLSVerify: true}
	config.Contexts["m"] = &clientcmdapi.Context{Cluster: "m"}
	config.CurrentContext = "m"
	repotest.NoError(r.t, clientcmd.WriteToFile(*config, filepath.Join(r.folder, r.members[0].name+".kubeconfig")))
	return sync.OnceFunc(func() { close(open) })
}

// TestTooManyAddresses holds that an import of more addresses than an annotation takes is
// refused again and again, and said so, and that one without the annotation is not.
func TestTooManyAddresses(t *testing.T) {
	const each, count = 1000, 17 // of 16 bytes with the comma: 272,000
	for _, way := range []string{tree.ImportMCS, tree.ImportDirect} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafAll})
			member, said := r.members[0], &planetest.Lines{}
			m := r.manage(func(o *tree.Options) {
				calm(o)
				o.Import, o.Retry, o.Log = way, tree.RetryGrows, slog.New(slog.NewTextHandler(said, nil))
			})
			r.joined(m)
			r.service("web", 0)
			for i := range count {
				e := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
				e.Name, e.Labels = fmt.Sprint("web-", i), map[string]string{discoveryv1.LabelServiceName: "web"}
				for k := range each {
					e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("198.1%d.%d.%d", 10+i, 100+k/100, 100+k%100)}})
				}
				repotest.Must(r.host.DiscoveryV1().EndpointSlices("default").Create(t.Context(), e, metav1.CreateOptions{}))(t)
			}
			r.exchange("web", member)
			repotest.Eventually(t, "all slices are there", func() bool { return len(r.services(member)) == 1+count }) // what does not fit is their list
			r.agree()
			failed := func() float64 { return value(t, m.registry, "tree_failures_total", "part=imports") }
			const message = "metadata.annotations: Too long: may not be more than 262144 bytes"
			if way == tree.ImportDirect {
				m.rests()
				if n := failed(); n > 0 || strings.Contains(said.String(), message) {
					t.Errorf("%v imports of slices failed: %s", n, said)
				}
				return
			}
			repotest.Eventually(t, "it fails again and again", func() bool { return failed() > 1 })
			if text := said.String(); !strings.Contains(text, message) || !strings.Contains(text, "addresses=17000") {
				t.Errorf("it said %s", text)
			}
		})
	}
}

// TestImportOff holds that without imports nobody asks for services of members, and nothing
// comes.
func TestImportOff(t *testing.T) {
	planetest.Each(t, map[string]bool{tree.ImportOff: false, tree.ImportMCS: true, tree.ImportDirect: true}, func(t *testing.T, way string, wanted bool) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafAll})
		r.service("web", 2)
		r.exchange("web", r.members[0])
		m := r.manage(func(o *tree.Options) { calm(o); o.Import = way })
		r.joined(m)
		r.creates(1)
		r.run(1)
		if wanted {
			repotest.Eventually(t, "the service comes", func() bool { return len(r.services(r.members[0])) == 3 })
		}
		m.rests()
		for _, resource := range []string{"serviceexports", "serviceimports", "endpointslices"} {
			if n := value(t, m.registry, "rest_client_requests_total", "resource="+resource); n > 0 != wanted {
				t.Errorf("%v calls for %s", n, resource)
			}
		}
		if got := r.services(r.members[0]); len(got) > 0 != wanted {
			t.Errorf("the member has %v", got)
		}
	})
}
