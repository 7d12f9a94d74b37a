package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	registration "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
)

// writer are the calls on one kind of registration.
type writer[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
}

// putConfiguration registers a configuration; one that an earlier self left is replaced, and
// another's is not.
func putConfiguration[T metav1.Object](ctx context.Context, c writer[T], want T) error {
	_, err := c.Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := c.Get(ctx, want.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if install.Run() != "" && !install.Owns(old, "") {
		return install.ErrForeign
	}
	want.SetResourceVersion(old.GetResourceVersion())
	_, err = c.Update(ctx, want, metav1.UpdateOptions{})
	return err
}

func registerAll(ctx context.Context, o Options, url string, ca []byte, hooks []Hook) error {
	c, err := registration.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	for _, h := range hooks {
		if h.Validating {
			err = putConfiguration(ctx, c.ValidatingWebhookConfigurations(), validatingConfiguration(h, url, ca))
		} else {
			err = putConfiguration(ctx, c.MutatingWebhookConfigurations(), mutatingConfiguration(h, url, ca))
		}
		if err != nil {
			return fmt.Errorf("%s: register %s: %w", o.Name, h.Configuration, err)
		}
	}
	return nil
}

// withdrawAll takes the registrations back, within five seconds: the plane itself
// may be on its way out.
func withdrawAll(o Options, hooks []Hook) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := registration.NewForConfig(o.Config)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hooks {
		if h.Validating {
			err = c.ValidatingWebhookConfigurations().Delete(ctx, h.Configuration, metav1.DeleteOptions{})
		} else {
			err = c.MutatingWebhookConfigurations().Delete(ctx, h.Configuration, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s: withdraw %s: %w", o.Name, h.Configuration, err))
		}
	}
	return errors.Join(errs...)
}

func clientConfig(h Hook, url string, ca []byte) registrationv1.WebhookClientConfig {
	return registrationv1.WebhookClientConfig{URL: new(url + h.Path), CABundle: ca}
}

// timeout is how long the API server waits for a review, in seconds.
const timeout = 10

func mutatingConfiguration(h Hook, url string, ca []byte) *registrationv1.MutatingWebhookConfiguration {
	return &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: h.Configuration},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name: h.Name, ClientConfig: clientConfig(h, url, ca), Rules: []registrationv1.RuleWithOperations{h.Rule},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: h.Labels},
			FailurePolicy:  new(registrationv1.Fail), SideEffects: new(registrationv1.SideEffectClassNone),
			TimeoutSeconds: new(int32(timeout)), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func validatingConfiguration(h Hook, url string, ca []byte) *registrationv1.ValidatingWebhookConfiguration {
	return &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: h.Configuration},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: h.Name, ClientConfig: clientConfig(h, url, ca), Rules: []registrationv1.RuleWithOperations{h.Rule},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: h.Labels},
			FailurePolicy:  new(registrationv1.Fail), SideEffects: new(registrationv1.SideEffectClassNone),
			TimeoutSeconds: new(int32(timeout)), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// Allow lets a request pass as it is.
func Allow() *admissionv1.AdmissionResponse { return &admissionv1.AdmissionResponse{Allowed: true} }

// Patch lets a request pass with changes, a value that is written as a JSON Patch.
func Patch(patch any) *admissionv1.AdmissionResponse {
	raw, err := json.Marshal(patch)
	if err != nil {
		return Deny(err)
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: raw, PatchType: new(admissionv1.PatchTypeJSONPatch)}
}

// Deny refuses a request, and says why.
func Deny(err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: err.Error(), Code: http.StatusBadRequest}}
}
