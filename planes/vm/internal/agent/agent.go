// Package agent is the node's part of the VM plane, what virt-handler does, for
// many simulated nodes in one process: each has its own client with its own
// rate limit, its own watches, work queue and machines. It says in node status
// how many machines fit, renews heartbeats, starts machines of instances that
// were handed over to its node, moves them, and cleans up after them.
//
// No guest runs: how long things take is a declared model (see Model), or, when
// asked, one empty QEMU process for each machine. It also ends launcher pods,
// as the kubelet of their node would once their machine is off; a fleet that
// deletes them earlier is served too, see docs/how-to/reproducing-kubevirt-density.md.
package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// Agents are the agents of one process.
type Agents struct {
	o       Options
	scheme  *runtime.Scheme
	kubelet *api.Client // of the nodes' kubelets: without a rate limit, as their calls are not the agents'
	machine machine
	dice    dice
	hit     labels.Selector

	nodeInformer, pods, installations cache.SharedIndexInformer
	podLoop                           *loop.Loop

	mu      sync.Mutex
	limiter limiter.Rate
	byNode  map[string]*node
	wait    sync.WaitGroup
}

const byOwner = "owner" // index of pods: uid of the instance

// Run keeps an agent on every selected node that exists until ctx ends.
func Run(ctx context.Context, o Options) error {
	a, err := newAgents(o)
	if err != nil {
		return err
	}
	err = o.Work(ctx, func(ctx context.Context, g *process.Group) error {
		if err := a.addHandlers(ctx); err != nil {
			return err
		}
		if err := g.Sync(ctx, a.pods, a.installations, a.nodeInformer); err != nil {
			return err
		}
		g.Run(ctx, a.podLoop)
		o.Log.Info("agents run", "limiter", o.Limiter.String(), "scope", o.Scope, "maxDevices", o.MaxDevices, "model", fmt.Sprintf("%+v", o.Model))
		return nil
	})
	a.wait.Wait() // no handler adds nodes any more
	if q, ok := a.machine.(*qemu); ok {
		q.Close()
	}
	return err
}

func newAgents(o Options) (*Agents, error) {
	a := &Agents{o: o, scheme: api.Scheme(), dice: dice{seed: o.Seed, model: o.Model}, limiter: o.Limiter, byNode: map[string]*node{}}
	var err error
	if a.hit, err = labels.Parse(o.Faults.Selector); err != nil {
		return nil, fmt.Errorf("faults: selector: %w", err)
	}
	if a.machine, err = a.newHypervisor(); err != nil {
		return nil, err
	}
	if a.kubelet, err = a.newClient(nil, "windtunnel-vm-kubelet"); err != nil {
		return nil, err
	}
	a.nodeInformer = resource.New[*corev1.Node](a.kubelet.Core.RESTClient(), "nodes").Informer(install.Own(o.Nodes), 0, nil)
	a.pods = resource.New[*corev1.Pod](a.kubelet.Core.RESTClient(), "pods").Informer(api.LabelApp+"="+api.Launcher, 0, cache.Indexers{byOwner: func(o any) ([]string, error) {
		return []string{o.(*corev1.Pod).Labels[api.LabelCreatedBy]}, nil
	}})
	a.installations = a.kubelet.Installations.Informer("", 0, nil)
	a.podLoop = o.Loop("kubelet-pods", 4, a.endPod)
	return a, nil
}

func (a *Agents) newHypervisor() (machine, error) {
	if a.o.Hypervisor == HypervisorQEMU {
		return newQEMU(a.dice)
	}
	return modelled{a.dice}, nil
}

// newClient makes a client. One with a rate limit is an agent's: its requests are
// counted.
func (a *Agents) newClient(l *limiter.Reloadable, name string) (*api.Client, error) {
	config := rest.CopyConfig(a.o.Config)
	config.RateLimiter, config.QPS, config.UserAgent, config.Timeout = nil, -1, name, 0
	if l != nil {
		config.RateLimiter = l
		a.o.Registry.Watch(config)
	}
	c, err := api.NewClient(config, a.scheme)
	if err != nil {
		return nil, fmt.Errorf("vm-agent: %w", err)
	}
	return c, nil
}

