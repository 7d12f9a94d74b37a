package controller

import (
	"errors"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// startEvents lets event objects go out through the controller's own client, where
// they take their share of its rate limit, as KubeVirt's do.
func (c *Controller) startEvents(b record.EventBroadcaster) {
	if c.o.Events {
		b.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: c.client.Core.Events("")})
	}
	c.events = b.NewRecorder(c.scheme, corev1.EventSource{Component: "virtualmachine-controller"})
}

// addHandlers say which keys an event puts into which queue.
func (c *Controller) addHandlers() error {
	return errors.Join(
		loop.Watch(c.instances, c.onInstance), loop.Watch(c.launchers, c.onPod),
		loop.WatchEach(c.machines, c.addMachine), loop.WatchEach(c.migrations, c.addMigration), loop.WatchEach(c.nodes, c.addNode),
		loop.Watch(c.installations, c.onInstallation),
	)
}

func (c *Controller) addMachine(vm *api.Machine) {
	if key := vm.Namespace + "/" + vm.Name; c.o.InShard(key) {
		c.machineLoop.Queue.Add(key)
		if c.o.Rules.Machine.Snapshots != SnapshotNone {
			c.snapshotLoop.Queue.Add(key)
		}
	}
}

func (c *Controller) addMigration(m *api.Migration) {
	if c.o.InShard(m.InstanceKey()) {
		c.migrationLoop.Queue.Add(m.Namespace + "/" + m.Name)
	}
}

func (c *Controller) addNode(n *corev1.Node) {
	if c.o.InShard(n.Name) {
		c.nodeLoop.Queue.Add(n.Name)
	}
}

func (c *Controller) onInstance(old, now *api.Instance) {
	if now == nil {
		c.onInstanceGone(old)
		return
	}
	key := now.Namespace + "/" + now.Name
	defer c.unseen.Shown(key, "VirtualMachineInstance", now)
	if c.o.InShard(key) { // each instance is counted by one shard
		c.phases.observeInstance(old, now)
	}
	if owner := metav1.GetControllerOf(now); owner != nil && old == nil {
		c.children.Seen(now.Namespace+"/"+owner.Name, "create/"+now.Name)
	}
	if old != nil && c.o.DropNoopEvents && isSame(old, now) && (old.DeletionTimestamp == nil) == (now.DeletionTimestamp == nil) {
		return
	}
	c.addInstance(now)
	if node := c.o.nodeOf(now); node != "" && c.o.InShard(node) {
		c.nodeLoop.Queue.Add(node)
	}
}

// nodeOf returns the node that an event of an instance queues; "" if there is none. As in
// KubeVirt, the end of an instance is no such event.
func (o *Options) nodeOf(vmi *api.Instance) string {
	if o.NodeQueue == NodesByNode {
		return ""
	}
	return vmi.Status.NodeName
}

func (c *Controller) onInstanceGone(vmi *api.Instance) {
	c.phases.forgetInstance(vmi.UID)
	if owner := metav1.GetControllerOf(vmi); owner != nil {
		c.children.Seen(vmi.Namespace+"/"+owner.Name, "delete/"+string(vmi.UID))
	}
	c.addInstance(vmi)
	c.unseen.Gone(vmi.Namespace+"/"+vmi.Name, "VirtualMachineInstance", vmi)
}

// addInstance queues an instance, its machine and its migrations.
func (c *Controller) addInstance(vmi *api.Instance) {
	key := vmi.Namespace + "/" + vmi.Name
	if !c.o.InShard(key) {
		return
	}
	c.instanceLoop.Queue.Add(key)
	if owner := metav1.GetControllerOf(vmi); owner != nil {
		c.machineLoop.Queue.Add(vmi.Namespace + "/" + owner.Name)
	}
	c.addMigrations(key)
}

func (c *Controller) addMigrations(instance string) {
	for _, m := range slim.ByIndex[*api.Migration](c.migrations, byInstance, instance) {
		c.addMigration(m)
	}
}

func (c *Controller) onPod(old, now *corev1.Pod) {
	if now == nil {
		c.onPodGone(old)
		return
	}
	key, ok := c.ownerKey(now)
	if !ok {
		return
	}
	defer c.unseen.Shown(key, "Pod", now)
	if old != nil && c.o.DropNoopEvents && samePod(old, now) {
		return
	}
	if job := now.Labels[api.LabelMigrationJob]; job != "" {
		c.pods.Seen("migration/"+job, "create/"+now.Name)
	}
	c.pods.Seen(key, "create/"+now.Name)
	if now.DeletionTimestamp != nil {
		c.pods.Seen(key, "delete/"+string(now.UID))
	}
	c.instanceLoop.Queue.Add(key)
	c.addMigrations(key)
}

func (c *Controller) onPodGone(pod *corev1.Pod) {
	if key, ok := c.ownerKey(pod); ok {
		c.pods.Seen(key, "delete/"+string(pod.UID))
		c.instanceLoop.Queue.Add(key)
		c.addMigrations(key)
		c.unseen.Gone(key, "Pod", pod)
	}
}

// ownerKey returns the key of the instance that a launcher pod belongs to.
func (c *Controller) ownerKey(pod *corev1.Pod) (string, bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "VirtualMachineInstance" {
		return "", false
	}
	key := pod.Namespace + "/" + owner.Name
	return key, c.o.InShard(key)
}

// samePod says that nothing changed that the controller looks at.
func samePod(a, b *corev1.Pod) bool {
	return a.Status.Phase == b.Status.Phase && a.Spec.NodeName == b.Spec.NodeName &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		reflect.DeepEqual(a.Status.Conditions, b.Status.Conditions) &&
		reflect.DeepEqual(a.Status.ContainerStatuses, b.Status.ContainerStatuses)
}

// onInstallation puts the rate limit that the KubeVirt object says in force.
func (c *Controller) onInstallation(_, kv *api.Installation) {
	if kv == nil {
		return // it was deleted: the limit stays
	}
	b := kv.Spec.Configuration.Controller.RestClient.RateLimiter.TokenBucketRateLimiter
	if b == nil {
		return
	}
	rate := limiter.Rate{QPS: b.QPS, Burst: b.Burst}
	if err := rate.Validate(); err != nil {
		c.o.Log.Warn("rate limit of the KubeVirt object not taken", "error", err)
	} else if c.limiter.Change(rate) {
		c.o.Log.Info("rate limit changed", "limiter", rate.String())
	}
}
