package hub

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// key is an object at an edge.
type key struct{ node, kind, namespace, name, uid string }

// store is where it stands what an edge has acknowledged.
type store interface {
	// versionOf returns the version acknowledged, 0 where none was yet; ok is false
	// for what the store does not know.
	versionOf(k key) (version uint64, ok bool)
	// beginObject notes that a new object is sent.
	beginObject(ctx context.Context, k key) error
	recordVersion(ctx context.Context, k key, version uint64) error
	recordDeleted(ctx context.Context, k key) error
	// keysOf returns what an edge has, or with an empty name what all have.
	keysOf(node string) []key
	// nodesWithObjects returns the nodes of which of would return something.
	nodesWithObjects() []string
}

// kinds of objects by the type of their messages.
func kindOf(resource string) (version, kind string) {
	switch resource {
	case "pod":
		return "v1", "Pod"
	case "configmap":
		return "v1", "ConfigMap"
	case "secret":
		return "v1", "Secret"
	case "device":
		return api.DevicesVersion().String(), "Device"
	case "devicemodel":
		return api.DevicesVersion().String(), "DeviceModel"
	}
	return "v1", "Node"
}

func resourceOf(kind string) string {
	switch kind {
	case "Pod":
		return "pod"
	case "ConfigMap":
		return "configmap"
	case "Secret":
		return "secret"
	case "Device":
		return "device"
	case "DeviceModel":
		return "devicemodel"
	}
	return "node"
}

// crdStore keeps ObjectSyncs and ClusterObjectSyncs at the API server. What was
// written and is not yet seen on the watch is in newer.
type crdStore struct {
	hub     *Hub
	objects cache.SharedIndexInformer
	nodes   cache.SharedIndexInformer
	mu      sync.Mutex
	newer   map[string]*api.Sync // by namespace/name
}

func newCRDStore(h *Hub) (*crdStore, error) {
	s := &crdStore{hub: h, newer: map[string]*api.Sync{}, objects: h.client.SyncInformer(api.ResourceSyncs), nodes: h.client.SyncInformer(api.ResourceNodeSyncs)}
	for _, i := range []cache.SharedIndexInformer{s.objects, s.nodes} {
		if err := loop.Watch(i, s.onSync); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *crdStore) onSync(old, now *api.Sync) {
	sync := cmp.Or(now, old)
	id := sync.Namespace + "/" + sync.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.newer[id]; now == nil || own != nil && parseVersion(own.ResourceVersion) <= parseVersion(now.ResourceVersion) {
		delete(s.newer, id)
	}
}

func (s *crdStore) rememberWritten(sync *api.Sync) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newer[sync.Namespace+"/"+sync.Name] = sync
}

// namespaceOf is where the Sync of an object is.
func (k key) namespaceOf() string {
	if k.kind == "node" {
		return ""
	}
	return k.namespace
}

func (s *crdStore) syncOf(k key) *api.Sync {
	namespace, name := k.namespaceOf(), api.SyncName(k.node, k.uid)
	s.mu.Lock()
	own := s.newer[namespace+"/"+name]
	s.mu.Unlock()
	if own != nil {
		return own
	}
	informer, id := s.objects, namespace+"/"+name
	if namespace == "" {
		informer, id = s.nodes, name
	}
	return slim.Get[*api.Sync](informer, id)
}

func (s *crdStore) versionOf(k key) (uint64, bool) {
	sync := s.syncOf(k)
	if sync == nil {
		return 0, false
	}
	return parseVersion(sync.Status.ResourceVersion), true
}

func (s *crdStore) newSync(k key) *api.Sync {
	version, kind := kindOf(k.kind)
	return &api.Sync{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespaceOf(), Name: api.SyncName(k.node, k.uid)},
		Spec:       api.SyncSpec{APIVersion: version, Kind: kind, Name: k.name},
	}
}

// beginObject makes the Sync; AlreadyExists says that another hub did.
func (s *crdStore) beginObject(ctx context.Context, k key) error {
	return s.createSync(ctx, k, 0)
}

