package members

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// imports are what says which services a member has of the host, and what it has. On the
// host marks are the exports, and services and slices are all that there are; in a member
// they are the copies.
type imports struct{ marks, services, slices cache.SharedIndexInformer }

func importsOf(c *api.Client, marks api.Kind[*api.Mark], selector string, caches *slim.Set) *imports {
	return &imports{
		marks:    slim.Add(caches, marks.Informer("", nil), slim.Always(keepMark)),
		services: slim.Add(caches, c.Services.Informer(selector, nil), slim.Always(keepName[*corev1.Service])),
		slices:   slim.Add(caches, c.Slices.Informer(selector, nil), slim.Always(keepSlice)),
	}
}

// isMarked tells whether a service is exported, or imported. One whose mark is being deleted
// is not.
func (i *imports) isMarked(service string) bool {
	m := slim.Get[*mark](i.marks, service)
	return m != nil && !m.deleting
}

// mark is what is kept of an export or import.
type mark struct {
	objectName

	deleting bool
}

func keepMark(m *api.Mark) *mark { return &mark{*keepName(m), m.DeletionTimestamp != nil} }

// slice is what is kept of an EndpointSlice.
type slice struct {
	objectName

	service string // its key
	sum     string // a digest of what it says
}

func keepSlice(s *discoveryv1.EndpointSlice) *slice {
	says := discoveryv1.EndpointSlice{AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
	return &slice{*keepName(s), s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName], api.Sum(says.Marshal())}
}

// compareImports compares a member's copies with the host's services: it has those that the host
// exports and that it imports, all of their slices as they are there, and no others.
func (i *imports) compareImports(member string, host *imports) (out []agree.Difference) {
	told := map[string]bool{}
	tell := func(object string) {
		if !told[object] {
			told[object] = true
			out = append(out, agree.Difference{How: services, Object: object, Where: []string{member}})
		}
	}
	due := func(service string) bool {
		return host.isMarked(service) && i.isMarked(service) && slim.Has(host.services, service)
	}
	for _, service := range i.services.GetIndexer().ListKeys() {
		if !due(service) {
			tell("service " + service)
		}
	}
	for _, s := range slim.All[*slice](host.slices) {
		if !due(s.service) {
			continue
		}
		if !slim.Has(i.services, s.service) {
			tell("service " + s.service)
		}
		key := s.Namespace + "/" + s.Name
		if there := slim.Get[*slice](i.slices, key); there == nil || there.sum != s.sum {
			tell("slice " + key)
		}
	}
	for _, s := range slim.All[*slice](i.slices) {
		key := s.Namespace + "/" + s.Name
		if there := slim.Get[*slice](host.slices, key); there == nil || there.service != s.service || !due(s.service) {
			tell("slice " + key)
		}
	}
	return out
}
