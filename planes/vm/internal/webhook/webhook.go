// Package webhook is the VM plane's admission webhook, the part of KubeVirt's
// virt-api that the plane needs: it gives an instance its first phase and its
// finalizer when it is created. Because instances have no status subresource,
// every later write of theirs passes through it as well, as KubeVirt's do.
//
// It serves TLS on a loopback address with a certificate of its own making and
// registers itself by URL. It validates nothing.
package webhook

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
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	registration "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/plane/pki"
	"github.com/windtunnel/windtunnel/internal/subject/kit/install"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// Name is the name of the webhook's configuration.
const Name = "windtunnel-vm-mutator"

const route = "/virtualmachineinstances-mutate"

// Options are what a webhook is told.
type Options struct {
	Config     *rest.Config
	Listen     string // host:port to serve admission on; port 0 takes any
	CreateOnly bool   // later writes do not pass through it
	Registry   *instrument.Registry
	Clock      clock.Clock
	Log        *slog.Logger
}

// Run serves admission until ctx ends, then takes its registration back, so
// that writes go on without it. A webhook that is killed leaves it: writes fail
// until the next one registers itself, as those of KubeVirt do.
func Run(ctx context.Context, o Options) error {
	if err := reachable(o.Config.Host, o.Listen); err != nil {
		return err
	}
	certificate, ca, err := issue(o.Clock)
	if err != nil {
		return fmt.Errorf("vm-webhook: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("vm-webhook: listen on %s: %w", o.Listen, err)
	}
	h := &handler{clock: o.Clock, log: o.Log}
	h.measure(o.Registry)
	mux := http.NewServeMux()
	mux.Handle(route, h)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
	}}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	err = register(ctx, o, "https://"+listener.Addr().String()+route, ca)
	if err == nil {
		o.Log.Info("webhook serves", "address", listener.Addr().String())
		o.Registry.Ready()
		select {
		case <-ctx.Done():
		case err = <-ended:
			return fmt.Errorf("vm-webhook: %w", err)
		}
		err = withdraw(o)
	}
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(shut))
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// issue makes a certificate for the loopback address and its authority.
func issue(c clock.Clock) (tls.Certificate, []byte, error) {
	now := c.Wall(c.Now())
	authority, err := pki.NewAuthority("windtunnel-vm-webhook", now)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pair, err := authority.Issue(pki.Subject{Name: "windtunnel-vm-webhook", IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}, now)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return certificate, authority.PEM(), err
}

// configuration returns the registration of a webhook at url.
func configuration(o Options, url string, ca []byte) *admissionregistration.MutatingWebhookConfiguration {
	operations := []admissionregistration.OperationType{admissionregistration.Create}
	if !o.CreateOnly {
		operations = append(operations, admissionregistration.Update)
	}
	return &admissionregistration.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Webhooks: []admissionregistration.MutatingWebhook{{
			Name:         "virtualmachineinstances-mutator.kubevirt.io",
			ClientConfig: admissionregistration.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistration.RuleWithOperations{{
				Operations: operations,
				Rule:       admissionregistration.Rule{APIGroups: []string{api.Group}, APIVersions: []string{api.Version}, Resources: []string{api.ResourceInstances}},
			}},
			FailurePolicy:           new(admissionregistration.Fail),
			SideEffects:             new(admissionregistration.SideEffectClassNone),
			TimeoutSeconds:          new(int32(10)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// errElsewhere says that the API server would look for the webhook on its own
// machine, and refuse all writes of instances meanwhile.
var errElsewhere = errors.New("the API server is on another machine, which does not reach a loopback address here: give --admission-listen another")

// reachable looks whether an API server can call a webhook that listens here.
func reachable(server, listen string) error {
	u, err := url.Parse(server)
	host, _, cut := net.SplitHostPort(listen)
	if err != nil || cut != nil || !loopback(host) || loopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("vm-webhook: %s: %w", server, errElsewhere)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// register tells the API server of the webhook; one that an earlier self left
// is replaced, and another's is not.
func register(ctx context.Context, o Options, url string, ca []byte) error {
	c, err := registration.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("vm-webhook: %w", err)
	}
	want := configuration(o, url, ca)
	install.Mark(want)
	_, err = c.MutatingWebhookConfigurations().Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var old *admissionregistration.MutatingWebhookConfiguration
		if old, err = c.MutatingWebhookConfigurations().Get(ctx, Name, metav1.GetOptions{}); err == nil && install.Run() != "" && !install.Owns(old, "") {
			err = install.ErrForeign
		}
		if err == nil {
			want.ResourceVersion = old.ResourceVersion
			_, err = c.MutatingWebhookConfigurations().Update(ctx, want, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("vm-webhook: register: %w", err)
	}
	return nil
}

// withdraw takes the registration back, within five seconds: the plane itself
// may be on its way out.
func withdraw(o Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := registration.NewForConfig(o.Config)
	if err != nil {
		return err
	}
	err = c.MutatingWebhookConfigurations().Delete(ctx, Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("vm-webhook: withdraw: %w", err)
	}
	return nil
}

// handler answers admission reviews.
type handler struct {
	clock clock.Clock
	log   *slog.Logger
	took  func(operation string, d time.Duration)
}

func (h *handler) measure(r *instrument.Registry) {
	v := r.Histogram("windtunnel_vm_webhook_duration_seconds", "Time that the webhook took for a review.", "operation")
	h.took = func(operation string, d time.Duration) { v.WithLabelValues(operation).Observe(d.Seconds()) }
}

// ServeHTTP answers one review.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := h.clock.Now()
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
	review.Response = answer(review.Request, h.clock.Wall(begin))
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		h.log.Warn("answer of a review not sent", "error", err)
	}
	h.took(operation, h.clock.Now().Sub(begin))
}

// answer decides on one request.
func answer(q *admissionv1.AdmissionRequest, now time.Time) *admissionv1.AdmissionResponse {
	out := &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true}
	vmi := &api.Instance{}
	if err := json.Unmarshal(q.Object.Raw, vmi); err != nil {
		return deny(out, err)
	}
	if q.Operation != admissionv1.Create {
		return out
	}
	patch, err := mutation(vmi, now).Bytes()
	if err != nil {
		return deny(out, err)
	}
	out.Patch, out.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	return out
}

func deny(out *admissionv1.AdmissionResponse, err error) *admissionv1.AdmissionResponse {
	out.Allowed = false
	out.Result = &metav1.Status{Message: err.Error(), Code: http.StatusBadRequest}
	return out
}

// mutation gives a new instance its first phase, with its time, and its finalizer.
func mutation(vmi *api.Instance, now time.Time) *api.Patch {
	var status api.InstanceStatus
	status.Enter(api.Pending, now)
	p := &api.Patch{}
	p.Set("/status", status)
	if !slices.Contains(vmi.Finalizers, api.FinalizerInstance) {
		p.Set("/metadata/finalizers", append(slices.Clip(vmi.Finalizers), api.FinalizerInstance))
	}
	return p
}
