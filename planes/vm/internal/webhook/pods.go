package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/planes/internal/kit/admission"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// podHook reviews launcher pods that are created.
func podHook(decide func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) admission.Hook {
	return admission.Hook{
		Configuration: PodMutator, Name: "virt-launcher-pods-mutator.kubevirt.io", Path: routePods, Labels: map[string]string{api.LabelApp: api.Launcher},
		Rule: registrationv1.RuleWithOperations{
			Operations: []registrationv1.OperationType{registrationv1.Create},
			Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		},
		Decide: decide,
	}
}

// instanceOf returns the name of the instance that a pod is of; "" if it is of none.
func instanceOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.APIVersion == api.GroupVersion().String() && owner.Kind == "VirtualMachineInstance" {
		return owner.Name
	}
	return ""
}

// podReview reads the instance of a pod, as KubeVirt does to find file systems that need a
// container more, of which instances here have none. Whatever comes of it, the pod is allowed.
func (o *Options) podReview(ctx context.Context, get func(ctx context.Context, namespace, name string) (*api.Instance, error)) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		pod := &corev1.Pod{}
		if err := json.Unmarshal(q.Object.Raw, pod); err != nil {
			return admission.Allow()
		}
		if name := instanceOf(pod); name != "" {
			if _, err := get(ctx, q.Namespace, name); err != nil {
				o.Log.Warn("instance of a launcher pod not read", "namespace", q.Namespace, "instance", name, "error", err)
			}
		}
		return admission.Allow()
	}
}

// client returns the client that reads instances.
func (o *Options) client() (*api.Client, error) {
	config := rest.CopyConfig(o.Config)
	config.RateLimiter = limiter.New(o.Limiter)
	o.Registry.Watch(config)
	c, err := api.NewClient(config, api.Scheme())
	if err != nil {
		return nil, fmt.Errorf("vm-webhook: %w", err)
	}
	return c, nil
}
