// Package registry decides what a write makes of the objects of one cluster, as the
// registries of an API server and the garbage collector, the namespace controller and
// the controller of CustomResourceDefinitions do: defaults, generations, status
// subresources, preconditions, finalizers, graceful deletion and owners.
//
// A write goes in as a value, with the time at which it happens. An object comes out, or
// an error that is a Status, and the tasks that follow from the write. The registry has
// no clock, knows nothing of HTTP, starts no goroutine and takes no lock of its own: the
// store, the links to owners and the set of kinds are made for many goroutines.
// testdata/registry.trace shows what it does.
package registry

import (
	"crypto/rand"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/apply"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// Shared is what the registries of one process share. The zero value is ready.
type Shared struct {
	managers    apply.Managers
	definitions kind.Definitions
}

// Options describe a registry.
type Options struct {
	Store  *store.Store
	Shared *Shared
	// RootCA is the certificate, in PEM, of the ConfigMap kube-root-ca.crt of every
	// namespace, which then also has the service account default; empty: no namespace has
	// either.
	RootCA string
	// NewUID returns the uid of a new object; default: a random UUID.
	NewUID func() types.UID
	// NewSuffix returns the five characters that generateName appends; default: random.
	NewSuffix func() string
}

// Registry is the objects of one cluster. Its methods may be called from many
// goroutines.
type Registry struct {
	options Options
	store   *store.Store
	served  *kind.Served

	owners     collector
	namespaces namespaces
	definer    definer
}

// New returns a registry that serves the built-in resources.
func New(o Options) *Registry {
	if o.Shared == nil {
		o.Shared = &Shared{}
	}
	if o.NewUID == nil {
		o.NewUID = uuid.NewUUID
	}
	if o.NewSuffix == nil {
		o.NewSuffix = randomSuffix
	}
	r := &Registry{options: o, store: o.Store, served: kind.NewServed()}
	r.owners.registry, r.namespaces.registry, r.definer.registry = r, r, r
	return r
}

// randomSuffix returns five letters and digits.
func randomSuffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, suffixLength)
	_, _ = rand.Read(b) // it never fails
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}

// Kinds returns the resources that are served at the moment.
func (r *Registry) Kinds() *kind.Set { return r.served.Load() }

// Store returns where the objects are.
func (r *Registry) Store() *store.Store { return r.store }

// Table returns the objects of a kind.
func (r *Registry) Table(k *kind.Kind) *store.Table { return r.store.Table(k.Table()) }

// Target names an object, or a subresource of one.
type Target struct {
	Kind            *kind.Kind
	Namespace, Name string
	Sub             string // empty: the object itself
}

// Key returns the key under which the object is stored.
func (t Target) Key() string { return kind.Key(t.Namespace, t.Name) }

// targetOf returns the target of a key.
func targetOf(k *kind.Kind, key string) Target {
	t := Target{Kind: k}
	t.Namespace, t.Name = kind.SplitKey(key)
	return t
}

// Write describes a write.
type Write struct {
	Target
	Now     time.Time
	DryRun  bool
	Manager string // of the fields that the write changes
	Applied bool   // the managers of all fields are settled: it is a server-side apply
}

// Result is what came of a write.
type Result struct {
	Kind    *kind.Kind
	Stored  *store.Object  // as it is stored; nil where it is not
	Typed   runtime.Object // in Go; nil where it has not been decoded
	Created bool
	Gone    bool   // it was removed, not only marked
	Tasks   []Task // that follow, in their order; an error does not make them void
}

// Raw returns the object in the form in which it is, or would be, stored.
func (r Result) Raw() []byte {
	if r.Stored != nil {
		return r.Stored.Raw
	}
	raw, _ := r.Kind.Encode(r.Typed) // it was decoded from the same form
	return raw
}

// JSON returns the object in JSON.
func (r Result) JSON() ([]byte, error) {
	if r.Typed == nil || !r.Kind.Packs() {
		return r.Kind.JSON(r.Raw())
	}
	return json.Marshal(r.Typed)
}

// Metadata returns the metadata of the object: all of it where it is stored, else name,
// namespace and uid.
func (r Result) Metadata() metav1.ObjectMeta {
	if r.Stored != nil {
		return r.Kind.Metadata(r.Stored.Raw)
	}
	m := kind.Meta(r.Typed)
	return metav1.ObjectMeta{Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID()}
}

// List returns the object as a list of one.
func (r Result) List() store.Listed {
	o := r.Stored
	if o == nil {
		m := r.Metadata()
		o = &store.Object{Key: kind.Key(m.Namespace, m.Name), Raw: r.Raw()}
	}
	return store.Listed{Objects: []*store.Object{o}, Version: o.Version}
}

// FormatVersion writes a version as objects have it.
func FormatVersion(v uint64) string { return strconv.FormatUint(v, 10) }

// Encoder returns what encodes an object with the version that it is given.
func Encoder(k *kind.Kind, o runtime.Object) func(version uint64) ([]byte, error) {
	return func(version uint64) ([]byte, error) {
		kind.Meta(o).SetResourceVersion(FormatVersion(version))
		raw, err := k.Encode(o)
		if err == nil && len(raw) > codec.ObjectLimit {
			return nil, codec.ErrTooLarge
		}
		return raw, err
	}
}

// TimeOf returns a time as objects have it, in whole seconds.
func TimeOf(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }
