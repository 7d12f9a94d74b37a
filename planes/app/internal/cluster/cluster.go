// Package cluster is how the app plane knows and reaches member clusters, in the
// forms of cluster-gateway: a member is a Secret that holds its address and a
// credential, and a request for it is rewritten into one for the gateway, which
// the hub's API server proxies or which goes to the gateway directly.
//
// It forwards nothing: package gateway does.
package cluster

import (
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The API of the gateway.
const (
	Group    = "cluster.core.oam.dev"
	Version  = "v1alpha1"
	Resource = "clustergateways"
	Kind     = "ClusterGateway"
)

// GroupVersion returns cluster.core.oam.dev/v1alpha1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// Local is the name of the cluster that the applications are in.
const Local = "local"

// LabelCredential marks the Secret of a member and says what its credential is:
// CredentialToken or CredentialCertificate. A Secret without it is no member.
const (
	LabelCredential       = "cluster.core.oam.dev/cluster-credential-type"
	CredentialToken       = "ServiceAccountToken"
	CredentialCertificate = "X509Certificate"
)

// Member is what a Secret says of a cluster.
type Member struct {
	Name      string
	Labels    map[string]string // by which policies select it
	Endpoint  string            // URL of its API server
	CA        []byte            // PEM; empty: its certificate is not verified
	Token     string            // either this
	Cert, Key []byte            // or these, PEM
}

// errCredential says that a Secret holds no credential that can be used.
var errCredential = errors.New("want endpoint and either token or tls.crt with tls.key")

// Secret returns the member as it is kept, in the system's namespace.
func (m Member) Secret() *corev1.Secret {
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: m.Name, Labels: map[string]string{}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{"endpoint": []byte(m.Endpoint)},
	}
	maps.Copy(s.Labels, m.Labels)
	if len(m.CA) > 0 {
		s.Data["ca.crt"] = m.CA
	}
	if m.Token != "" {
		s.Labels[LabelCredential] = CredentialToken
		s.Data["token"] = []byte(m.Token)
		return s
	}
	s.Labels[LabelCredential] = CredentialCertificate
	s.Data["tls.crt"], s.Data["tls.key"] = m.Cert, m.Key
	return s
}

// FromSecret reads a member's Secret.
func FromSecret(s *corev1.Secret) (Member, error) {
	m := Member{Name: s.Name, Labels: s.Labels, Endpoint: string(s.Data["endpoint"]), CA: s.Data["ca.crt"]}
	switch kind := s.Labels[LabelCredential]; kind {
	case CredentialToken:
		m.Token = string(s.Data["token"])
	case CredentialCertificate:
		m.Cert, m.Key = s.Data["tls.crt"], s.Data["tls.key"]
	default:
		return m, fmt.Errorf("secret %s: label %s is %q: want %s or %s", s.Name, LabelCredential, kind, CredentialToken, CredentialCertificate)
	}
	if m.Endpoint == "" || m.Token == "" && (len(m.Cert) == 0 || len(m.Key) == 0) {
		return m, fmt.Errorf("secret %s: %w", s.Name, errCredential)
	}
	return m, nil
}

// Informer knows the clusters that have joined. Of the Secrets only those with a
// credential's label are watched: KubeVela caches all that there are.
func Informer(client cache.Getter, resync time.Duration) cache.SharedIndexInformer {
	return resource.NewInformer[*corev1.Secret](client, "secrets", api.SystemNamespace, metav1.ListOptions{LabelSelector: LabelCredential}, resync, nil)
}
