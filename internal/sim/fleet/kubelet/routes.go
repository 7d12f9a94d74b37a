package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// newHandler says what is answered where.
func (s *Server) newHandler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz", "/livez"} {
		mux.HandleFunc("GET "+path, serveHealthy)
	}
	mux.HandleFunc("GET /metrics/", s.serveMetric)
	mux.HandleFunc("GET /metrics", s.serveMetric)
	mux.HandleFunc("GET /discovery/prometheus", s.serveDiscovery)
	mux.HandleFunc("GET /pods", s.servePods)
	for _, path := range []string{"/run/", "/runningpods/", "/logs/", "/stats/"} {
		mux.HandleFunc(path, disabledHandler("simulated nodes have no such endpoint"))
	}
	if s.options.NoStream {
		for _, path := range []string{"/containerLogs/", "/exec/", "/attach/", "/portForward/", "/debug/"} {
			mux.HandleFunc(path, disabledHandler("logs, exec, attach, port-forward and profiles are switched off"))
		}
		return mux
	}
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.serveLogs)
	for _, method := range []string{"GET ", "POST "} {
		for path, h := range map[string]http.HandlerFunc{"/exec/{namespace}/{pod}/": s.serveExec, "/attach/{namespace}/{pod}/": s.serveAttach} {
			mux.HandleFunc(method+path+"{container}", h)
			mux.HandleFunc(method+path+"{uid}/{container}", h)
		}
		mux.HandleFunc(method+"/portForward/{namespace}/{pod}", s.portForward)
		mux.HandleFunc(method+"/portForward/{namespace}/{pod}/{uid}", s.portForward)
	}
	if s.options.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func serveHealthy(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok")) // nobody is left to be told of an error
}

// disabledHandler answers as a kubelet does whose endpoint is switched off.
func disabledHandler(why string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, why, http.StatusMethodNotAllowed) }
}

// requireAccess lets those through who may ask. Health may be asked by anyone. With a
// client CA only its clients may ask; without one a web page that has a browser
// call this server may not.
func (s *Server) requireAccess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz", "/livez":
			next.ServeHTTP(w, r)
			return
		}
		if s.options.ClientCAFile != "" {
			if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
				http.Error(w, "Unauthorized: a client certificate is wanted", http.StatusUnauthorized)
				return
			}
		} else if why := s.explainForeign(r); why != "" {
			http.Error(w, "Forbidden: "+why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// explainForeign says why a request is taken for that of somebody else's web page; empty
// when it is not. Its Origin or Sec-Fetch-Site gives such a page away, unless its
// server's name was made to stand for this machine: then the Host that was asked for
// is a name which nobody gave us. Addresses cannot be made to stand for others.
func (s *Server) explainForeign(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	if host != "localhost" && net.ParseIP(host) == nil && !slices.Contains(s.options.Names, host) {
		return "asked for by a name that is not this server's: use its address, or a client CA"
	}
	const otherPage = "asked for by a page of another origin"
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return otherPage
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return ""
	}
	if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
		return otherPage
	}
	return ""
}

// failure is an error with the code that a client is answered.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func newFailure(code int, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// writeError answers with an error. 400 and 500 are the codes whose text
// kube-apiserver passes on to its own client.
func (s *Server) writeError(w http.ResponseWriter, err error) {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{http.StatusInternalServerError, err}
	}
	http.Error(w, f.Error(), f.code)
}

// askTimeout bounds what a request may wait for the world.
const askTimeout = 10 * time.Second

// requireKnown says whether a pod, and a container in it, is there; without a world
// anything may be.
func (s *Server) requireKnown(ctx context.Context, r *http.Request) error {
	if s.options.World == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("uid")
	pod, err := s.options.World.Pod(ctx, namespace, name)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && uid != "" && uid != string(pod.UID):
		return newFailure(http.StatusNotFound, "there is no pod %s/%s", namespace, name)
	case err != nil:
		return newFailure(http.StatusInternalServerError, "find pod %s/%s: %w", namespace, name, err)
	case s.options.Node != "" && pod.Spec.NodeName != s.options.Node:
		return newFailure(http.StatusNotFound, "pod %s/%s is not on node %s", namespace, name, s.options.Node)
	}
	if container := r.PathValue("container"); container != "" && !hasContainer(pod, container) {
		return newFailure(http.StatusBadRequest, "there is no container %s in pod %s/%s", container, namespace, name)
	}
	return nil
}

func hasContainer(pod *corev1.Pod, container string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == container {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			return true
		}
	}
	return false
}
