package hollow

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// act answers a POST that does something but create an object of the resource.
func (q *request) act() error {
	k := q.Kind
	if s, ok := q.Kind.Find(q.Sub); ok {
		group, v := s.Group, s.Version
		if v == "" {
			group, v = k.Group, k.Version
		}
		k = kind.Form(schema.GroupVersionKind{Group: group, Version: v, Kind: s.Kind})
	}
	o, err := q.read(k)
	if err != nil {
		return err
	}
	switch o := o.(type) {
	case *corev1.Binding:
		return q.bind(o)
	case *policyv1.Eviction:
		return q.evict(o)
	case *authenticationv1.TokenRequest:
		err = q.issue(o)
	default:
		q.review(o)
	}
	if err != nil {
		return err
	}
	return q.object(http.StatusCreated, registry.Result{Kind: k, Typed: o})
}

// created answers that something was done.
func (q *request) created() error {
	s := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if !q.form.proto {
		q.json(http.StatusCreated, s)
		return nil
	}
	return q.object(http.StatusCreated, registry.Result{Kind: kind.Form(metav1.SchemeGroupVersion.WithKind("Status")), Typed: s})
}

// bind gives a pod its node.
func (q *request) bind(b *corev1.Binding) error {
	w, err := q.writing()
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
	return q.created()
}

// evict deletes a pod unless a disruption budget allows no disruption.
func (q *request) evict(e *policyv1.Eviction) error {
	options := e.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	w, err := q.writing()
	if err != nil {
		return err
	}
	w.Sub, w.DryRun = "", w.DryRun || len(options.DryRun) > 0
	if err := q.cluster.backend.Evict(w, options); err != nil {
		return err
	}
	return q.created()
}

// claims are what a token says.
type claims struct {
	Namespace string   `json:"ns"`
	Name      string   `json:"sa"`
	UID       string   `json:"uid"`
	Audiences []string `json:"aud,omitempty"`
	Expires   int64    `json:"exp"` // Unix seconds
}

// tokenPrefix is what the tokens of service accounts begin with.
const tokenPrefix = "hollow."

// issue gives a service account a token.
func (q *request) issue(t *authenticationv1.TokenRequest) error {
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
	t.Status.Token = q.cluster.sign(claims{q.Namespace, q.Name, string(q.Kind.Metadata(account.Raw).UID), t.Spec.Audiences, expires.Unix()})
	return nil
}

// sign writes claims as a token that only this server's clusters take.
func (c *Cluster) sign(of claims) string {
	raw, _ := json.Marshal(of) // plain fields
	body := base64.RawURLEncoding.EncodeToString(raw)
	return tokenPrefix + body + "." + c.signature(body)
}

func (c *Cluster) signature(body string) string {
	h := hmac.New(sha256.New, []byte(c.server.options.Token))
	h.Write([]byte(c.Name + "." + body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// account returns the service account that a token is of.
func (c *Cluster) account(token string) (user, claims, bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	body, signature, cut := strings.Cut(rest, ".")
	if !ok || !cut || !hmac.Equal([]byte(signature), []byte(c.signature(body))) {
		return user{}, claims{}, false
	}
	var of claims
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(raw, &of)
	}
	if err != nil || of.Expires < c.server.now().Unix() || c.registry.Store().Table("serviceaccounts").Get(kind.Key(of.Namespace, of.Name)) == nil {
		return user{}, claims{}, false
	}
	return user{"system:serviceaccount:" + of.Namespace + ":" + of.Name,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + of.Namespace, "system:authenticated"}}, of, true
}

// review answers who somebody is, and what they may do: everything.
func (q *request) review(o runtime.Object) {
	const why = "a hollow cluster allows everything"
	allowed := authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: why}
	switch o := o.(type) {
	case *authenticationv1.SelfSubjectReview:
		o.CreationTimestamp = registry.TimeOf(q.cluster.backend.Now())
		o.Status.UserInfo = authenticationv1.UserInfo{Username: q.user.name, Groups: q.user.groups}
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
	who, of, ok := q.cluster.identify(o.Spec.Token)
	if !ok {
		o.Status = authenticationv1.TokenReviewStatus{Error: "[invalid bearer token]"}
		return
	}
	o.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: of.Audiences,
		User: authenticationv1.UserInfo{Username: who.name, Groups: who.groups, UID: of.UID}}
}
