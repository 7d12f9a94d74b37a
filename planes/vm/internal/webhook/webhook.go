// Package webhook is the VM plane's admission webhook, the part of KubeVirt's
// virt-api that the plane needs: it fills in what specifications leave open, gives an
// instance its first phase and its finalizer when it is created, and refuses what cannot
// run. Because instances have no status subresource, every later write of theirs passes
// through it as well, twice, as KubeVirt's do. A launcher pod that is created has its instance
// read, and is left as it is.
//
// It validates little: what it costs is the call.
package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/windtunnel/windtunnel/planes/internal/kit/admission"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// The names of the webhook's configurations.
const (
	Name       = "windtunnel-vm-mutator"
	Validator  = "windtunnel-vm-validator"
	PodMutator = "windtunnel-vm-pod-mutator"
)

const (
	routeMutate   = "/mutate"
	routeValidate = "/validate"
	routePods     = "/pods"
)

// What is reviewed.
const (
	ReviewAll   = "all"   // machines and instances, which get defaults and are validated
	ReviewPhase = "phase" // instances, which get their phase and their finalizer
)

// Options are what a webhook is told.
type Options struct {
	process.Env
	Listen          string // host:port to serve admission on; port 0 takes any
	CreateOnly      bool   // later writes do not pass through it
	Review          string
	Pods            bool         // launcher pods are reviewed, too
	FormerFinalizer bool         // instances get the finalizer by its former name
	Limiter         limiter.Rate // of reads of instances
}

