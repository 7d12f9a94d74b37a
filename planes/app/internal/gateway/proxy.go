package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// proxyRequest sends a request on to the member that its path names, as the identity of
// the member's Secret, and the answer back.
func (s *Server) proxyRequest(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	who, _ := r.Context().Value(whoKey{}).(caller)
	s.metrics.ways.WithLabelValues(who.authenticatedBy).Inc()
	up, err := s.members.upstreamTo(name)
	if err != nil {
		s.metrics.byCluster.WithLabelValues(name, strconv.Itoa(http.StatusNotFound)).Inc()
		writeStatusError(w, unreachableError(name, err))
		return
	}
	prefix := cluster.Path(name, "")
	p := &httputil.ReverseProxy{
		Transport: &measured{s, name, up.transport}, BufferPool: s.buffers, ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = up.base.Scheme, up.base.Host, up.base.Host
			base := strings.TrimSuffix(up.base.Path, "/")
			p.Out.URL.Path = base + strings.TrimPrefix(p.In.URL.Path, prefix)
			p.Out.URL.RawPath = ""
			stripIdentity(p.Out.Header)
			if up.token != "" {
				p.Out.Header.Set("Authorization", "Bearer "+up.token)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				return // the caller has gone
			}
			writeStatusError(w, unreachableError(name, err))
		},
	}
	p.ServeHTTP(w, r)
}

// stripIdentity takes away what says who the caller is at the hub: the member sees the
// identity of the Secret.
func stripIdentity(h http.Header) {
	for name := range h {
		if name == "Authorization" || strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Forwarded-") {
			delete(h, name)
		}
	}
}

// unreachableError is the answer for a member that cannot be asked.
func unreachableError(name string, err error) *apierrors.StatusError {
	if errors.Is(err, errNoMember) {
		return apierrors.NewNotFound(cluster.GroupVersion().WithResource(cluster.Resource).GroupResource(), name)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %s cannot be reached: %v", name, err))
}

// measured times what a member takes, without what the gateway does itself.
type measured struct {
	*Server
	name string
	next http.RoundTripper
}

// RoundTrip sends a request to the member and notes how it was answered.
func (m *measured) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := m.o.Clock.Now()
	answer, err := m.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	resource, verb := resourceOf(r.URL.Path), strings.ToLower(r.Method)
	m.metrics.took.WithLabelValues(resource, verb, code).Observe(m.o.Clock.Now().Sub(begin).Seconds())
	m.metrics.byCluster.WithLabelValues(m.name, code).Inc()
	m.metrics.byResource.WithLabelValues(resource, verb, code).Inc()
	return answer, err
}

// resourceOf returns the resource in a path such as
// /apis/GROUP/VERSION/namespaces/NS/RESOURCE/NAME.
func resourceOf(path string) string {
	_, rest, found := strings.Cut(path, "/api/v1/")
	if !found {
		if _, rest, found = strings.Cut(path, "/apis/"); !found {
			return ""
		}
		parts := strings.SplitN(rest, "/", 3)
		if len(parts) < 3 {
			return ""
		}
		rest = parts[2]
	}
	parts := strings.Split(rest, "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		return parts[2]
	}
	return parts[0]
}

// buffers are those that bodies are copied with.
type buffers struct{ pool sync.Pool }

// copied is the size of one, in bytes.
const copied = 32 << 10

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if got, ok := b.pool.Get().(*[copied]byte); ok {
		return got[:]
	}
	return make([]byte, copied)
}

// Put takes one back.
func (b *buffers) Put(used []byte) { b.pool.Put((*[copied]byte)(used)) }

// gatewayOf says of a member what callers may know.
func gatewayOf(s *corev1.Secret) map[string]any {
	kind := s.Labels[cluster.LabelCredential]
	return map[string]any{
		"apiVersion": cluster.GroupVersion().String(), "kind": cluster.Kind,
		"metadata": map[string]any{"name": s.Name, "labels": s.Labels, "uid": s.UID, "resourceVersion": s.ResourceVersion, "creationTimestamp": s.CreationTimestamp},
		"spec": map[string]any{"access": map[string]any{
			"endpoint":   map[string]any{"type": "Const", "const": map[string]any{"address": string(s.Data["endpoint"]), "caBundle": s.Data["ca.crt"], "insecure": len(s.Data["ca.crt"]) == 0}},
			"credential": map[string]any{"type": kind},
		}},
	}
}

func (s *Server) serveGet(w http.ResponseWriter, r *http.Request) {
	secret, err := s.members.secretOf(r.PathValue("name"))
	if err != nil {
		writeStatusError(w, unreachableError(r.PathValue("name"), err))
		return
	}
	writeJSON(w, gatewayOf(secret))
}

func (s *Server) serveList(w http.ResponseWriter, _ *http.Request) {
	items := []any{}
	for _, secret := range s.members.allSecrets() {
		items = append(items, gatewayOf(secret))
	}
	writeJSON(w, map[string]any{
		"apiVersion": cluster.GroupVersion().String(), "kind": cluster.Kind + "List", "metadata": map[string]any{}, "items": items,
	})
}

// serveHealth asks a member whether it is well.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	up, err := s.members.upstreamTo(name)
	if err != nil {
		writeStatusError(w, unreachableError(name, err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	well, reason := up.isHealthy(ctx)
	writeJSON(w, map[string]any{
		"apiVersion": cluster.GroupVersion().String(), "kind": cluster.Kind, "metadata": map[string]any{"name": name},
		"status": map[string]any{"healthy": well, "reason": reason},
	})
}

func (u *upstream) isHealthy(ctx context.Context) (bool, string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return false, err.Error()
	}
	if u.token != "" {
		r.Header.Set("Authorization", "Bearer "+u.token)
	}
	a, err := u.transport.RoundTrip(r)
	if err != nil {
		return false, err.Error()
	}
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(a.Body, 4<<10)) // so that the connection can be used again
	return a.StatusCode == http.StatusOK, a.Status
}

func discoverGroup(w http.ResponseWriter, _ *http.Request) {
	version := metav1.GroupVersionForDiscovery{GroupVersion: cluster.GroupVersion().String(), Version: cluster.Version}
	writeJSON(w, metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: cluster.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	})
}

func discoverVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: cluster.GroupVersion().String(),
		APIResources: []metav1.APIResource{
			{Name: cluster.Resource, SingularName: "clustergateway", Kind: cluster.Kind, Verbs: []string{"get", "list"}},
			{Name: cluster.Resource + "/proxy", Kind: "ClusterGatewayProxyOptions", Verbs: []string{"create", "delete", "get", "patch", "update"}},
			{Name: cluster.Resource + "/health", Kind: cluster.Kind, Verbs: []string{"get"}},
		},
	})
}

func writeJSON(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // who does not read it has gone
}
