package tree

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
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
				name := hub.Spec.ServiceAccountName + api.SuffixToken
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

// copyToken brings the lasting token of a service account to the member. On the hub the
// token controller fills the Secret.
func (c *podCreator) copyToken(ctx context.Context, namespace, account, name string) error {
	if c.tree.secretCopies().isKnown(c.member, namespace, name) {
		return nil
	}
	var hub *corev1.Secret
	err := retryWithin(ctx, secretsWithin, func() (err error) {
		hub, err = c.tree.hub.client.Secrets.Get(ctx, namespace, name)
		if apierrors.IsNotFound(err) {
			hub, err = c.tree.hub.client.Secrets.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
				Type:       corev1.SecretTypeServiceAccountToken,
			})
		}
		if err == nil && len(hub.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errNotYet
		}
		return err
	})
	if err == nil {
		err = c.tree.secretCopies().ensureCopy(ctx, c.member, namespace, name)
	}
	if err != nil {
		return fmt.Errorf("token of service account %s/%s: %w", namespace, account, err)
	}
	return nil
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
