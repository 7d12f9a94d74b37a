package registry

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// defaultPod fills what an API server fills of a pod, as far as clients, schedulers and
// kubelets go by it. The API server's own code for it is k8s.io/kubernetes', which only
// package plane links; the conformance table holds that the outcome is the same.
func defaultPod(spec *corev1.PodSpec) {
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			defaultContainer(&list[i])
		}
	}
}

// defaultNode makes of what a node has what can be used of it, where it does not say.
func defaultNode(o *corev1.Node) {
	if o.Status.Allocatable == nil && o.Status.Capacity != nil {
		o.Status.Allocatable = o.Status.Capacity.DeepCopy()
	}
}

func defaultContainer(c *corev1.Container) {
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// pullPolicy is that of an image: one whose tag is latest, or that has none, may be
// another one tomorrow.
func pullPolicy(image string) corev1.PullPolicy {
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, tagged := strings.Cut(name, ":")
	if strings.Contains(name, "@") || tagged && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// fill sets what is not set.
func fill[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}
