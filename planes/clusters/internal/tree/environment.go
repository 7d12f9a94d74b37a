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

	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// setEnvironment gives the containers of a pod the variables that a kubelet would: those
// of the hub's services, and the values of ConfigMaps and Secrets, which a member
// might not have.
func (c *podCreator) setEnvironment(ctx context.Context, p *corev1.Pod) error {
	for i := range p.Spec.Containers {
		container := &p.Spec.Containers[i]
		if err := c.resolveReferences(ctx, p.Namespace, container); err != nil {
			return err
		}
		if c.tree.o.ServiceEnv == EnvOff {
			continue
		}
		services, err := c.visibleServices(ctx, p.Namespace)
		if err != nil {
			return err
		}
		if p.Spec.EnableServiceLinks != nil && !*p.Spec.EnableServiceLinks {
			services = slices.DeleteFunc(services, func(s *corev1.Service) bool { return !isMaster(s) })
		}
		container.Env = append(serviceVariables(services), container.Env...)
	}
	return nil
}

func isMaster(s *corev1.Service) bool {
	return s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes"
}

// visibleServices returns those that a container in a namespace hears of.
func (c *podCreator) visibleServices(ctx context.Context, namespace string) (out []*corev1.Service, err error) {
	if c.tree.o.ServiceEnv == EnvCached {
		out = slim.ByIndex[*corev1.Service](c.tree.hub.services, cache.NamespaceIndex, namespace)
		if s := slim.Get[*corev1.Service](c.tree.hub.services, metav1.NamespaceDefault+"/kubernetes"); s != nil && namespace != metav1.NamespaceDefault {
			out = append(out, s)
		}
		return out, nil
	}
	var list corev1.ServiceList
	if err := c.tree.hub.client.Services.List(ctx, "", &list, metav1.ListOptions{}); err != nil {
		return nil, fmt.Errorf("list services of the host: %w", err)
	}
	for i := range list.Items {
		if s := &list.Items[i]; s.Namespace == namespace || isMaster(s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// serviceVariables are those of services, as kubelets name them.
func serviceVariables(services []*corev1.Service) (out []corev1.EnvVar) {
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

// resolveReferences puts the values of ConfigMaps and Secrets in the place of references.
func (c *podCreator) resolveReferences(ctx context.Context, namespace string, container *corev1.Container) error {
	for i := range container.EnvFrom {
		values, err := c.readSource(ctx, namespace, source{configMap: container.EnvFrom[i].ConfigMapRef, secret: container.EnvFrom[i].SecretRef})
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			container.Env = append([]corev1.EnvVar{{Name: container.EnvFrom[i].Prefix + key, Value: values[key]}}, container.Env...) // what stands in env wins
		}
	}
	container.EnvFrom = nil
	for i := range container.Env {
		from := container.Env[i].ValueFrom
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
		values, err := c.readSource(ctx, namespace, s)
		if err != nil {
			return err
		}
		container.Env[i] = corev1.EnvVar{Name: container.Env[i].Name, Value: values[key]}
	}
	return nil
}

// source is a ConfigMap or a Secret of the hub.
type source struct {
	configMap *corev1.ConfigMapEnvSource
	secret    *corev1.SecretEnvSource
}

// readSource reads what is in a source.
func (c *podCreator) readSource(ctx context.Context, namespace string, s source) (map[string]string, error) {
	optional := func(o *bool, err error) error {
		if apierrors.IsNotFound(err) && o != nil && *o {
			return nil
		}
		return err
	}
	switch {
	case s.configMap != nil:
		o, err := c.tree.hub.client.ConfigMaps.Get(ctx, namespace, s.configMap.Name)
		return o.Data, optional(s.configMap.Optional, err)
	case s.secret != nil:
		o, err := c.tree.hub.client.Secrets.Get(ctx, namespace, s.secret.Name)
		out := map[string]string{}
		for k, v := range o.Data {
			out[k] = string(v)
		}
		return out, optional(s.secret.Optional, err)
	}
	return nil, nil
}
