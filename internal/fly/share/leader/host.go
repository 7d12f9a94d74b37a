package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/job"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
)

// host is the Kubernetes that the workers' pods are on.
type host struct {
	client kubernetes.Interface
	server string // host:port
	stop   context.CancelFunc
	job    *job.Job
	leave  func() // takes the run's lease away; nil: the run made none there
}

// openHost connects to the host and looks whether it can be one.
func (w *Workers) openHost(ctx context.Context) (*host, error) {
	p := w.run.Pods
	e, err := endpoint.FromKubeconfig(p.Kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--worker-kubeconfig: %w", err)
	}
	h, err := newHost(e, w.run.ID)
	if err != nil {
		return nil, fmt.Errorf("--worker-kubeconfig %s: %w", p.Kubeconfig, err)
	}
	same, err := samePlane(ctx, h.client, w.run.Plane.Endpoint(plane.Load))
	if err != nil {
		return nil, err
	}
	if same && !p.OnPlane {
		return nil, fmt.Errorf("--worker-kubeconfig %s is the plane under test, of whose load its workers would be a part: name another one, or add --workers-on-plane", p.Kubeconfig)
	}
	if same { // which has the run's lease
		w.run.Warn("the workers were pods of the plane under test, and a part of its load")
		return h, nil
	}
	return h, h.holdLease(ctx, e, w.run)
}

// newHost makes the client of a host: what it creates there is marked as the run's.
func newHost(e endpoint.Endpoint, run string) (h *host, err error) {
	h = &host{}
	if h.client, err = kubernetes.NewForConfig(door.Guard(e.Config("windtunnel-workers"), object.Stamp{Run: run})); err != nil {
		return nil, err
	}
	h.server, err = e.Address()
	return h, err
}

// holdLease has `windtunnel clean` know on the host that the run goes on.
func (h *host) holdLease(ctx context.Context, e endpoint.Endpoint, r Run) error {
	ctx = context.WithoutCancel(ctx)
	client, err := wire.New(e, wire.Options{UserAgent: "windtunnel-workers", Clock: r.Clock})
	if err != nil {
		return err
	}
	release, err := cleanup.Hold(ctx, client, r.ID, cleanup.Holder(), r.Clock)
	if err != nil {
		r.Warn(fmt.Sprintf("windtunnel clean cannot tell the workers of this run from those of one that was killed: %v", err))
		return client.Close()
	}
	h.leave = func() {
		release()
		if err := errors.Join(cleanup.Drop(ctx, client, r.ID), client.Close()); err != nil {
			r.Warn(err.Error())
		}
	}
	return nil
}

// samePlane says whether two clusters are one: no two have a namespace kube-system of
// the same uid.
func samePlane(ctx context.Context, host kubernetes.Interface, under endpoint.Endpoint) (bool, error) {
	there, err := host.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("--worker-kubeconfig: read the namespace kube-system, which tells it from the plane under test: %w", err)
	}
	client, err := kubernetes.NewForConfig(under.Config("windtunnel-workers"))
	if err != nil {
		return false, err
	}
	here, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read the namespace kube-system of the plane under test, which tells it from the workers' host: %w", err)
	}
	return here.UID == there.UID, nil
}

// listenAt is where the leader listens, and the name that workers reach it by, of a HOST or
// HOST:PORT: at that address if it is one of this machine's, else at all of them.
func listenAt(wanted string) (listen, name string) {
	name, port, err := net.SplitHostPort(wanted)
	if err != nil {
		name, port = wanted, "0"
	}
	at := ""
	if own, err := net.InterfaceAddrs(); err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(net.ParseIP(name))
	}) {
		at = name
	}
	return net.JoinHostPort(at, port), name
}

// leaderAddress is where the leader listens, and the name that pods reach it by.
func (h *host) leaderAddress(wanted string) (listen, name string, err error) {
	if wanted != "" {
		listen, name = listenAt(wanted)
		return listen, name, nil
	}
	way, err := net.Dial("udp", h.server) // sends nothing
	if err != nil {
		return "", "", fmt.Errorf("find the own address towards the workers' host: %w; say it with --leader-address", err)
	}
	defer way.Close()
	if name, _, err = net.SplitHostPort(way.LocalAddr().String()); err != nil {
		return "", "", err
	}
	return net.JoinHostPort(name, "0"), name, nil
}

// checkReach says when workers that reach the leader elsewhere than on this machine have a
// plane that only this machine reaches. Those that only answer at the ends of paths need none.
func (w *Workers) checkReach(leader string) error {
	asks := w.run.Fleets > 0
	for step := range w.run.Workload.Scenario.AllSteps() {
		asks = asks || step.Pace() != nil
	}
	if !asks {
		return nil
	}
	address, err := w.run.Plane.Endpoint(plane.Load).Address()
	if err != nil {
		return err
	}
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if at, here := net.ParseIP(name), net.ParseIP(leader); at.IsLoopback() && !here.IsLoopback() {
		return fmt.Errorf("the plane is at %s, which workers on other machines do not reach: they need a plane with an address of its own (--kubeconfig)", address)
	}
	return nil
}

// startPods makes the Job of the workers.
func (w *Workers) startPods(ctx context.Context) error {
	o, err := w.run.jobOptions(w.run.ID)
	if err != nil {
		return err
	}
	o.Clock = w.run.Clock
	access := make([][]byte, o.Workers)
	for i := range access {
		if access[i], err = json.Marshal(w.leader.Access(i)); err != nil {
			return fmt.Errorf("say where the leader is: %w", err)
		}
	}
	if w.host.job, err = job.Start(ctx, w.host.client, o, access); err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.host.stop = stop
	w.wait.Go(func() {
		w.host.job.Watch(watching, func(worker int, why error) {
			if worker >= 0 && worker < o.Workers {
				w.leader.Lose(worker, why)
			}
		})
	})
	return nil
}

// explainMissing adds what the host says of workers that have not come.
func (h *host) explainMissing(ctx context.Context, err error) error {
	if err == nil || h == nil || h.job == nil || errors.Is(err, protocol.ErrLost) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWorkerWithin)
	defer cancel()
	if why := h.job.Waiting(ctx); why != "" {
		return fmt.Errorf("%w; the host says: %s", err, why)
	}
	return err
}

// close takes the Job away.
func (h *host) close() error {
	var err error
	if h.job != nil {
		err = h.job.Close()
	}
	if h.leave != nil {
		h.leave()
	}
	return err
}
