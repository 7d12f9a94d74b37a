package hollow

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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
	"github.com/windtunnel/windtunnel/internal/unit"
)

// act answers a POST that does something but create an object of the resource.
func (q *request) act() error {
	k := q.kind
	if s, ok := q.kind.Find(q.sub); ok {
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
	return q.object(http.StatusCreated, result{kind: k, typed: o})
}

// created answers that something was done.
func (q *request) created() error {
	s := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if !q.form.proto {
		q.json(http.StatusCreated, s)
		return nil
	}
	return q.object(http.StatusCreated, result{kind: kind.Form(metav1.SchemeGroupVersion.WithKind("Status")), typed: s})
}

// bind gives a pod its node.
func (q *request) bind(b *corev1.Binding) error {
	w, err := q.writing()
	if err != nil {
		return err
	}
	w.sub, w.name = "", b.Name
	if q.name != "" {
		w.name = q.name
	}
	w.kind = q.cluster.kinds.Load().Find("", "v1", "pods")
	if err := q.cluster.bind(w, b); err != nil {
		return err
	}
	return q.created()
}

// bind gives a pod its node.
func (c *Cluster) bind(w write, b *corev1.Binding) error {
	_, err := c.change(change{write: w, uid: b.UID, of: func(old runtime.Object) (runtime.Object, error) {
		p := old.DeepCopyObject().(*corev1.Pod)
		refuse := func(why string) (runtime.Object, error) {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, w.name, fmt.Errorf("%s", why))
		}
		switch {
		case p.DeletionTimestamp != nil:
			return refuse(fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", p.Name))
		case p.Spec.NodeName != "":
			return refuse(fmt.Sprintf("pod %s is already assigned to node %q", p.Name, p.Spec.NodeName))
		}
		p.Spec.NodeName = b.Target.Name
		for key, value := range b.Annotations {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
		}
		scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: c.now()}
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if i < 0 {
			p.Status.Conditions = append(p.Status.Conditions, scheduled)
		} else {
			p.Status.Conditions[i] = scheduled
		}
		return p, nil
	}, binding: true})
	return err
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
	w.sub, w.dryRun = "", w.dryRun || len(options.DryRun) > 0
	if err := q.cluster.disrupt(w); err != nil {
		return err
	}
	if _, err := q.cluster.delete(w, options); err != nil {
		return err
	}
	return q.created()
}

// disrupt takes a disruption from the budgets that a pod is under. One that has
// ended, or that has not begun, needs none.
func (c *Cluster) disrupt(w write) error {
	pod := c.table(w.kind).Get(w.key())
	if pod == nil {
		return apierrors.NewNotFound(w.kind.Resource(), w.name)
	}
	o, err := w.kind.Decode(pod.Raw)
	if err != nil {
		return err
	}
	switch p := o.(*corev1.Pod); {
	case p.DeletionTimestamp != nil, p.Status.Phase != corev1.PodRunning:
		return nil
	}
	budgets := c.kinds.Load().Find("policy", "v1", "poddisruptionbudgets")
	found, err := c.table(budgets).List(selection{prefix: w.namespace + "/"}.query())
	if err != nil {
		return err
	}
	for _, stored := range found.Objects {
		b, err := budgets.Decode(stored.Raw)
		if err != nil {
			return err
		}
		if err := c.take(w, budgets, b.(*policyv1.PodDisruptionBudget), kind.Meta(o).GetLabels()); err != nil {
			return err
		}
	}
	return nil
}

// take takes a disruption from a budget if it is for a pod with these labels.
func (c *Cluster) take(w write, k *kind.Kind, b *policyv1.PodDisruptionBudget, of map[string]string) error {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || !selector.Matches(labelSet(of)) {
		return err
	}
	_, err = c.change(change{write: write{target: target{kind: k, namespace: b.Namespace, name: b.Name, sub: "status"}, dryRun: w.dryRun},
		of: func(old runtime.Object) (runtime.Object, error) {
			next := old.DeepCopyObject().(*policyv1.PodDisruptionBudget)
			if next.Status.DisruptionsAllowed <= 0 {
				err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
				err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause,
					Message: fmt.Sprintf("The disruption budget %s needs %s and has %d currently", next.Name, unit.Count(next.Status.DesiredHealthy, "healthy pods"), next.Status.CurrentHealthy)})
				return nil, err
			}
			next.Status.DisruptionsAllowed--
			if next.Status.DisruptedPods == nil {
				next.Status.DisruptedPods = map[string]metav1.Time{}
			}
			next.Status.DisruptedPods[w.name] = c.now()
			return next, nil
		}})
	return err
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
	account := q.cluster.table(q.kind).Get(q.key())
	if account == nil {
		return apierrors.NewNotFound(q.kind.Resource(), q.name)
	}
	seconds := int64(3600)
	if s := t.Spec.ExpirationSeconds; s != nil {
		seconds = *s
	}
	t.Spec.ExpirationSeconds = &seconds
	expires := q.cluster.now().Add(time.Duration(seconds) * time.Second)
	t.Name, t.Namespace = q.name, q.namespace
	t.Status.ExpirationTimestamp = metav1.NewTime(expires)
	t.Status.Token = q.cluster.sign(claims{q.namespace, q.name, string(q.kind.Metadata(account.Raw).UID), t.Spec.Audiences, expires.Unix()})
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
	if err != nil || of.Expires < c.server.now().Unix() || c.store.Table("serviceaccounts").Get(kind.Key(of.Namespace, of.Name)) == nil {
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
		o.CreationTimestamp = q.cluster.now()
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
