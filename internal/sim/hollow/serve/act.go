package serve

import (
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/control"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// doAction answers a POST that does something but create an object of the resource.
func (q *request) doAction() error {
	k := q.Kind
	if s, ok := q.Kind.Find(q.Sub); ok {
		group, v := s.Group, s.Version
		if v == "" {
			group, v = k.Group, k.Version
		}
		k = kind.Form(schema.GroupVersionKind{Group: group, Version: v, Kind: s.Kind})
	}
	o, err := q.readObject(k)
	if err != nil {
		return err
	}
	switch o := o.(type) {
	case *corev1.Binding:
		return q.bindPod(o)
	case *policyv1.Eviction:
		return q.evictPod(o)
	case *authenticationv1.TokenRequest:
		err = q.issueToken(o)
	default:
		q.answerReview(o)
	}
	if err != nil {
		return err
	}
	return q.writeObject(http.StatusCreated, registry.Result{Kind: k, Typed: o})
}

// answerCreated answers that something was done.
func (q *request) answerCreated() error {
	s := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if !q.form.proto {
		q.writeJSON(http.StatusCreated, s)
		return nil
	}
	return q.writeObject(http.StatusCreated, registry.Result{Kind: kind.Form(metav1.SchemeGroupVersion.WithKind("Status")), Typed: s})
}

// bindPod gives a pod its node.
func (q *request) bindPod(b *corev1.Binding) error {
	w, err := q.parseWrite()
	if err != nil {
		return err
	}
	w.Sub, w.Name = "", b.Name
	if q.Name != "" {
		w.Name = q.Name
	}
	if err := q.cluster.backend.Bind(w, b); err != nil {
		return err
	}
	return q.answerCreated()
}

// evictPod deletes a pod unless a disruption budget allows no disruption.
func (q *request) evictPod(e *policyv1.Eviction) error {
	options := e.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	w, err := q.parseWrite()
	if err != nil {
		return err
	}
	w.Sub, w.DryRun = "", w.DryRun || len(options.DryRun) > 0
	if err := q.cluster.backend.Evict(w, options); err != nil {
		return err
	}
	return q.answerCreated()
}

// issueToken gives a service account a token.
func (q *request) issueToken(t *authenticationv1.TokenRequest) error {
	account := q.cluster.registry.Table(q.Kind).Get(q.Key())
	if account == nil {
		return apierrors.NewNotFound(q.Kind.Resource(), q.Name)
	}
	seconds := int64(3600)
	if s := t.Spec.ExpirationSeconds; s != nil {
		seconds = *s
	}
	t.Spec.ExpirationSeconds = &seconds
	expires := registry.TimeOf(q.cluster.backend.Now()).Add(time.Duration(seconds) * time.Second)
	t.Name, t.Namespace = q.Name, q.Namespace
	t.Status.ExpirationTimestamp = metav1.NewTime(expires)
	t.Status.Token = q.cluster.accounts.Sign(control.Claims{
		Namespace: q.Namespace, Name: q.Name, UID: string(q.Kind.Metadata(account.Raw).UID), Audiences: t.Spec.Audiences, Expires: expires.Unix(),
	})
	return nil
}

// answerReview answers who somebody is, and what they may do: everything.
func (q *request) answerReview(o runtime.Object) {
	const why = "a hollow cluster allows everything"
	allowed := authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: why}
	switch o := o.(type) {
	case *authenticationv1.SelfSubjectReview:
		o.CreationTimestamp = registry.TimeOf(q.cluster.backend.Now())
		o.Status.UserInfo = authenticationv1.UserInfo{Username: q.user.Name, Groups: q.user.Groups}
	case *authenticationv1.TokenReview:
		q.reviewToken(o)
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status = allowed
	case *authorizationv1.SubjectAccessReview:
		o.Status = allowed
	case *authorizationv1.LocalSubjectAccessReview:
		o.Status = allowed
	case *authorizationv1.SelfSubjectRulesReview:
		o.Status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
		o.Status.NonResourceRules = []authorizationv1.NonResourceRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
	}
}

func (q *request) reviewToken(o *authenticationv1.TokenReview) {
	who, of, ok := q.cluster.accounts.Identify(o.Spec.Token, q.cluster.backend.Now())
	if !ok {
		o.Status = authenticationv1.TokenReviewStatus{Error: "[invalid bearer token]"}
		return
	}
	o.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: of.Audiences,
		User: authenticationv1.UserInfo{Username: who.Name, Groups: who.Groups, UID: of.UID}}
}
