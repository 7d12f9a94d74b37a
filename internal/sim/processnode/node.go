package processnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

const (
	leaseNamespace = corev1.NamespaceNodeLease
	leaseSeconds   = 40
	renewEvery     = 10 * time.Second
	maxPods        = 110
	hostIP         = "127.0.0.1" // what pods would be reached at, if they were
	endWithin      = 10 * time.Second
)

// machineCapacity is what this machine has.
func machineCapacity() (corev1.ResourceList, error) {
	m := usage.Machine()
	if m.MemoryBytes == 0 {
		return nil, errors.New("how much memory this machine has is not known: /proc/meminfo has no MemTotal")
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(m.Cores), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(m.MemoryBytes), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}, nil
}

func (k *kubelet) metaNow() metav1.Time {
	return metav1.NewTime(k.options.Clock.Wall(k.options.Clock.Now()))
}

// newNode is the object that the node is registered as.
func (k *kubelet) newNode() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.options.Node, Labels: map[string]string{
		nodeLabel: "processes", object.RunLabel: k.options.Run,
		corev1.LabelHostname: k.options.Node, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}}}
	if !k.options.Untainted {
		n.Spec.Taints = []corev1.Taint{{Key: Taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	n.Status = k.nodeStatus()
	return n
}

func (k *kubelet) nodeStatus() corev1.NodeStatus {
	now := k.metaNow()
	condition := func(t corev1.NodeConditionType, s corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: s, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return corev1.NodeStatus{
		Capacity: k.capacity, Allocatable: k.capacity,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "NotLooked"), condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "NotLooked"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "NotLooked"), condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostIP}, {Type: corev1.NodeHostName, Address: k.options.Node}},
		NodeInfo:  corev1.NodeSystemInfo{OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, ContainerRuntimeVersion: "process://1"},
	}
}

// registerNode makes the node, or takes over what a kubelet of this kind has left. Its
// lease is made first: a node without one is not looked after.
func (k *kubelet) registerNode(ctx context.Context) error {
	nodes := k.options.Client.CoreV1().Nodes()
	old, err := nodes.Get(ctx, k.options.Node, metav1.GetOptions{})
	switch {
	case err == nil && old.Labels[nodeLabel] == "":
		return fmt.Errorf("node %s: %w", k.options.Node, ErrTaken)
	case err == nil:
		if err := k.refuseLiving(ctx); err != nil {
			return err
		}
		if err := nodes.Delete(ctx, k.options.Node, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}}); err != nil {
			return fmt.Errorf("remove the node of before: %w", err)
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read node %s: %w", k.options.Node, err)
	}
	made, err := nodes.Create(ctx, k.newNode(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register node %s: %w", k.options.Node, err)
	}
	k.node = made.UID
	made.Status = k.nodeStatus() // a real server has left out some of it
	if _, err := nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("register node %s: %w", k.options.Node, err)
	}
	return k.renewLease(ctx)
}

// refuseLiving fails where a kubelet that still lives has the node.
func (k *kubelet) refuseLiving(ctx context.Context) error {
	l, err := k.options.Client.CoordinationV1().Leases(leaseNamespace).Get(ctx, k.options.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the node's lease: %w", err)
	}
	if l.Spec.RenewTime != nil && k.metaNow().Sub(l.Spec.RenewTime.Time) < leaseSeconds*time.Second {
		return fmt.Errorf("node %s: %w: its lease was renewed less than %d s ago", k.options.Node, ErrTaken, leaseSeconds)
	}
	return nil
}

// renewLease renews the node's lease, or makes it.
func (k *kubelet) renewLease(ctx context.Context) error {
	leases := k.options.Client.CoordinationV1().Leases(leaseNamespace)
	now := metav1.NewMicroTime(k.metaNow().Time)
	l, err := leases.Get(ctx, k.options.Node, metav1.GetOptions{})
	seconds := int32(leaseSeconds)
	own := metav1.ObjectMeta{
		Name: k.options.Node, Namespace: leaseNamespace, Labels: map[string]string{object.RunLabel: k.options.Run},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.options.Node, UID: k.node}},
	}
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: own,
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &k.options.Node, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}, metav1.CreateOptions{})
	} else if err == nil { // that of a kubelet before this one has another label, and the node that is gone as its owner
		l.Labels, l.OwnerReferences, l.Spec.RenewTime = own.Labels, own.OwnerReferences, &now
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", k.options.Node, err)
	}
	return nil
}

// keepAlive renews the lease until ctx ends.
func (k *kubelet) keepAlive(ctx context.Context) {
	for clock.Sleep(ctx, renewEvery) == nil {
		if err := k.renewLease(ctx); err != nil && ctx.Err() == nil {
			k.options.Log.Warn("the node's lease was not renewed", slog.Any("error", err))
		}
	}
}

// removeNode removes node and lease, if they were made.
func (k *kubelet) removeNode() error {
	if k.node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	err := k.options.Client.CoreV1().Nodes().Delete(ctx, k.options.Node, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &k.node}})
	if err = ignoreMissing(err); err != nil {
		return fmt.Errorf("remove node %s: %w", k.options.Node, err)
	}
	err = k.options.Client.CoordinationV1().Leases(leaseNamespace).Delete(ctx, k.options.Node, metav1.DeleteOptions{})
	return ignoreMissing(err)
}
