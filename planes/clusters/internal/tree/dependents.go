package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/needs"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// How Kosmos looks for what a pod needs: again and again, for so long.
const (
	pollInterval     = 500 * time.Millisecond
	configMapsWithin = 30 * time.Second
	claimsWithin     = 30 * time.Second
	secretsWithin    = 10 * time.Second
)

// copyDependents brings to the member what a pod needs: ConfigMaps, claims, Secrets, and in the
// place of projected tokens a Secret and the hub's authority. hub is the pod as it is
// there, p the one that the member gets.
func (c *podCreator) copyDependents(ctx context.Context, hub, p *corev1.Pod) error {
	need := needs.Of(p)
	var wait sync.WaitGroup
	errs := make([]error, 3)
	wait.Go(func() {
		errs[0] = c.copyAll(ctx, configMapsWithin, need.ConfigMaps, func(name string) error { return c.tree.configMaps().ensureCopy(ctx, c.member, p.Namespace, name) })
	})
	wait.Go(func() {
		errs[1] = c.copyAll(ctx, secretsWithin, need.Secrets, func(name string) error { return c.tree.secretCopies().ensureCopy(ctx, c.member, p.Namespace, name) })
	})
	wait.Go(func() {
		errs[2] = c.copyAll(ctx, claimsWithin, need.Claims, func(name string) error { return c.tree.claimCopies().ensureCopy(ctx, c.member, p.Namespace, name) })
	})
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return c.replaceTokens(ctx, hub, p)
}

// copyAll brings objects one after another, each as often as it takes.
func (c *podCreator) copyAll(ctx context.Context, within time.Duration, names []string, ensure func(name string) error) error {
	for _, name := range names {
		if err := retryWithin(ctx, within, func() error { return ensure(name) }); err != nil {
			return err
		}
	}
	return nil
}

// retryWithin tries until it succeeds or the time is up, and returns the last error.
func retryWithin(ctx context.Context, within time.Duration, try func() error) (err error) {
	for tried := time.Duration(0); ; tried += pollInterval {
		if err = try(); err == nil || tried >= within || ctx.Err() != nil {
			return err
		}
		if clock.Sleep(ctx, pollInterval) != nil {
			return err
		}
	}
}

// copied is one kind of objects of which members get copies.
type copied[T api.Object] struct {
	what          string
	hub           api.Kind[T]
	member        func(*member) api.Kind[T]
	hubs          cache.SharedIndexInformer
	members       func(*member) cache.SharedIndexInformer // nil unless dependents are cached
	copyOf        func(T) T                               // without metadata
	sameData      func(a, b T) bool
	fill          func(to, from T) // nil: a change of the hub's is not followed
	alwaysWritten bool
}

// ensureCopy brings an object to a member: the hub's is read, notes its owner, and the
// member's is made unless it is there.
func (c copied[T]) ensureCopy(ctx context.Context, m *member, namespace, name string) error {
	if c.isKnown(m, namespace, name) {
		return nil
	}
	hub, err := c.hub.Get(ctx, namespace, name)
	if err != nil {
		return fmt.Errorf("read %s %s/%s of the host: %w", c.what, namespace, name, err)
	}
	return c.bring(ctx, m, hub)
}

