package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// caller is who sent a request, and by which way.
type caller struct {
	name            string
	groups          []string
	authenticatedBy string // wayAggregated or wayDirect
}

// The ways to the gateway.
const (
	wayAggregated = "aggregated" // by the hub's API server
	wayDirect     = "direct"
)

// callers decides who calls and what they may, by the hub's own word, as aggregated
// API servers do: a certificate of the hub's front proxy lets headers speak, one of
// the hub's own authority speaks for itself, a token is reviewed.
type callers struct {
	hub   kubernetes.Interface
	clock clock.Clock

	frontProxies *x509.CertPool // nil: the hub has none
	proxyNames   []string       // empty: any
	userHeaders  []string
	groupHeaders []string
	clients      *x509.CertPool // nil: the hub has none

	mu     sync.Mutex
	tokens map[[sha256.Size]byte]remembered[caller]
	rights map[string]remembered[bool]
}

// remembered is an answer of the hub that is believed until a time.
type remembered[T any] struct {
	value T
	until clock.Time
}

// believed is how long; as long as in API servers that delegate.
const believed = 10 * time.Second

// maxRemembered bounds what is remembered of each kind.
const maxRemembered = 10_000

// authentication is where the hub says how it knows its callers.
const authentication = "extension-apiserver-authentication"

// superusers may do everything.
const superusers = "system:masters"

var (
	errUnknown   = errors.New("the caller is not known: want a token or a certificate that the hub takes")
	errNotBearer = errors.New("authorization: want Bearer TOKEN")
)

func newCallers(ctx context.Context, hub kubernetes.Interface, c clock.Clock) (*callers, error) {
	out := &callers{hub: hub, clock: c, tokens: map[[sha256.Size]byte]remembered[caller]{}, rights: map[string]remembered[bool]{}}
	cm, err := hub.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authentication, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // a hub without certificates: tokens are left
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("how the hub knows its callers: %w", err)
	}
	pool := func(key string) *x509.CertPool {
		p := x509.NewCertPool()
		if !p.AppendCertsFromPEM([]byte(cm.Data[key])) {
			return nil
		}
		return p
	}
	out.frontProxies, out.clients = pool("requestheader-client-ca-file"), pool("client-ca-file")
	var errs []error
	list := func(key string) (names []string) {
		if raw := cm.Data[key]; raw != "" {
			if err := json.Unmarshal([]byte(raw), &names); err != nil {
				errs = append(errs, fmt.Errorf("how the hub knows its callers: %s: %w", key, err))
			}
		}
		return names
	}
	out.proxyNames, out.userHeaders, out.groupHeaders = list("requestheader-allowed-names"), list("requestheader-username-headers"), list("requestheader-group-headers")
	return out, errors.Join(errs...)
}

// identifyCaller says who sent a request.
func (c *callers) identifyCaller(r *http.Request) (caller, error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		leaf := r.TLS.PeerCertificates[0]
		if isVerified(r, c.frontProxies) && (len(c.proxyNames) == 0 || slices.Contains(c.proxyNames, leaf.Subject.CommonName)) {
			return c.asHeadersSay(r.Header)
		}
		if isVerified(r, c.clients) {
			return caller{leaf.Subject.CommonName, append(slices.Clone(leaf.Subject.Organization), "system:authenticated"), wayDirect}, nil
		}
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return caller{}, errUnknown
	}
	token, ok := strings.CutPrefix(header, "Bearer ")
	if !ok || token == "" {
		return caller{}, errNotBearer
	}
	return c.reviewToken(r.Context(), token)
}

// isVerified says whether the certificate that a request came with is of an authority
// of the pool.
func isVerified(r *http.Request, pool *x509.CertPool) bool {
	if pool == nil {
		return false
	}
	o := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, more := range r.TLS.PeerCertificates[1:] {
		o.Intermediates.AddCert(more)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(o)
	return err == nil
}

func (c *callers) asHeadersSay(h http.Header) (caller, error) {
	for _, name := range c.userHeaders {
		if user := h.Get(name); user != "" {
			out := caller{name: user, authenticatedBy: wayAggregated}
			for _, group := range c.groupHeaders {
				out.groups = append(out.groups, h.Values(group)...)
			}
			return out, nil
		}
	}
	return caller{}, fmt.Errorf("%w: the front proxy names nobody", errUnknown)
}

// reviewToken asks the hub whose a token is.
func (c *callers) reviewToken(ctx context.Context, token string) (caller, error) {
	key := sha256.Sum256([]byte(token))
	if got, ok := recallValue(c, c.tokens, key); ok {
		return got, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := c.hub.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return caller{}, fmt.Errorf("review of a token: %w", err)
	}
	if !r.Status.Authenticated {
		return caller{}, errUnknown
	}
	out := caller{r.Status.User.Username, r.Status.User.Groups, wayDirect}
	rememberValue(c, c.tokens, key, out)
	return out, nil
}

// isAllowed says whether a caller may do something with a member.
func (c *callers) isAllowed(ctx context.Context, who caller, verb, name, subresource string) (bool, error) {
	if slices.Contains(who.groups, superusers) {
		return true, nil
	}
	key := strings.Join([]string{who.name, strings.Join(who.groups, ","), verb, name, subresource}, "\x00")
	if got, ok := recallValue(c, c.rights, key); ok {
		return got, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := c.hub.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.name, Groups: who.groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: cluster.Group, Version: cluster.Version, Resource: cluster.Resource, Subresource: subresource, Name: name,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review of access: %w", err)
	}
	rememberValue(c, c.rights, key, r.Status.Allowed)
	return r.Status.Allowed, nil
}

func recallValue[K comparable, V any](c *callers, from map[K]remembered[V], key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, ok := from[key]
	return got.value, ok && c.clock.Now() < got.until
}

func rememberValue[K comparable, V any](c *callers, into map[K]remembered[V], key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(into) >= maxRemembered {
		clear(into)
	}
	into[key] = remembered[V]{value, c.clock.Now().Add(believed)}
}

// whoKey is that of the caller in a request's context.
type whoKey struct{}

// requireAllowed lets callers through who may do verb, empty for what the method says, with
// a member's subresource.
func (s *Server) requireAllowed(verb, subresource string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.callers.identifyCaller(r)
		if err != nil {
			writeStatusError(w, apierrors.NewUnauthorized(err.Error()))
			return
		}
		do, name := verb, r.PathValue("name")
		if do == "" {
			do = verbOf(r.Method)
		}
		ok, err := s.callers.isAllowed(r.Context(), who, do, name, subresource)
		if err != nil {
			writeStatusError(w, apierrors.NewInternalError(err))
			return
		}
		if !ok {
			writeStatusError(w, apierrors.NewForbidden(cluster.GroupVersion().WithResource(cluster.Resource).GroupResource(), name,
				fmt.Errorf("%s may not %s %s/%s", who.name, do, cluster.Resource, subresource)))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), whoKey{}, who)))
	})
}

// verbOf returns the word of authorization for a method.
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch, http.MethodDelete:
		return strings.ToLower(method)
	}
	return "get"
}

// writeStatusError answers with an API server's own form of an error.
func writeStatusError(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // who does not read it has gone
}
