// Package webhook is the VM plane's admission webhook, the part of KubeVirt's
// virt-api that the plane needs: it gives an instance its first phase and its
// finalizer when it is created. Because instances have no status subresource,
// every later write of theirs passes through it as well, as KubeVirt's do.
//
// It validates nothing.
package webhook

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/windtunnel/windtunnel/planes/internal/kit/admission"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// Name is the name of the webhook's configuration.
const Name = "windtunnel-vm-mutator"

const route = "/virtualmachineinstances-mutate"

// Options are what a webhook is told.
type Options struct {
	process.Env
	Listen     string // host:port to serve admission on; port 0 takes any
	CreateOnly bool   // later writes do not pass through it
}

// Default returns KubeVirt's options.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Listen, "admission-listen", "`HOST:PORT` of the admission webhook, TLS", words.Default("127.0.0.1:0", "")),
		words.Of(&o.CreateOnly, "create-only", "review the creation of instances, and not later writes of them", words.Default(false, "")),
	}
}

// Run serves admission until ctx ends, as admission.Serve does.
func Run(ctx context.Context, o Options) error {
	h := newHook(o)
	v := o.Registry.Histogram("windtunnel_vm_webhook_duration_seconds", "Time that the webhook took for a review.", "operation")
	h.Took = func(operation string, d time.Duration) { v.WithLabelValues(operation).Observe(d.Seconds()) }
	return admission.Serve(ctx, admission.Options{Name: "vm-webhook", Env: o.Env, Listen: o.Listen}, h)
}

func newHook(o Options) admission.Hook {
	operations := []registrationv1.OperationType{registrationv1.Create}
	if !o.CreateOnly {
		operations = append(operations, registrationv1.Update)
	}
	return admission.Hook{
		Configuration: Name, Name: "virtualmachineinstances-mutator.kubevirt.io", Path: route,
		Rule: registrationv1.RuleWithOperations{
			Operations: operations,
			Rule:       registrationv1.Rule{APIGroups: []string{api.Group}, APIVersions: []string{api.Version}, Resources: []string{api.ResourceInstances}},
		},
		Decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return answerReview(q, o.Now())
		},
	}
}

// answerReview decides on one request.
func answerReview(q *admissionv1.AdmissionRequest, now time.Time) *admissionv1.AdmissionResponse {
	vmi := &api.Instance{}
	if err := json.Unmarshal(q.Object.Raw, vmi); err != nil {
		return admission.Deny(err)
	}
	if q.Operation != admissionv1.Create {
		return admission.Allow()
	}
	patch, err := mutationOf(vmi, now).Bytes()
	if err != nil {
		return admission.Deny(err)
	}
	return admission.Patch(json.RawMessage(patch))
}

// mutationOf gives a new instance its first phase, with its time, and its finalizer.
func mutationOf(vmi *api.Instance, now time.Time) *api.Patch {
	status := vmi.Status.Unprocessed()
	status.Enter(api.Pending, now)
	p := &api.Patch{}
	p.Set("/status", status)
	if !slices.Contains(vmi.Finalizers, api.FinalizerInstance) {
		p.Set("/metadata/finalizers", append(slices.Clip(vmi.Finalizers), api.FinalizerInstance))
	}
	return p
}
