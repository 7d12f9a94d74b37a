// Package admission serves the admission webhooks of a reference plane: TLS on a
// loopback address with a certificate of its own making, registration by URL, and
// the form of reviews.
//
// It decides nothing: a Hook does.
package admission

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// Hook is one webhook.
type Hook struct {
	Configuration string // name of its registration
	Name          string // of the webhook in it, such as mutator.example.org
	Path          string // with its leading slash
	Validating    bool   // it refuses; otherwise it changes
	Rule          registrationv1.RuleWithOperations
	Labels        map[string]string // that an object has to have to be reviewed; empty: any
	// Decide answers one request; its UID is filled in.
	Decide func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
	// Took is told of each review; it may be nil.
	Took func(operation string, d time.Duration)
}

// Options are what a server of webhooks is told.
type Options struct {
	process.Env        // whose registry is ready when the hooks are registered
	Name        string // of the program: in errors and in its certificate
	Listen      string // host:port; port 0 takes any
}

// Serve serves hooks until ctx ends, then takes their registrations back, so that
// writes go on without them. A process that is killed leaves them: writes fail
// until the next one registers itself, as with webhooks elsewhere.
func Serve(ctx context.Context, o Options, hooks ...Hook) error {
	if err := requireReachable(o.Config.Host, o.Listen); err != nil {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	certificate, ca, err := issueCertificate(o)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("%s: listen on %s: %w", o.Name, o.Listen, err)
	}
	mux := http.NewServeMux()
	for _, h := range hooks {
		mux.Handle(h.Path, Handler(h, o.Clock, o.Log))
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
	}}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	err = registerAll(ctx, o, "https://"+listener.Addr().String(), ca, hooks)
	if err == nil {
		o.Log.Info("webhook serves", "address", listener.Addr().String())
		o.Registry.Ready()
		select {
		case <-ctx.Done():
		case err = <-ended:
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		err = withdrawAll(o, hooks)
	}
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(shut))
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// errElsewhere says that the API server would look for the webhook on its own
// machine, and refuse all writes of what it is for meanwhile.
var errElsewhere = errors.New("the API server is on another machine, which does not reach a loopback address here: give --admission-listen another")

// requireReachable looks whether an API server can call a webhook that listens here.
func requireReachable(server, listen string) error {
	u, err := url.Parse(server)
	host, _, cut := net.SplitHostPort(listen)
	if err != nil || cut != nil || !isLoopback(host) || isLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s: %w", server, errElsewhere)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// issueCertificate makes a certificate for the loopback address and its authority.
func issueCertificate(o Options) (tls.Certificate, []byte, error) {
	now := o.Now()
	authority, err := pki.NewAuthority(o.Name, now)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pair, err := authority.Issue(pki.Subject{Name: o.Name, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}, now)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return certificate, authority.PEM(), err
}

// Handler answers the reviews of one hook.
func Handler(h Hook, c clock.Clock, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := c.Now()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(body, review); err != nil || review.Request == nil {
			http.Error(w, "want an AdmissionReview of admission.k8s.io/v1 with a request", http.StatusBadRequest)
			return
		}
		operation := string(review.Request.Operation)
		review.Response = h.Decide(review.Request)
		review.Response.UID = review.Request.UID
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			log.Warn("answer of a review not sent", "error", err)
		}
		if h.Took != nil {
			h.Took(operation, c.Now().Sub(begin))
		}
	})
}
