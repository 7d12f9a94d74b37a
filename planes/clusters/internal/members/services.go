package members

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// imports are what says which services a member has of the host, and what it has. On the
// host marks are the exports, and services and slices are all that there are; in a member
// they are the copies.
type imports struct{ marks, services, slices cache.SharedIndexInformer }

func (i *imports) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{i.marks, i.services, i.slices}
}

func importsOf(c *api.Client, marks api.Kind[*api.Mark], selector string) *imports {
	return &imports{marks: marks.Informer("", nil), services: c.Services.Informer(selector, nil), slices: c.Slices.Informer(selector, nil)}
}

// marked tells whether a service is exported, or imported. One whose mark is being deleted
// is not.
func (i *imports) marked(service string) bool {
	o, there, _ := i.marks.GetIndexer().GetByKey(service)
	return there && o.(*api.Mark).DeletionTimestamp == nil
}

func has(i cache.SharedIndexInformer, key string) bool {
	_, there, _ := i.GetIndexer().GetByKey(key)
	return there
}

// slice is what is kept of an EndpointSlice.
type slice struct {
	metav1.ObjectMeta // its name and version alone

	service string // its key
	sum     string // a digest of what it says
}

func slimSlice(s *discoveryv1.EndpointSlice) *slice {
	says := discoveryv1.EndpointSlice{AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
	return &slice{ObjectMeta: named(s), service: s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName], sum: api.Sum(says.Marshal())}
}

// slimMark keeps of an export or import its name and whether it is being deleted.
func slimMark(m *api.Mark) *api.Mark {
	out := &api.Mark{ObjectMeta: named(m)}
	out.DeletionTimestamp = m.DeletionTimestamp
	return out
}

// differs compares a member's copies with the host's services: it has those that the host
// exports and that it imports, all of their slices as they are there, and no others.
func (i *imports) differs(member string, host *imports) (out []Difference) {
	told := map[string]bool{}
	tell := func(object string) {
		if !told[object] {
			told[object] = true
			out = append(out, Difference{services, object, []string{member}})
		}
	}
	due := func(service string) bool {
		return host.marked(service) && i.marked(service) && has(host.services, service)
	}
	for _, service := range i.services.GetIndexer().ListKeys() {
		if !due(service) {
			tell("service " + service)
		}
	}
	for _, o := range host.slices.GetIndexer().List() {
		s := o.(*slice)
		if !due(s.service) {
			continue
		}
		if !has(i.services, s.service) {
			tell("service " + s.service)
		}
		key := s.Namespace + "/" + s.Name
		if there, copied, _ := i.slices.GetIndexer().GetByKey(key); !copied || there.(*slice).sum != s.sum {
			tell("slice " + key)
		}
	}
	for _, o := range i.slices.GetIndexer().List() {
		s := o.(*slice)
		key := s.Namespace + "/" + s.Name
		if there, known, _ := host.slices.GetIndexer().GetByKey(key); !known || there.(*slice).service != s.service || !due(s.service) {
			tell("slice " + key)
		}
	}
	return out
}