// bring brings an object of the hub, as it was read, to a member.
func (c copied[T]) bring(ctx context.Context, m *member, hub T) (err error) {
	namespace, name := hub.GetNamespace(), hub.GetName()
	if hub, err = c.noteOwner(ctx, m, hub); err != nil {
		return err
	}
	there, err := c.member(m).Get(ctx, namespace, name)
	if err == nil || apierrors.IsNotFound(err) {
		switch c.decideNeeded(hub, there, err == nil) {
		case copyWait:
			return fmt.Errorf("%s %s/%s in member %s is of the one before: %w", c.what, namespace, name, m.name, errNotYet)
		case copyCreate:
			_, err = c.member(m).Create(ctx, c.newCopy(hub, namespace, name))
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("bring %s %s/%s to member %s: %w", c.what, namespace, name, m.name, err)
	}
	return nil
}

// noteOwner writes at an object of the hub that a member has a copy, unless that is there.
func (c copied[T]) noteOwner(ctx context.Context, m *member, hub T) (T, error) {
	owners := ownersOf(hub)
	has := slices.Contains(owners, m.name)
	if has && !c.alwaysWritten {
		return hub, nil
	}
	if !has {
		owners = append(owners, m.name)
	}
	addOwners(hub, strings.Join(owners, ","))
	out, err := c.hub.Update(ctx, hub)
	if err != nil {
		return hub, fmt.Errorf("note the owner of %s %s/%s: %w", c.what, hub.GetNamespace(), hub.GetName(), err)
	}
	return out, nil
}

// newCopy is a member's copy.
func (c copied[T]) newCopy(hub T, namespace, name string) T {
	out := c.copyOf(hub)
	out.SetNamespace(namespace)
	out.SetName(name)
	out.SetLabels(map[string]string{api.LabelGlobal: "true"})
	return out
}

// isKnown tells whether caches have both the member's copy and the note at the hub's.
func (c copied[T]) isKnown(m *member, namespace, name string) bool {
	if c.alwaysWritten {
		return false
	}
	key := namespace + "/" + name
	hub, ok := slim.Lookup[T](c.hubs, key)
	there, has := slim.Lookup[T](c.members(m), key)
	return ok && has && isCopyOf(there, hub.GetUID()) && slices.Contains(ownersOf(hub), m.name)
}

// ownersOf are the members that have a copy of an object of the hub.
func ownersOf(o metav1.Object) []string {
	text := o.GetAnnotations()[api.AnnotationOwners]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func addOwners(o metav1.Object, owners string) {
	a := map[string]string{}
	maps.Copy(a, o.GetAnnotations())
	a[api.AnnotationOwners] = owners
	o.SetAnnotations(a)
}

func (t *tree) configMaps() copied[*corev1.ConfigMap] {
	return copied[*corev1.ConfigMap]{
		what: "ConfigMap", hub: t.hub.client.ConfigMaps, hubs: t.hub.configs, alwaysWritten: t.o.Dependents == DependentsLive,
		member:  func(m *member) api.Kind[*corev1.ConfigMap] { return m.client.ConfigMaps },
		members: func(m *member) cache.SharedIndexInformer { return m.configs },
		copyOf: func(c *corev1.ConfigMap) *corev1.ConfigMap {
			return &corev1.ConfigMap{Data: c.Data, BinaryData: c.BinaryData}
		},
		sameData: func(a, b *corev1.ConfigMap) bool {
			return maps.Equal(a.Data, b.Data) && maps.EqualFunc(a.BinaryData, b.BinaryData, bytes.Equal)
		},
		fill: func(to, from *corev1.ConfigMap) { to.Data, to.BinaryData = from.Data, from.BinaryData },
	}
}

func (t *tree) secretCopies() copied[*corev1.Secret] {
	return copied[*corev1.Secret]{
		what: "Secret", hub: t.hub.client.Secrets, hubs: t.hub.secrets, alwaysWritten: t.o.Dependents == DependentsLive,
		member:   func(m *member) api.Kind[*corev1.Secret] { return m.client.Secrets },
		members:  func(m *member) cache.SharedIndexInformer { return m.secrets },
		copyOf:   copySecret,
		sameData: func(a, b *corev1.Secret) bool { return maps.EqualFunc(a.Data, b.Data, bytes.Equal) },
		fill:     func(to, from *corev1.Secret) { to.Data = from.Data },
	}
}

// copySecret copies a Secret; that of a service account's token is an ordinary one in
// a member, which need not have that account.
func copySecret(s *corev1.Secret) *corev1.Secret {
	out := &corev1.Secret{Data: s.Data, Type: s.Type}
	if s.Type == corev1.SecretTypeServiceAccountToken {
		out.Type = corev1.SecretTypeOpaque
	}
	return out
}
