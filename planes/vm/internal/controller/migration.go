package controller

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// MigrationLimits bound migrations.
type MigrationLimits struct {
	PerCluster    int           // at the same time
	PerSource     int           // at the same time from one node
	Unschedulable time.Duration // until a target pod that fits nowhere is given up
	Pending       time.Duration // until any target pod that does not run is given up
	Keep          int           // finished ones of each instance
}

// DefaultMigrationLimits are KubeVirt's.
func DefaultMigrationLimits() MigrationLimits {
	return MigrationLimits{PerCluster: 5, PerSource: 2, Unschedulable: 5 * time.Minute, Pending: 15 * time.Minute, Keep: 5}
}

// moveSituation is what is known of one migration.
type moveSituation struct {
	m      *api.Migration
	vmi    *api.Instance // nil if it is gone
	target *corev1.Pod   // nil before it is made
	busy   bool          // the limits are reached
	now    time.Time
}

// move is what a migration needs next.
type move struct {
	phase  api.Phase
	target bool                // create the target pod
	state  *api.MigrationState // to be written to the instance; with it the label of the target node
	retry  time.Duration
}

// nextMove says what follows from a situation.
func (s moveSituation) nextMove() move {
	same := move{phase: s.m.Status.Phase}
	if s.m.Status.Phase.Final() {
		return same
	}
	switch {
	case s.m.Status.Phase == "":
		return move{phase: api.Pending}
	case s.vmi == nil, s.vmi.DeletionTimestamp != nil, s.vmi.Status.Phase.Final():
		return move{phase: api.Failed}
	case s.m.Status.Phase == api.Pending && s.vmi.Status.Phase != api.Running:
		return same // it does not run yet, or the cache has not heard of it
	}
	state := s.vmi.Status.MigrationState
	own := state != nil && state.MigrationUID == s.m.UID
	switch s.m.Status.Phase {
	case api.Pending:
		return s.placeMigration(state, own)
	case api.Scheduling:
		return s.waitForTarget()
	case api.Scheduled:
		return s.handOver(own)
	}
	return s.watchState(state, own)
}

// placeMigration begins when limits allow it and the instance is not moving already.
func (s moveSituation) placeMigration(state *api.MigrationState, own bool) move {
	moving := state != nil && !own && !state.Completed && !state.Failed
	switch {
	case s.target != nil:
		return move{phase: api.Scheduling}
	case s.busy, moving:
		return move{phase: api.Pending, retry: 5 * time.Second}
	}
	return move{phase: api.Pending, target: true}
}

func (s moveSituation) waitForTarget() move {
	switch {
	case s.target == nil, launcher.Down(s.target):
		return move{phase: api.Failed}
	case launcher.Ready(s.target):
		return move{phase: api.Scheduled}
	}
	return move{phase: api.Scheduling, retry: 30 * time.Second}
}

// handOver tells the target's agent through the instance that it is wanted.
func (s moveSituation) handOver(own bool) move {
	if s.target == nil || launcher.Down(s.target) {
		return move{phase: api.Failed}
	}
	if own {
		return move{phase: api.PreparingTarget}
	}
	return move{phase: api.Scheduled, state: &api.MigrationState{
		MigrationUID: s.m.UID, SourceNode: s.vmi.Status.NodeName,
		TargetNode: s.target.Spec.NodeName, TargetPod: s.target.Name,
	}}
}

// watchState follows what the two agents write.
func (s moveSituation) watchState(state *api.MigrationState, own bool) move {
	switch {
	case !own || state.Failed:
		return move{phase: api.Failed}
	case state.Completed:
		return move{phase: api.Succeeded}
	case state.StartTimestamp != nil:
		return move{phase: api.Running}
	case s.target == nil || launcher.Down(s.target):
		failed := *state
		failed.Failed = true
		return move{phase: api.Failed, state: &failed}
	case state.TargetNodeAddress != "":
		return move{phase: api.TargetReady}
	}
	return move{phase: s.m.Status.Phase}
}