// createSync makes a Sync and then its status, which is a part of its own.
func (s *crdStore) createSync(ctx context.Context, k key, version uint64) error {
	made, err := s.hub.client.CreateSync(ctx, s.newSync(k))
	if err := s.hub.metrics.countCall("CREATE", err); err != nil {
		return err
	}
	made.Status.ResourceVersion = strconv.FormatUint(version, 10)
	made, err = s.hub.client.UpdateSync(ctx, made)
	if err := s.hub.metrics.countCall("UPDATE", err); err != nil {
		return err
	}
	s.rememberWritten(made)
	return nil
}

// recordVersion writes the version that an edge has. Another hub or an older copy may be
// in the way, twice at most.
func (s *crdStore) recordVersion(ctx context.Context, k key, version uint64) (err error) {
	sync := s.syncOf(k)
	if sync == nil && s.hub.o.Birth == BirthAck && !s.hub.o.SuccessGet {
		if err := s.createSync(ctx, k, version); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	if sync != nil && !s.hub.o.SuccessGet && parseVersion(sync.Status.ResourceVersion) == version {
		return nil // sent again, or asked for again: it stands there
	}
	for try := range 3 {
		if sync == nil || s.hub.o.SuccessGet || try > 0 {
			sync, err = s.hub.client.GetSync(ctx, k.namespaceOf(), api.SyncName(k.node, k.uid))
			err = s.hub.metrics.countCall("GET", err)
			if apierrors.IsNotFound(err) {
				return s.createSync(ctx, k, version)
			}
			if err != nil {
				return err
			}
		}
		next := sync.DeepCopyObject().(*api.Sync)
		next.Status.ResourceVersion = strconv.FormatUint(version, 10)
		next, err = s.hub.client.UpdateSync(ctx, next)
		if err = s.hub.metrics.countCall("UPDATE", err); err == nil {
			s.rememberWritten(next)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

func (s *crdStore) recordDeleted(ctx context.Context, k key) error {
	name := api.SyncName(k.node, k.uid)
	err := s.hub.metrics.countCall("DELETE", s.hub.client.DeleteSync(ctx, k.namespaceOf(), name))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.newer, k.namespaceOf()+"/"+name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (s *crdStore) keysOf(node string) (out []key) {
	for _, i := range []cache.SharedIndexInformer{s.objects, s.nodes} {
		var all []*api.Sync
		if node == "" {
			all = slim.All[*api.Sync](i)
		} else {
			all = slim.ByIndex[*api.Sync](i, api.ByNode, node)
		}
		for _, sync := range all {
			n, uid := sync.Parts()
			out = append(out, key{node: n, kind: resourceOf(sync.Spec.Kind), namespace: sync.Namespace, name: sync.Spec.Name, uid: uid})
		}
	}
	return out
}

func (s *crdStore) nodesWithObjects() []string {
	return append(s.objects.GetIndexer().ListIndexFuncValues(api.ByNode), s.nodes.GetIndexer().ListIndexFuncValues(api.ByNode)...)
}

// localStore keeps it in memory; with forgetful it keeps nothing.
type localStore struct {
	forgetful bool
	mu        sync.Mutex
	versions  map[string]map[key]uint64 // by node: an edge's are asked for again and again
}

func (s *localStore) versionOf(k key) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.versions[k.node][k]
	return v, ok
}

func (s *localStore) beginObject(context.Context, key) error { return nil }

func (s *localStore) recordVersion(_ context.Context, k key, version uint64) error {
	if s.forgetful {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions[k.node] == nil {
		s.versions[k.node] = map[key]uint64{}
	}
	s.versions[k.node][k] = version
	return nil
}

func (s *localStore) recordDeleted(_ context.Context, k key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.versions[k.node], k)
	if len(s.versions[k.node]) == 0 {
		delete(s.versions, k.node)
	}
	return nil
}

func (s *localStore) keysOf(node string) (out []key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node != "" {
		return slices.Collect(maps.Keys(s.versions[node]))
	}
	for _, versions := range s.versions {
		out = slices.AppendSeq(out, maps.Keys(versions))
	}
	return out
}

func (s *localStore) nodesWithObjects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.versions))
}

// parseVersion reads a resource version; what is no number is as old as can be.
func parseVersion(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