// Default returns KubeVirt's options.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Listen, "admission-listen", "`HOST:PORT` of the admission webhook, TLS", words.Default("127.0.0.1:0", "")),
		words.Of(&o.CreateOnly, "create-only", "review creations, and not later writes", words.Default(false, "")),
		words.Of(&o.Review, "review", "fill in and validate machines and instances, or give instances their phase and finalizer only", words.Default(ReviewAll, ""), words.Or(ReviewPhase, "")),
		words.Of(&o.Pods, "pods", "review each launcher pod that is created, whose instance is read for that", words.Default(true, ""),
			words.In(api.PresetV049, false, ""), words.In(api.PresetV044, false, ""), words.Improved(false, "")),
		words.Of(&o.FormerFinalizer, "former-finalizer", "give instances the finalizer by its former name", words.Default(false, ""),
			words.In(api.PresetV049, true, ""), words.In(api.PresetV044, true, "")),
		words.Custom(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST` of reads of instances", words.Default("200/400", "")),
	}
}

// Run serves admission until ctx ends, as admission.Serve does.
func Run(ctx context.Context, o Options) error {
	v := o.Registry.Histogram("windtunnel_vm_webhook_duration_seconds", "Time that the webhook took for a review.", "operation")
	hooks := newHooks(o)
	if o.Pods {
		client, err := o.client()
		if err != nil {
			return err
		}
		hooks = append(hooks, podHook(o.podReview(ctx, client.Instances.Get)))
	}
	for i := range hooks {
		hooks[i].Took = func(operation string, d time.Duration) { v.WithLabelValues(operation).Observe(d.Seconds()) }
	}
	return admission.Serve(ctx, admission.Options{Name: "vm-webhook", Env: o.Env, Listen: o.Listen}, hooks...)
}

func newHooks(o Options) []admission.Hook {
	mutator := admission.Hook{
		Configuration: Name, Name: "virtualmachineinstances-mutator.kubevirt.io", Path: routeMutate, Rule: o.rule(api.ResourceInstances),
		Decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return mutate(q, o.Now(), &o)
		},
	}
	if o.Review == ReviewPhase {
		return []admission.Hook{mutator}
	}
	mutator.Rule = o.rule(api.ResourceInstances, api.ResourceMachines)
	return []admission.Hook{mutator, {
		Configuration: Validator, Name: "virtualmachineinstances-validator.kubevirt.io", Path: routeValidate, Validating: true,
		Rule: o.rule(api.ResourceInstances, api.ResourceMachines, api.ResourceMachines+"/status"), Decide: validate,
	}}
}

// rule says which writes of resources are reviewed.
func (o *Options) rule(resources ...string) registrationv1.RuleWithOperations {
	operations := []registrationv1.OperationType{registrationv1.Create}
	if !o.CreateOnly {
		operations = append(operations, registrationv1.Update)
	}
	return registrationv1.RuleWithOperations{
		Operations: operations,
		Rule:       registrationv1.Rule{APIGroups: []string{api.Group}, APIVersions: []string{api.Version}, Resources: resources},
	}
}

// mutate fills in what a new object leaves open.
func mutate(q *admissionv1.AdmissionRequest, now time.Time, o *Options) *admissionv1.AdmissionResponse {
	var (
		p   *api.Patch
		err error
	)
	switch {
	case q.Operation != admissionv1.Create:
		return admission.Allow()
	case q.Resource.Resource == api.ResourceMachines:
		p, err = machineMutation(q.Object.Raw)
	default:
		p, err = instanceMutation(q.Object.Raw, now, o)
	}
	if err != nil {
		return admission.Deny(err)
	}
	raw, err := p.Bytes()
	if err != nil {
		return admission.Deny(err)
	}
	return admission.Patch(json.RawMessage(raw))
}

// instanceMutation gives a new instance its first phase, with its time, its finalizer and,
// unless only these are wanted, what it leaves open.
func instanceMutation(raw []byte, now time.Time, o *Options) (*api.Patch, error) {
	vmi := &api.Instance{}
	if err := json.Unmarshal(raw, vmi); err != nil {
		return nil, err
	}
	status := vmi.Status.Unprocessed()
	status.Enter(api.Pending, now)
	vmi.Status = status
	name := api.FinalizerInstance
	if o.FormerFinalizer {
		name = api.FinalizerFormer
	}
	if !slices.Contains(vmi.Finalizers, name) {
		vmi.Finalizers = append(slices.Clip(vmi.Finalizers), name)
	}
	written, err := json.Marshal(vmi)
	if err != nil {
		return nil, err
	}
	filled := readObject(written)
	if o.Review == ReviewPhase {
		return filled.patch([]string{"metadata", "finalizers"}, []string{"status"})
	}
	filled.setInstanceDefaults()
	return filled.patch([]string{"metadata", "finalizers"}, []string{"metadata", "annotations"}, []string{"spec"}, []string{"status"})
}

// machineMutation gives a new machine what its template leaves open.
func machineMutation(raw []byte) (*api.Patch, error) {
	vm := &api.Machine{}
	if err := json.Unmarshal(raw, vm); err != nil {
		return nil, err
	}
	o := readObject(raw)
	o.setMachineDefaults(vm.Namespace + "/" + vm.Name)
	return o.patch([]string{"spec", "template"})
}

// validate refuses what cannot run.
func validate(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	spec := api.InstanceSpec{}
	var err error
	switch {
	case q.SubResource != "": // a status: it is readable
		err = json.Unmarshal(q.Object.Raw, &api.Machine{})
	case q.Resource.Resource == api.ResourceMachines:
		vm := &api.Machine{}
		err = json.Unmarshal(q.Object.Raw, vm)
		spec = vm.Spec.Template.Spec
	default:
		vmi := &api.Instance{}
		err = json.Unmarshal(q.Object.Raw, vmi)
		spec = vmi.Spec
	}
	if err == nil {
		err = checkVolumes(spec.Volumes)
	}
	if err != nil {
		return admission.Deny(err)
	}
	return admission.Allow()
}

// checkVolumes refuses two volumes of one name, of which a disk would mean either.
func checkVolumes(volumes []api.Volume) error {
	for i, v := range volumes {
		if slices.ContainsFunc(volumes[:i], func(other api.Volume) bool { return other.Name == v.Name }) {
			return fmt.Errorf("spec.volumes[%d].name: another volume is named %q", i, v.Name)
		}
	}
	return nil
}
