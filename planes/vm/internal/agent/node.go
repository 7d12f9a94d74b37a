package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// node is the agent of one node.
type node struct {
	*Agents
	name      string
	limiter   *limiter.Reloadable
	client    *api.Client
	domains   *domains
	source    cache.SharedIndexInformer // instances that this node owns
	target    cache.SharedIndexInformer // instances that come here
	all       cache.SharedIndexInformer // with ScopeCluster; nothing reads it
	loop      *loop.Loop
	events    record.EventRecorder
	log       *slog.Logger
	cancel    context.CancelFunc
	advertise chan struct{}
	synced    atomic.Bool // the watches have seen everything

	mu     sync.Mutex
	faulty map[types.UID]clock.Time // since when a fault holds an instance
	owned  map[string]int           // instances by uid that hold their pod
}

// newNodeLocked makes the agent of a node; callers hold mu.
func (a *Agents) newNodeLocked(name string) (*node, error) {
	n := &node{
		Agents: a, name: name, limiter: limiter.New(a.limiter), log: a.o.Log.With("node", name),
		advertise: make(chan struct{}, 1), faulty: map[types.UID]clock.Time{}, owned: map[string]int{},
	}
	var err error
	if n.client, err = a.newClient(n.limiter, "windtunnel-vm-agent"); err != nil {
		return nil, err
	}
	n.loop = loop.New(loop.Options{Name: "virt-handler-vm", Threads: a.o.Threads, Metrics: a.o.Registry.Queues(), Reconcile: n.reconcile, Log: n.log})
	n.domains = newDomains(a.machine, a.o.Model.Concurrency, n.loop.Queue.Add)
	n.source = n.client.Instances.Informer(api.LabelNode+"="+name, 0, nil)
	n.target = n.client.Instances.Informer(api.LabelTargetNode+"="+name, 0, nil)
	if a.o.Scope == ScopeCluster {
		n.all = n.client.Instances.Informer("", 0, nil)
		// The cost that counts is the server's and the decoding; what is kept
		// of an object that nobody reads would only fill this process.
		err = slim.Keep(n.all, slim.Always(func(vmi *api.Instance) *api.Instance { return &api.Instance{ObjectMeta: slim.Named(vmi)} }))
	}
	return n, err
}

// run is an agent's life on its node.
func (n *node) run(ctx context.Context) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	if n.o.Events {
		broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: n.client.Core.Events("")})
	}
	n.events = broadcaster.NewRecorder(n.scheme, corev1.EventSource{Component: "virt-handler", Host: n.name})
	var group sync.WaitGroup
	defer group.Wait()
	defer n.domains.wait.Wait()
	if err := n.startWatches(ctx, &group); err != nil {
		n.loop.Queue.ShutDown()
		return // the agent ends
	}
	n.synced.Store(true)
	group.Go(func() { n.runHeartbeat(ctx) })
	n.loop.Run(ctx)
}

// startWatches begins the node's watches and waits until they have seen everything.
func (n *node) startWatches(ctx context.Context, group *sync.WaitGroup) error {
	informers := []cache.SharedIndexInformer{n.source, n.target}
	if n.all != nil {
		informers = append(informers, n.all)
	}
	var heard []cache.DoneChecker // handlers run behind their caches
	for _, i := range informers[:2] {
		held := i == n.source
		handler, err := i.AddEventHandler(loop.Handler(func(old, now *api.Instance) { n.onInstance(old, now, held) }))
		if err != nil {
			return err
		}
		heard = append(heard, handler.HasSyncedChecker())
	}
	if err := loop.Start(ctx, group, informers...); err != nil {
		return err
	}
	if !cache.WaitFor(ctx, "", heard...) {
		return ctx.Err()
	}
	return nil
}

func (n *node) onInstance(old, now *api.Instance, held bool) {
	vmi := cmp.Or(now, old)
	switch {
	case held && now != nil:
		n.setHeld(vmi.UID, vmi.Status.Phase.OnNode())
	case held:
		n.setHeld(vmi.UID, false)
		n.domains.forgetMachine(vmi.UID)
		n.forgetFaults(vmi)
	}
	n.loop.Queue.Add(vmi.Namespace + "/" + vmi.Name)
}

