package tree

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// replaceTokens puts Secrets in the place of the tokens that the hub's API server would
// issue for a pod, and the hub's authority in the place of the member's: what runs in
// the pod talks to the hub.
func (c *podCreator) replaceTokens(ctx context.Context, hub, p *corev1.Pod) error {
	for i := range p.Spec.Volumes {
		v := p.Spec.Volumes[i].Projected
		if v == nil {
			continue
		}
		for j := range v.Sources {
			s := &v.Sources[j]
			switch {
			case s.ServiceAccountToken != nil:
				name := api.TokenName(hub.Spec.ServiceAccountName)
				if err := c.copyToken(ctx, p.Namespace, hub.Spec.ServiceAccountName, name); err != nil {
					return err
				}
				*s = corev1.VolumeProjection{Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: name},
					Items:                []corev1.KeyToPath{{Key: corev1.ServiceAccountTokenKey, Path: s.ServiceAccountToken.Path}},
				}}
			case s.ConfigMap != nil && s.ConfigMap.Name == api.NameRootCA:
				if err := c.copyRootCA(ctx, p.Namespace); err != nil {
					return err
				}
				s.ConfigMap.Name = api.NameHostCA
			}
		}
	}
	return nil
}

// copyToken brings the lasting token of a service account to the member, once. On the hub
// the token controller fills the Secret, of which the cache hears.
func (c *podCreator) copyToken(ctx context.Context, namespace, account, name string) error {
	secrets, key := c.tree.secretCopies(), namespace+"/"+name
	if secrets.isKnown(c.member, namespace, name) || c.isBrought(key) {
		return nil
	}
	if !slim.Has(c.tree.hub.secrets, key) {
		if err := c.createToken(ctx, namespace, account, name); err != nil {
			return err
		}
	}
	err := retryWithin(ctx, secretsWithin, func() error {
		hub := slim.Get[*corev1.Secret](c.tree.hub.secrets, key)
		if hub == nil || len(hub.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return errNotYet
		}
		return secrets.bring(ctx, c.member, hub.DeepCopy())
	})
	if err != nil {
		return fmt.Errorf("token of service account %s/%s: %w", namespace, account, err)
	}
	c.setBrought(key)
	return nil
}

// createToken asks the hub for a token of a service account, which refers to it from then on.
func (c *podCreator) createToken(ctx context.Context, namespace, account, name string) error {
	_, err := c.tree.hub.client.Secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make token %s/%s: %w", namespace, name, err)
	}
	a, err := c.tree.hub.client.Accounts.Get(ctx, namespace, account)
	if err == nil && !slices.ContainsFunc(a.Secrets, func(r corev1.ObjectReference) bool { return r.Name == name }) {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
		_, err = c.tree.hub.client.Accounts.Update(ctx, a)
	}
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("refer to token %s/%s: %w", namespace, name, err)
	}
	return nil
}

// isBrought tells whether the member was brought a token that the hub still has.
func (c *podCreator) isBrought(key string) bool {
	hub := slim.Get[*corev1.Secret](c.tree.hub.secrets, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	return hub != nil && c.tokens[key] == hub.UID
}

func (c *podCreator) setBrought(key string) {
	hub := slim.Get[*corev1.Secret](c.tree.hub.secrets, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if hub != nil {
		c.tokens[key] = hub.UID
	}
}

// copyRootCA brings the hub's authority to a namespace of the member, once.
func (c *podCreator) copyRootCA(ctx context.Context, namespace string) error {
	c.mu.Lock()
	known := c.roots[namespace]
	c.mu.Unlock()
	if known {
		return nil
	}
	hub, err := c.tree.hub.client.ConfigMaps.Get(ctx, namespace, api.NameRootCA)
	if err != nil {
		return fmt.Errorf("read the host's authority in %s: %w", namespace, err)
	}
	if hub, err = c.tree.configMaps().noteOwner(ctx, c.member, hub); err != nil {
		return err
	}
	_, err = c.member.client.ConfigMaps.Get(ctx, namespace, api.NameHostCA)
	if apierrors.IsNotFound(err) {
		_, err = c.member.client.ConfigMaps.Create(ctx, c.tree.configMaps().newCopy(hub, namespace, api.NameHostCA))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("bring the host's authority to %s of member %s: %w", namespace, c.member.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roots[namespace] = true
	return nil
}
