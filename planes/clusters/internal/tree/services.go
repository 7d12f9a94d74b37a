package tree

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// What a member gets of a service of the hub, and what it has to give back, is decided
// here, without a clock, a server or a cache.

const byService = "service" // index of slices

// servicePair is what is known of a service on the hub and of a member's import of it.
type servicePair struct {
	exported bool      // members may have it
	there    bool      // the hub has it
	imported *api.Mark // by the member; nil: it does not ask for it
}

// isRequested tells whether the member wants the service: an import that is being deleted does not.
func (p servicePair) isRequested() bool {
	return p.imported != nil && p.imported.DeletionTimestamp == nil
}

// isWanted tells whether the member is to have the service. Kosmos' semantics wait for one
// that is exported and not there.
func (p servicePair) isWanted(o *Options) bool {
	return p.isRequested() && p.exported && (p.there || o.ImportEnd == ImportEndOwn)
}

// serviceAction is what is to be done in a member for a service.
type serviceAction string

const (
	serviceKeep        serviceAction = "leave it"
	serviceWrite       serviceAction = "write service, slices and import"
	serviceWriteSlice  serviceAction = "write the slice"
	serviceDeleteSlice serviceAction = "delete the slice"
	serviceCleanUp     serviceAction = "delete slices that the hub has no more"
	serviceTakeBack    serviceAction = "delete service and slices, if it has any"
)

// isNews tells whether a change of an export or import is more than what the tree writes
// into it. With Kosmos' semantics that is news too: the import's new addresses start
// another pass.
func isNews(was, is *api.Mark, o *Options) bool {
	return o.Import == ImportMCS && o.ImportEnd == ImportEndOwn || was.UID != is.UID || (was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil)
}

// decideService decides about all of a service.
func (p servicePair) decideService(o *Options) serviceAction {
	if p.isWanted(o) {
		return serviceWrite
	}
	return serviceKeep
}

// decideSlice decides about one slice; found tells whether the hub has it.
func (p servicePair) decideSlice(found bool, o *Options) serviceAction {
	switch {
	case !p.isWanted(o):
		return serviceKeep
	case found:
		return serviceWriteSlice
	}
	return serviceDeleteSlice
}

// decideEnd decides about what the member has of a service and is not to have. With Kosmos'
// semantics that is what an import brought that is being deleted.
func (p servicePair) decideEnd(o *Options) serviceAction {
	switch {
	case p.isWanted(o):
		return serviceCleanUp
	case o.ImportEnd == ImportEndOwn && (p.imported == nil || p.isRequested()):
		return serviceKeep
	}
	return serviceTakeBack
}

// queueKeys are what goes into a member's queue when a service, of these slices on the hub,
// has changed: the question whether it is to have it at all, and all of it or each slice.
func (p servicePair) queueKeys(service string, hub []*discoveryv1.EndpointSlice, o *Options) []string {
	out := []string{prefixEnd + service}
	switch {
	case !p.isRequested():
	case o.Import == ImportMCS:
		out = append(out, service)
	default:
		for _, s := range hub {
			out = append(out, p.sliceKey(service, s.Name, o))
		}
	}
	return out
}

// sliceKey is what goes into a member's queue when a slice has changed, empty where the
// member does not ask for its service.
func (p servicePair) sliceKey(service, slice string, o *Options) string {
	switch {
	case !p.isRequested():
		return ""
	case o.Import == ImportDirect:
		return service + "/" + slice
	}
	return service
}

// oldSlices are the copies in a member that are not of these slices of the hub.
func oldSlices(hub, copies []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	for _, c := range copies {
		if !slices.ContainsFunc(hub, func(s *discoveryv1.EndpointSlice) bool { return s.Name == c.Name }) {
			out = append(out, c)
		}
	}
	return out
}

// isMarked tells whether a slice says that members may import it.
func isMarked(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelExported] == "true" }

// needsMark tells whether the mark of a slice of the hub is to be written: where it is not as
// its service is, be it that the export was heard of before the slice or ended while nobody
// watched; with mcs each of a service that members may import, whether it differs or not.
func needsMark(s *discoveryv1.EndpointSlice, exported bool, o *Options) bool {
	return isMarked(s) != exported || exported && o.Import == ImportMCS
}

// decideMark returns a slice of the hub as it is to be written, nil if it is not.
func decideMark(s *discoveryv1.EndpointSlice, exported bool, o *Options) *discoveryv1.EndpointSlice {
	if !needsMark(s, exported, o) {
		return nil
	}
	next := s.DeepCopy()
	delete(next.Labels, api.LabelExported)
	if exported {
		metav1.SetMetaDataLabel(&next.ObjectMeta, api.LabelExported, "true")
	}
	return next
}

// markChange is a change of an export or an import; nil: there is none.
type markChange func(*api.Mark)

// finalizerChange gives an export or import the finalizer with which Kosmos hears of its
// end, however late, and takes it off one that ends. Without it, caches tell what ended.
func finalizerChange(o *api.Mark, end string) markChange {
	has := slices.Contains(o.Finalizers, api.FinalizerServices)
	switch {
	case o.DeletionTimestamp != nil && has:
		return dropFinalizer
	case o.DeletionTimestamp == nil && !has && end != ImportEndAll:
		return func(o *api.Mark) { o.Finalizers = append(o.Finalizers, api.FinalizerServices) }
	}
	return nil
}

// forgetChange takes from an import what the tree wrote into it.
func forgetChange(i *api.Mark) markChange {
	_, addresses := i.Annotations[api.AnnotationAddresses]
	ending := i.DeletionTimestamp != nil && slices.Contains(i.Finalizers, api.FinalizerServices)
	if !ending && (!addresses || i.DeletionTimestamp != nil) {
		return nil
	}
	return func(i *api.Mark) {
		delete(i.Annotations, api.AnnotationAddresses)
		if ending {
			dropFinalizer(i)
		}
	}
}

func dropFinalizer(o *api.Mark) {
	o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == api.FinalizerServices })
}

// nameTaken returns an error while somebody else has the name of a copy in the member:
// what is written over could not be given back. there is what has the name, if found.
func nameTaken(there metav1.Object, found bool) error {
	if found && !isGlobal(there) {
		return errNotYet
	}
	return nil
}

// copyService is a member's.
func copyService(hub *corev1.Service) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: hub.Namespace, Name: hub.Name, Labels: map[string]string{api.LabelGlobal: "true"}}}
	s.Spec.Ports = slices.Clone(hub.Spec.Ports)
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
	s.Spec.ClusterIP = corev1.ClusterIPNone // addresses are the member's own affair
	return s
}

// copySlice is a member's.
func copySlice(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
	out.Name, out.Namespace = s.Name, s.Namespace
	out.Labels = map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName], api.LabelGlobal: "true"}
	return out
}

// serviceOf is the key of the service that a slice belongs to.
func serviceOf(o any) string {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return ""
	}
	return s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
}

// indexByService is the index function of slices.
func indexByService(o any) ([]string, error) { return []string{serviceOf(o)}, nil }

func sameEndpoints(a, b *discoveryv1.EndpointSlice) bool {
	x, errX := (&discoveryv1.EndpointSlice{Endpoints: a.Endpoints, Ports: a.Ports, AddressType: a.AddressType}).Marshal()
	y, errY := (&discoveryv1.EndpointSlice{Endpoints: b.Endpoints, Ports: b.Ports, AddressType: b.AddressType}).Marshal()
	return errX == nil && errY == nil && string(x) == string(y)
}