// addHandlers say what events of the process's own watches do.
func (a *Agents) addHandlers(ctx context.Context) error {
	return errors.Join(
		loop.Watch(a.nodeInformer, func(old, now *corev1.Node) {
			switch {
			case now == nil:
				a.removeNode(old.Name)
			case old == nil:
				a.addNode(ctx, now)
			default:
				a.updateNode(ctx, now)
			}
		}),
		loop.Watch(a.pods, func(_, now *corev1.Pod) {
			if now != nil {
				a.onPod(now)
			}
		}),
		loop.Watch(a.installations, a.onInstallation),
	)
}

func (a *Agents) addNode(ctx context.Context, n *corev1.Node) {
	if !a.o.InShard(n.Name) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byNode[n.Name] != nil || ctx.Err() != nil {
		return
	}
	one, err := a.newNodeLocked(n.Name)
	if err != nil {
		a.o.Log.Error("no agent on a node", "node", n.Name, "error", err)
		return
	}
	nodeContext, cancel := context.WithCancel(ctx)
	one.cancel = cancel
	a.byNode[n.Name] = one
	a.wait.Go(func() {
		defer cancel()
		one.run(nodeContext)
	})
}

// updateNode begins an agent on a node that was missed, and advertises anew
// where somebody reset the node's devices.
func (a *Agents) updateNode(ctx context.Context, n *corev1.Node) {
	a.addNode(ctx, n)
	if one := a.agentOn(n.Name); one != nil && !one.hasDevices(n) {
		one.askToAdvertise()
	}
}

func (a *Agents) removeNode(name string) {
	a.mu.Lock()
	one := a.byNode[name]
	delete(a.byNode, name)
	a.mu.Unlock()
	if one != nil {
		one.cancel()
	}
}

// agentOn returns the agent of a node; nil if there is none here.
func (a *Agents) agentOn(name string) *node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byNode[name]
}

// onInstallation puts the rate limit that the KubeVirt object says in force.
func (a *Agents) onInstallation(_, kv *api.Installation) {
	if kv == nil {
		return // it was deleted: the limit stays
	}
	b := kv.Spec.Configuration.Handler.RestClient.RateLimiter.TokenBucketRateLimiter
	if b == nil {
		return
	}
	rate := limiter.Rate{QPS: b.QPS, Burst: b.Burst}
	if err := rate.Validate(); err != nil {
		a.o.Log.Warn("rate limit of the KubeVirt object not taken", "error", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limiter == rate {
		return
	}
	a.limiter = rate
	for _, n := range a.byNode {
		n.limiter.Change(rate)
	}
	a.o.Log.Info("rate limit changed", "limiter", rate.String())
}

// onPod queues launcher pods that are to end.
func (a *Agents) onPod(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil && a.o.InShard(pod.Spec.NodeName) {
		a.podLoop.Queue.Add(loop.Key(pod))
	}
}

// endPod deletes a launcher pod for good, as a kubelet does when its last
// container has ended: when no machine is in it any more.
func (a *Agents) endPod(ctx context.Context, key string) error {
	pod := slim.Get[*corev1.Pod](a.pods, key)
	if pod == nil || pod.DeletionTimestamp == nil {
		return nil
	}
	n := a.agentOn(pod.Spec.NodeName)
	if n == nil && pod.Spec.NodeName != "" && !slim.Has(a.nodeInformer, pod.Spec.NodeName) {
		return nil // another's, or gone
	}
	if pod.Spec.NodeName != "" && (n == nil || !n.synced.Load()) { // its agent is about to begin
		a.podLoop.Queue.AddAfter(key, 100*time.Millisecond)
		return nil
	}
	if n != nil && n.isHeld(pod.Labels[api.LabelCreatedBy]) {
		n.shutDown(pod)
		return nil // the machine's end queues the pod again
	}
	zero := int64(0)
	err := a.kubelet.Core.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	return ignoreMissing(err)
}

// podsOf queues the pods of an instance.
func (a *Agents) podsOf(uid string) {
	for _, pod := range slim.ByIndex[*corev1.Pod](a.pods, byOwner, uid) {
		a.onPod(pod)
	}
}
