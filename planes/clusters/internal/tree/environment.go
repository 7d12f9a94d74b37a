package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// environment gives the containers of a pod the variables that a kubelet would: those
// of the host's services, and the values of ConfigMaps and Secrets, which a member
// might not have.
func (m *member) environment(ctx context.Context, p *corev1.Pod) error {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if err := m.resolve(ctx, p.Namespace, c); err != nil {
			return err
		}
		if m.o.ServiceEnv == EnvOff {
			continue
		}
		services, err := m.services(ctx, p.Namespace)
		if err != nil {
			return err
		}
		if p.Spec.EnableServiceLinks != nil && !*p.Spec.EnableServiceLinks {
			services = slices.DeleteFunc(services, func(s *corev1.Service) bool { return !isMaster(s) })
		}
		c.Env = append(variables(services), c.Env...)
	}
	return nil
}

func isMaster(s *corev1.Service) bool {
	return s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes"
}

// services returns those that a container in a namespace hears of.
func (m *member) services(ctx context.Context, namespace string) (out []*corev1.Service, err error) {
	if m.o.ServiceEnv == EnvCached {
		mine, _ := m.hub.services.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
		for _, o := range mine {
			out = append(out, o.(*corev1.Service))
		}
		if o, ok, _ := m.hub.services.GetIndexer().GetByKey(metav1.NamespaceDefault + "/kubernetes"); ok && namespace != metav1.NamespaceDefault {
			out = append(out, o.(*corev1.Service))
		}
		return out, nil
	}
	var list corev1.ServiceList
	if err := m.hub.client.Services.List(ctx, "", &list, metav1.ListOptions{}); err != nil {
		return nil, fmt.Errorf("list services of the host: %w", err)
	}
	for i := range list.Items {
		if s := &list.Items[i]; s.Namespace == namespace || isMaster(s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// variables are those of services, as kubelets name them.
func variables(services []*corev1.Service) (out []corev1.EnvVar) {
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
		out = append(out, corev1.EnvVar{Name: name + "_SERVICE_HOST", Value: s.Spec.ClusterIP},
			corev1.EnvVar{Name: name + "_SERVICE_PORT", Value: fmt.Sprint(s.Spec.Ports[0].Port)})
	}
	return out
}

// resolve puts the values of ConfigMaps and Secrets in the place of references.
func (m *member) resolve(ctx context.Context, namespace string, c *corev1.Container) error {
	for i := range c.EnvFrom {
		values, err := m.values(ctx, namespace, source{configMap: c.EnvFrom[i].ConfigMapRef, secret: c.EnvFrom[i].SecretRef})
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			c.Env = append([]corev1.EnvVar{{Name: c.EnvFrom[i].Prefix + key, Value: values[key]}}, c.Env...) // what stands in env wins
		}
	}
	c.EnvFrom = nil
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil || from.ConfigMapKeyRef == nil && from.SecretKeyRef == nil {
			continue
		}
		s, key := source{}, ""
		if r := from.ConfigMapKeyRef; r != nil {
			s.configMap, key = &corev1.ConfigMapEnvSource{LocalObjectReference: r.LocalObjectReference, Optional: r.Optional}, r.Key
		} else {
			r := from.SecretKeyRef
			s.secret, key = &corev1.SecretEnvSource{LocalObjectReference: r.LocalObjectReference, Optional: r.Optional}, r.Key
		}
		values, err := m.values(ctx, namespace, s)
		if err != nil {
			return err
		}
		c.Env[i] = corev1.EnvVar{Name: c.Env[i].Name, Value: values[key]}
	}
	return nil
}

// source is a ConfigMap or a Secret of the host.
type source struct {
	configMap *corev1.ConfigMapEnvSource
	secret    *corev1.SecretEnvSource
}

// values reads what is in a source.
func (m *member) values(ctx context.Context, namespace string, s source) (map[string]string, error) {
	optional := func(o *bool, err error) error {
		if apierrors.IsNotFound(err) && o != nil && *o {
			return nil
		}
		return err
	}
	switch {
	case s.configMap != nil:
		c, err := m.hub.client.ConfigMaps.Get(ctx, namespace, s.configMap.Name)
		return c.Data, optional(s.configMap.Optional, err)
	case s.secret != nil:
		c, err := m.hub.client.Secrets.Get(ctx, namespace, s.secret.Name)
		out := map[string]string{}
		for k, v := range c.Data {
			out[k] = string(v)
		}
		return out, optional(s.secret.Optional, err)
	}
	return nil, nil
}
