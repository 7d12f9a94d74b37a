package agent

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// completionPerGiB is how long a migration may take for each GiB of the guest.
const completionPerGiB = 150 * time.Second

func labelsOf(vmi *api.Instance) labels.Set { return vmi.Labels }

// guestAddress makes up an address for a guest.
func (n *node) guestAddress(vmi *api.Instance) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(vmi.UID))
	s := h.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", byte(s>>16), byte(s>>8), byte(s)|1)
}

// activeMigration returns the migration of an instance that is under way; nil for none.
func activeMigration(vmi *api.Instance) *api.MigrationState {
	m := vmi.Status.MigrationState
	if m == nil || m.Completed || m.Failed || vmi.DeletionTimestamp != nil || vmi.Status.Phase != api.Running {
		return nil
	}
	return m
}

// acceptMigration says that this node is ready for an instance that is to come.
func (n *node) acceptMigration(ctx context.Context, vmi *api.Instance) error {
	m := activeMigration(vmi)
	if m == nil || m.TargetNode != n.name || m.TargetNodeAddress != "" {
		return nil
	}
	ready := *m
	ready.TargetNodeAddress = n.guestAddress(vmi) + ":49152"
	return n.writeMigration(ctx, vmi, &ready)
}

// startMigration moves an instance away when its target is ready. A migration that an
// earlier agent began is done again: it has left nothing on the target.
func (n *node) startMigration(ctx context.Context, vmi *api.Instance) error {
	m := activeMigration(vmi)
	if m == nil || m.SourceNode != n.name || m.TargetNodeAddress == "" {
		return nil
	}
	if m.StartTimestamp == nil {
		begun := *m
		begun.StartTimestamp = new(metav1.NewTime(n.o.Now().Truncate(time.Second)))
		return n.writeMigration(ctx, vmi, &begun)
	}
	n.domains.runJob(ctx, vmi, string(m.MigrationUID), func(ctx context.Context) { n.runMigration(ctx, vmi) })
	return nil
}

// runMigration takes the time of a migration, then gives the instance to its target.
func (n *node) runMigration(ctx context.Context, vmi *api.Instance) {
	takes := n.o.Model.migrationTime(vmi)
	gib := max(1, float64(vmi.Spec.GuestMemory())/(1<<30))
	limit := time.Duration(gib * float64(completionPerGiB))
	if clock.Sleep(ctx, min(takes, limit)) != nil {
		return
	}
	for {
		done, err := n.handOver(ctx, vmi, takes > limit)
		if done {
			return
		}
		if !n.waitAfterFailure(ctx, "end a migration", err) {
			return
		}
	}
}

// handOver writes the end of a migration; done when there is nothing to do.
func (n *node) handOver(ctx context.Context, vmi *api.Instance, failed bool) (done bool, err error) {
	now, err := n.client.Instances.Get(ctx, vmi.Namespace, vmi.Name)
	if err != nil {
		return ignoreMissing(err) == nil, err
	}
	if now.UID != vmi.UID {
		return true, nil
	}
	if n.hasDeparted(now) {
		err := n.finishDeparture(ctx, now)
		return err == nil, err
	}
	m := activeMigration(now)
	if s := n.domains.stateOf(vmi.UID); m == nil || m.SourceNode != n.name || s >= stopping {
		return true, nil // somebody else's, or shut down in the meantime
	}
	end := *m
	end.EndTimestamp = new(metav1.NewTime(n.o.Now().Truncate(time.Second)))
	end.Completed, end.Failed = !failed, failed
	p := (&api.Patch{}).Change("/status/migrationState", m, &end)
	label := &api.Patch{}
	if !failed {
		p.Change("/status/nodeName", now.Status.NodeName, m.TargetNode)
		label = relabelPatch(now, m)
	}
	if err := n.patchInstance(ctx, now, p, label); err != nil {
		return false, err
	}
	if !failed {
		n.releaseMachine(ctx, now)
	}
	return true, nil
}

// relabelPatch gives an instance the label of the node to which it has moved.
func relabelPatch(vmi *api.Instance, m *api.MigrationState) *api.Patch {
	moved := maps.Clone(vmi.Labels)
	moved[api.LabelNode] = m.TargetNode
	delete(moved, api.LabelTargetNode)
	return (&api.Patch{}).Change("/metadata/labels", vmi.Labels, moved)
}

// hasDeparted tells whether an instance has moved away and has this node's label still: with
// a status subresource these are two writes, and the second may have failed.
func (n *node) hasDeparted(vmi *api.Instance) bool {
	m := vmi.Status.MigrationState
	return m != nil && m.Completed && !m.Failed && m.SourceNode == n.name && vmi.Status.NodeName == m.TargetNode && vmi.Labels[api.LabelNode] == n.name
}

// finishDeparture writes what was left of a move.
func (n *node) finishDeparture(ctx context.Context, vmi *api.Instance) error {
	if _, err := n.client.Instances.Patch(ctx, vmi, relabelPatch(vmi, vmi.Status.MigrationState)); err != nil {
		return ignoreMissing(err)
	}
	n.releaseMachine(ctx, vmi)
	return nil
}

// releaseMachine lets go of a machine that has moved away.
func (n *node) releaseMachine(ctx context.Context, vmi *api.Instance) {
	n.domains.forgetMachine(vmi.UID)
	n.endSource(ctx, vmi)
}

// patchInstance sends a change of the status and one of the rest: together, or where
// instances have a status subresource one after the other.
func (n *node) patchInstance(ctx context.Context, vmi *api.Instance, status, rest *api.Patch) error {
	if !n.o.StatusSubresource {
		_, err := n.client.Instances.Patch(ctx, vmi, status.And(rest))
		return err
	}
	if _, err := n.client.Instances.Patch(ctx, vmi, status, "status"); err != nil || rest.Empty() {
		return err
	}
	_, err := n.client.Instances.Patch(ctx, vmi, rest)
	return err
}

// endSource says of the launcher pod that was left that its containers ended,
// as its kubelet would.
func (n *node) endSource(ctx context.Context, vmi *api.Instance) {
	for _, pod := range slim.ByIndex[*corev1.Pod](n.pods, byOwner, string(vmi.UID)) {
		if pod.Spec.NodeName != n.name {
			continue
		}
		body := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":"Succeeded"}}`, pod.UID)
		if _, err := n.kubelet.Core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); ignoreMissing(err) != nil {
			n.log.Warn("pod of a machine that moved away not ended", "pod", pod.Name, "error", err)
		}
	}
}

// writeMigration writes the state of a migration.
func (n *node) writeMigration(ctx context.Context, vmi *api.Instance, m *api.MigrationState) error {
	return ignoreMissing(n.patchInstance(ctx, vmi, (&api.Patch{}).Change("/status/migrationState", vmi.Status.MigrationState, m), &api.Patch{}))
}
