// Package lease lets one of several equal processes work at a time: client-go's leader
// election, with the times that Kubernetes' own components, KubeVirt and Kosmos have.
//
// A lease is not given back: the next process works when it has expired, as after a kill. A
// process that cannot renew its lease works on until it sees that another has it. The real
// ones end, and a kubelet starts them again; here nothing would.
package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// The times of an election.
const (
	duration = 15 * time.Second // after the last renewal, another process takes the lease
	deadline = 10 * time.Second // without a renewal, the holder looks whether another has the lease
	period   = 2 * time.Second  // between renewals, and between attempts of those who wait
)

// ErrLost says that a process has ended its work because another has its lease.
var ErrLost = errors.New("another process has taken the lease")

// Lease is what processes of a name are elected by.
type Lease struct {
	Name   string       // of the processes; those of each shard have a lease of their own
	Config *rest.Config // of the client that reads and writes the lease
	Reads  bool         // it is read before each write, as by older releases of client-go
}

// Hold works as soon as it has the lease and returns when the work has: because it ended, ctx
// did, or the lease was lost, which ends the context of the work.
func (l Lease) Hold(ctx context.Context, e process.Env, work func(context.Context) error) error {
	name := l.Name
	if e.Shards > 1 {
		name = fmt.Sprintf("%s-%d", name, e.Shard+1)
	}
	if run := install.Run(); run != "" {
		name += "-" + run
	}
	client, err := coordination.NewForConfig(l.Config)
	if err != nil {
		return fmt.Errorf("lease %s: %w", name, err)
	}
	host, _ := os.Hostname() // the identity is unique without it
	var lock resourcelock.Interface = &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	if l.Reads {
		lock = reading{lock}
	}
	e.Log.Info("waits for its lease", "lease", name)
	return hold(ctx, name, lock, work)
}

// hold works while it has a lock.
func hold(ctx context.Context, name string, lock resourcelock.Interface, work func(context.Context) error) error {
	own, cancel := context.WithCancel(ctx)
	leads, over := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		defer cancel()
		over <- elect(own, name, lock, leads)
	}()
	select {
	case <-own.Done():
		return <-over
	case <-leads:
	}
	failed := work(own)
	cancel()
	return errors.Join(failed, <-over)
}

// elect renews a lock until ctx ends or another process has it, and says when it has it.
func elect(ctx context.Context, name string, lock resourcelock.Interface, leads chan struct{}) error {
	for {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Name: name, Lock: lock, LeaseDuration: duration, RenewDeadline: deadline, RetryPeriod: period,
			Callbacks: leaderelection.LeaderCallbacks{OnStoppedLeading: func() {}, OnStartedLeading: func(context.Context) {
				select {
				case leads <- struct{}{}:
				default: // it works already
				}
			}},
		})
		if err != nil {
			return fmt.Errorf("lease %s: %w", name, err)
		}
		elector.Run(ctx)
		for ctx.Err() == nil { // it could not renew: whose is it?
			record, _, err := lock.Get(ctx)
			if err == nil && record.HolderIdentity != lock.Identity() {
				return fmt.Errorf("lease %s: %w", name, ErrLost)
			}
			if err == nil || apierrors.IsNotFound(err) {
				break
			}
			_ = clock.Sleep(ctx, period)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// reading is a lock that is read before each write.
type reading struct{ resourcelock.Interface }

// Update reads and writes the lock.
func (r reading) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if _, _, err := r.Get(ctx); err != nil {
		return err
	}
	return r.Interface.Update(ctx, record)
}