// isStuck says that the target pod has waited for too long.
func (s moveSituation) isStuck(l MigrationLimits) bool {
	if s.m.Status.Phase != api.Scheduling || s.target == nil {
		return false
	}
	age := s.now.Sub(s.target.CreationTimestamp.Time)
	i := slices.IndexFunc(s.target.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	nowhere := i >= 0 && s.target.Status.Conditions[i].Reason == corev1.PodReasonUnschedulable
	return age > l.Pending || nowhere && age > l.Unschedulable
}

// reconcileMigration brings one migration a step further.
func (c *Controller) reconcileMigration(ctx context.Context, key string) error {
	m := slim.Get[*api.Migration](c.migrations, key)
	if m == nil {
		return nil
	}
	if m.Status.Phase == api.Pending {
		c.placing.Lock() // two workers must not take the last place both
		defer c.placing.Unlock()
	}
	if m.DeletionTimestamp != nil && !m.Status.Phase.Final() && m.Status.Phase.Unprocessed() {
		return nil // it never began
	}
	s := c.moveSituation(m)
	next := s.nextMove()
	if s.isStuck(c.o.Migrations) {
		next = move{phase: api.Failed}
	}
	if next.retry > 0 {
		c.migrationLoop.Queue.AddAfter(key, next.retry)
	}
	if err := c.doMove(ctx, s, next); err != nil {
		return err
	}
	if m.Status.Phase.Final() {
		return c.forgetOld(ctx, m)
	}
	out := m.Copy()
	out.Status.Enter(next.phase, s.now)
	if reflect.DeepEqual(out.Status, m.Status) {
		return nil
	}
	_, err := c.client.Migrations.Update(ctx, out, "status")
	return ignoreMissing(err)
}

func (c *Controller) moveSituation(m *api.Migration) moveSituation {
	s := moveSituation{m: m, now: c.o.Now(), vmi: slim.Get[*api.Instance](c.instances, m.InstanceKey())}
	if s.vmi == nil {
		return s
	}
	for _, pod := range c.situationOf(s.vmi).pods {
		if pod.Labels[api.LabelMigrationJob] == string(m.UID) {
			s.target = pod
		}
	}
	if m.Status.Phase == api.Pending && s.target == nil {
		s.busy = c.limitsReached(s.vmi.Status.NodeName)
	}
	return s
}

// limitsReached says whether the limits of running migrations are reached. A migration
// that has its target pod counts, whatever its cached phase says.
func (c *Controller) limitsReached(source string) bool {
	cluster, here := 0, 0
	for _, m := range slim.All[*api.Migration](c.migrations) {
		if m.Status.Phase.Final() || m.Status.Phase.Unprocessed() && !c.hasTarget(m) {
			continue
		}
		cluster++
		if vmi := slim.Get[*api.Instance](c.instances, m.InstanceKey()); vmi != nil && vmi.Status.NodeName == source {
			here++
		}
	}
	return cluster >= c.o.Migrations.PerCluster || here >= c.o.Migrations.PerSource
}

// hasTarget says that a migration has its target pod or has asked for it.
func (c *Controller) hasTarget(m *api.Migration) bool {
	pods := slim.ByIndex[*corev1.Pod](c.launchers, byJob, string(m.UID))
	return len(pods) > 0 || !c.pods.Satisfied("migration/"+string(m.UID))
}

// doMove does what a migration needs besides its own status.
func (c *Controller) doMove(ctx context.Context, s moveSituation, next move) error {
	token := "migration/" + string(s.m.UID)
	switch {
	case next.target && c.pods.Satisfied(token):
		pod := launcher.Target(s.vmi, s.m, c.o.Launcher)
		return c.createPod(ctx, token, pod, s.vmi)
	case next.state != nil:
		out := s.vmi.Copy()
		out.Status.MigrationState = next.state
		if !next.state.Failed {
			out.Labels = withText(out.Labels, api.LabelTargetNode, next.state.TargetNode)
		}
		return c.writeInstance(ctx, s.vmi, out)
	case next.phase == api.Failed && s.target != nil && s.target.DeletionTimestamp == nil && s.vmi.Status.NodeName != s.target.Spec.NodeName:
		return ignoreMissing(c.client.Core.Pods(s.target.Namespace).Delete(ctx, s.target.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.target.UID))}))
	}
	return nil
}

// forgetOld deletes the oldest finished migrations of an instance beyond those kept.
func (c *Controller) forgetOld(ctx context.Context, m *api.Migration) error {
	done := slim.ByIndex[*api.Migration](c.migrations, byInstance, m.InstanceKey())
	done = slices.DeleteFunc(done, func(m *api.Migration) bool { return !m.Status.Phase.Final() || m.DeletionTimestamp != nil })
	slices.SortFunc(done, func(a, b *api.Migration) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var failed error
	for _, x := range done[:max(0, len(done)-c.o.Migrations.Keep)] {
		failed = errors.Join(failed, ignoreMissing(c.client.Migrations.Delete(ctx, x)))
	}
	return failed
}