// setHeld remembers whether an instance needs its pod; the end of that lets a pod
// go that is to be deleted.
func (n *node) setHeld(uid types.UID, yes bool) {
	n.mu.Lock()
	before := n.owned[string(uid)] > 0
	if yes {
		n.owned[string(uid)] = 1
	} else {
		delete(n.owned, string(uid))
	}
	n.mu.Unlock()
	if before && !yes {
		n.podsOf(string(uid))
	}
}

// isHeld says whether an instance on this node needs its pod.
func (n *node) isHeld(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.owned[uid] > 0
}

// shutDown has the instance of a pod that is to end looked at: the pod's launcher got
// SIGTERM from its kubelet and asks virt-handler for a graceful shutdown.
func (n *node) shutDown(pod *corev1.Pod) {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		n.loop.Queue.Add(pod.Namespace + "/" + owner.Name)
	}
}

// podEnds says whether an instance's launcher pod on this node is to end: there is one that
// is being deleted, and none beside it.
func (n *node) podEnds(vmi *api.Instance) bool {
	ends := false
	for _, pod := range slim.ByIndex[*corev1.Pod](n.pods, byOwner, string(vmi.UID)) {
		if pod.Spec.NodeName == n.name {
			if pod.DeletionTimestamp == nil {
				return false
			}
			ends = true
		}
	}
	return ends
}

// deviceCounts returns what the node says of its devices.
func (n *node) deviceCounts() corev1.ResourceList {
	count := *resource.NewQuantity(int64(n.o.MaxDevices), resource.DecimalSI)
	return corev1.ResourceList{api.ResourceKVM: count, api.ResourceTun: count, api.ResourceVhostNet: count}
}

// hasDevices says whether a node has its devices.
func (n *node) hasDevices(o *corev1.Node) bool {
	for name, want := range n.deviceCounts() {
		if got, ok := o.Status.Allocatable[name]; !ok || got.Cmp(want) != 0 {
			return false
		}
	}
	return true
}

func (n *node) askToAdvertise() {
	select {
	case n.advertise <- struct{}{}:
	default: // it is asked already
	}
}

// runHeartbeat advertises devices and renews the heartbeat every period, with the
// jitter of virt-handler: up to 2.2 periods.
func (n *node) runHeartbeat(ctx context.Context) {
	n.askToAdvertise()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.advertise:
			if err := n.patchDevices(ctx); err != nil && !n.waitAfterFailure(ctx, "advertise devices", err) {
				return
			} else if err != nil {
				n.askToAdvertise()
			}
		case <-timer.C:
			next := wait.Jitter(n.o.Heartbeat, 1.2)
			if err := n.patchHeartbeat(ctx); err != nil {
				n.log.Warn("heartbeat failed", "error", err)
				next = time.Second
			}
			timer.Reset(next)
		}
	}
}

// waitAfterFailure waits a second after a failure; false when ctx has ended.
func (n *node) waitAfterFailure(ctx context.Context, what string, err error) bool {
	if ctx.Err() == nil && !apierrors.IsNotFound(err) {
		n.log.Warn("call failed, goes again", "what", what, "error", err)
	}
	return clock.Sleep(ctx, time.Second) == nil
}

// patchDevices does what the device manager of a kubelet does with the devices
// that an agent's plugins register; the call is the kubelet's.
func (n *node) patchDevices(ctx context.Context) error {
	count := strconv.Itoa(n.o.MaxDevices)
	list := fmt.Sprintf(`{"%s":"%s","%s":"%s","%s":"%s"}`, api.ResourceKVM, count, api.ResourceTun, count, api.ResourceVhostNet, count)
	body := fmt.Appendf(nil, `{"status":{"capacity":%s,"allocatable":%s}}`, list, list)
	_, err := n.kubelet.Core.Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

func (n *node) patchHeartbeat(ctx context.Context) error {
	body := fmt.Appendf(nil, `{"metadata":{"labels":{"%s":"true","%s":"true"},"annotations":{"%s":"%s"}}}`,
		api.LabelSchedulable, api.LabelMachineType, api.AnnotationHeartbeat, n.o.Now().Format(time.RFC3339Nano))
	_, err := n.client.Core.Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	return err
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
