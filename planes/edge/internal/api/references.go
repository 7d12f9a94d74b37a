package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Kinds of what pods use, as they stand in messages.
const (
	kindConfigMap = "configmap"
	kindSecret    = "secret"
)

// References returns the ConfigMaps and Secrets of a pod, as KIND/NAMESPACE/NAME.
func References(p *corev1.Pod) (out []string) {
	add := func(kind, name string) {
		if id := kind + "/" + p.Namespace + "/" + name; name != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for _, v := range p.Spec.Volumes {
		if v.ConfigMap != nil {
			add(kindConfigMap, v.ConfigMap.Name)
		}
		if v.Secret != nil {
			add(kindSecret, v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add(kindConfigMap, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				add(kindSecret, s.Secret.Name)
			}
		}
	}
	for _, c := range p.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				add(kindConfigMap, e.ValueFrom.ConfigMapKeyRef.Name)
			}
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				add(kindSecret, e.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil {
				add(kindConfigMap, e.ConfigMapRef.Name)
			}
			if e.SecretRef != nil {
				add(kindSecret, e.SecretRef.Name)
			}
		}
	}
	return out
}
