package tree

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// tokens puts Secrets in the place of the tokens that the host's API server would
// issue for a pod, and the host's authority in the place of the member's: what runs in
// the pod talks to the host.
func (m *member) tokens(ctx context.Context, host, p *corev1.Pod) error {
	for i := range p.Spec.Volumes {
		v := p.Spec.Volumes[i].Projected
		if v == nil {
			continue
		}
		for j := range v.Sources {
			s := &v.Sources[j]
			switch {
			case s.ServiceAccountToken != nil:
				name := host.Spec.ServiceAccountName + api.SuffixToken
				if err := m.token(ctx, p.Namespace, host.Spec.ServiceAccountName, name); err != nil {
					return err
				}
				*s = corev1.VolumeProjection{Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: name},
					Items:                []corev1.KeyToPath{{Key: corev1.ServiceAccountTokenKey, Path: s.ServiceAccountToken.Path}},
				}}
			case s.ConfigMap != nil && s.ConfigMap.Name == api.NameRootCA:
				if err := m.rootCA(ctx, p.Namespace); err != nil {
					return err
				}
				s.ConfigMap.Name = api.NameHostCA
			}
		}
	}
	return nil
}

// token brings the lasting token of a service account to the member. On the host the
// token controller fills the Secret.
func (m *member) token(ctx context.Context, namespace, account, name string) error {
	if m.secretCopies().isKnown(m, namespace, name) {
		return nil
	}
	var host *corev1.Secret
	err := poll(ctx, secretsWithin, func() (err error) {
		host, err = m.hub.client.Secrets.Get(ctx, namespace, name)
		if apierrors.IsNotFound(err) {
			host, err = m.hub.client.Secrets.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
				Type:       corev1.SecretTypeServiceAccountToken,
			})
		}
		if err == nil && len(host.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errNotYet
		}
		return err
	})
	if err == nil {
		err = m.secretCopies().bring(ctx, m, namespace, name)
	}
	if err != nil {
		return fmt.Errorf("token of service account %s/%s: %w", namespace, account, err)
	}
	return nil
}

// rootCA brings the host's authority to a namespace of the member, once.
func (m *member) rootCA(ctx context.Context, namespace string) error {
	m.mu.Lock()
	known := m.roots[namespace]
	m.mu.Unlock()
	if known {
		return nil
	}
	host, err := m.hub.client.ConfigMaps.Get(ctx, namespace, api.NameRootCA)
	if err != nil {
		return fmt.Errorf("read the host's authority in %s: %w", namespace, err)
	}
	_, err = m.client.ConfigMaps.Get(ctx, namespace, api.NameHostCA)
	if apierrors.IsNotFound(err) {
		_, err = m.client.ConfigMaps.Create(ctx, m.configMaps().made(host, namespace, api.NameHostCA))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("bring the host's authority to %s of member %s: %w", namespace, m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roots[namespace] = true
	return nil
}
