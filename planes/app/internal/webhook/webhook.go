// Package webhook is the app plane's admission webhook: it gives an application
// its shard when it is created, and refuses one that names a type which nobody has
// defined.
//
// A process of its own renders nothing: a parameter that a template refuses is found
// when the application is published. In the controller it renders, from the caches.
package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/admission"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// The configurations, and the paths that KubeVela's webhook serves.
const (
	Configuration = "kubevela-vela-core-admission"
	pathMutate    = "/mutating-core-oam-dev-v1beta1-applications"
	pathValidate  = "/validating-core-oam-dev-v1beta1-applications"
)

// Options are what a webhook is told.
type Options struct {
	process.Env
	Listen      string        // host:port to serve admission on; port 0 takes any
	Schedulable []string      // shards: one of them is chosen for an application without one; none: nothing is
	Seed        uint64        // of that choice
	Types       bool          // are looked for
	Delay       time.Duration // of each validation, as of one that asks elsewhere
	// Review says what is wrong with an application; nil: the server is asked for the types.
	Review func(*api.Application) error
}

// Default returns KubeVela's options.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Listen, "admission-listen", "`HOST:PORT` of the admission webhook, TLS", words.Default("127.0.0.1:0", "")),
		words.Texts(&o.Schedulable, "schedulable-shards", "`SHARDS`, separated by commas, of which an application without a shard gets one at random; default none"),
		words.Of(&o.Seed, "seed", "`SEED` of the choice of shards", words.Default(uint64(0), "")),
		words.Of(&o.Types, "validate", "refuse applications that name types which nobody has defined", words.Default(true, "")),
		words.Of(&o.Delay, "delay", "added `DURATION` of each validation, as if it called another service", words.Default(time.Duration(0), "")),
	}
}

// Run serves admission until ctx ends, as admission.Serve does.
func Run(ctx context.Context, o Options) error {
	config := rest.CopyConfig(o.Config)
	config.QPS = -1 // one read for each type that an application names: writers wait for it
	client, err := api.NewClient(config, api.Scheme())
	if err != nil {
		return fmt.Errorf("app-webhook: %w", err)
	}
	v := o.Registry.Histogram("controller_runtime_webhook_latency_seconds", "Time that the webhook took for a review.", "webhook")
	took := func(path string) func(string, time.Duration) {
		return func(_ string, d time.Duration) { v.WithLabelValues(path).Observe(d.Seconds()) }
	}
	hooks := []admission.Hook{{
		Configuration: Configuration, Name: "mutating.core.oam.dev.v1beta1.applications", Path: pathMutate, Rule: webhookRule(),
		Decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return o.mutateApplication(q, choiceBySeed(o.Seed))
		}, Took: took(pathMutate),
	}}
	if o.Types {
		hooks = append(hooks, admission.Hook{
			Configuration: Configuration, Name: "validating.core.oam.dev.v1beta1.applications", Path: pathValidate, Validating: true, Rule: webhookRule(),
			Decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				if err := clock.Sleep(ctx, o.Delay); err != nil {
					return admission.Deny(err)
				}
				if o.Review != nil {
					return reviewApplication(q, o.Review)
				}
				return validateApplication(q, func(kind, namespace, name string) error {
					ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
					defer cancel()
					_, err := client.Definitions[kind].Get(ctx, namespace, name)
					return err
				})
			}, Took: took(pathValidate),
		})
	}
	return admission.Serve(ctx, admission.Options{Name: "app-webhook", Env: o.Env, Listen: o.Listen}, hooks...)
}

func webhookRule() registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
		Rule:       registrationv1.Rule{APIGroups: []string{api.Group}, APIVersions: []string{api.Version}, Resources: []string{api.Resource(api.KindApplication)}},
	}
}

// choiceBySeed returns a choice of one of n by the seed and the application, so that the
// same scenario gives the same applications the same shards, in whatever order they come.
func choiceBySeed(seed uint64) func(key string, n int) int {
	return func(key string, n int) int {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key)) // a hash takes everything
		return rand.New(rand.NewPCG(seed, h.Sum64())).IntN(n)
	}
}

// mutateApplication gives an application a shard, by chance; one that it has it keeps.
func (o Options) mutateApplication(q *admissionv1.AdmissionRequest, chance func(string, int) int) *admissionv1.AdmissionResponse {
	app := &api.Application{}
	if err := json.Unmarshal(q.Object.Raw, app); err != nil {
		return admission.Deny(err)
	}
	if len(o.Schedulable) == 0 || app.Labels[api.LabelShard] != "" {
		return admission.Allow()
	}
	labels := map[string]string{api.LabelShard: o.Schedulable[chance(q.Namespace+"/"+cmp.Or(q.Name, string(q.UID)), len(o.Schedulable))]}
	maps.Copy(labels, app.Labels)
	return admission.Patch([]any{map[string]any{"op": "add", "path": "/metadata/labels", "value": labels}})
}

// reviewApplication refuses what a review finds wrong.
func reviewApplication(q *admissionv1.AdmissionRequest, review func(*api.Application) error) *admissionv1.AdmissionResponse {
	app := &api.Application{}
	if err := json.Unmarshal(q.Object.Raw, app); err != nil {
		return admission.Deny(err)
	}
	app.Namespace = q.Namespace
	if app.DeletionTimestamp == nil { // else, whatever is wrong, it may go
		if err := review(app); err != nil {
			return admission.Deny(err)
		}
	}
	return admission.Allow()
}

// validateApplication refuses an application that names what is not there.
func validateApplication(q *admissionv1.AdmissionRequest, find func(kind, namespace, name string) error) *admissionv1.AdmissionResponse {
	app := &api.Application{}
	if err := json.Unmarshal(q.Object.Raw, app); err != nil {
		return admission.Deny(err)
	}
	if app.DeletionTimestamp != nil {
		return admission.Allow() // whatever it names, it may go
	}
	var errs []error
	need := func(where, kind, name string) {
		err := find(kind, q.Namespace, name)
		if apierrors.IsNotFound(err) {
			err = find(kind, api.SystemNamespace, name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s %q: %w", where, kind, name, err))
		}
	}
	for _, c := range app.Spec.Components {
		need("component "+c.Name, api.KindComponent, c.Type)
		for _, t := range c.Traits {
			need("component "+c.Name, api.KindTrait, t.Type)
		}
	}
	for _, p := range app.Spec.Policies {
		need("policy "+p.Name, api.KindPolicy, p.Type)
	}
	if app.Spec.Workflow != nil {
		for _, s := range app.Spec.Workflow.Steps {
			need("step "+s.Name, api.KindStep, s.Type)
			for _, o := range s.SubSteps {
				need("step "+o.Name, api.KindStep, o.Type)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return admission.Deny(err)
	}
	return admission.Allow()
}
