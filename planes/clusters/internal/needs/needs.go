// Package needs tells what a pod has to find in its cluster before it can run.
package needs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// Names are those of what a pod's volumes come from.
type Names struct{ ConfigMaps, Secrets, Claims []string }

// Of lists them, each once; what is optional is left out.
func Of(p *corev1.Pod) (n Names) {
	must := func(optional *bool) bool { return optional == nil || !*optional }
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		switch {
		case v.ConfigMap != nil && must(v.ConfigMap.Optional):
			n.ConfigMaps = append(n.ConfigMaps, v.ConfigMap.Name)
		case v.Secret != nil && must(v.Secret.Optional):
			n.Secrets = append(n.Secrets, v.Secret.SecretName)
		case v.PersistentVolumeClaim != nil:
			n.Claims = append(n.Claims, v.PersistentVolumeClaim.ClaimName)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil && must(s.ConfigMap.Optional) && s.ConfigMap.Name != api.NameRootCA {
					n.ConfigMaps = append(n.ConfigMaps, s.ConfigMap.Name)
				}
				if s.Secret != nil && must(s.Secret.Optional) {
					n.Secrets = append(n.Secrets, s.Secret.Name)
				}
			}
		}
	}
	for _, s := range p.Spec.ImagePullSecrets {
		n.Secrets = append(n.Secrets, s.Name)
	}
	for _, names := range []*[]string{&n.ConfigMaps, &n.Secrets, &n.Claims} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return n
}
