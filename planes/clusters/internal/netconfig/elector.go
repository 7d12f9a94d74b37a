package netconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Namespace is where the leases of elections are: Kosmos' own. Kosmos has one in each
// cluster, of the name elector; here the host has those of all.
const Namespace = "kosmos-system"

// ElectorOptions are those of the electors of nodes.
type ElectorOptions struct {
	process.Env
	Duration time.Duration // for which a lease holds
	Renew    time.Duration // after which a leader that could not renew it gives up
	Retry    time.Duration // between tries to get or to renew it
	Check    time.Duration // between looks of a leader whether the roles are as they should be
}

// ElectorDefault returns Kosmos' options.
func ElectorDefault() ElectorOptions { return words.DefaultsOf[ElectorOptions]() }

// Words declares what a user may choose.
func (o *ElectorOptions) Words() words.Set {
	return words.Set{
		words.Of(&o.Duration, "lease-duration", "`DURATION` of the lease of an election", words.Default(15*time.Second, "")),
		words.Of(&o.Renew, "renew-deadline", "`DURATION` after which a gateway that cannot renew its lease gives up", words.Default(10*time.Second, "")),
		words.Of(&o.Retry, "retry-period", "`DURATION` between attempts to acquire or renew a lease", words.Default(2*time.Second, "")).Above(0),
		words.Of(&o.Check, "role-check", "`DURATION` between a gateway's checks that it alone has the role", words.Default(time.Minute, "")).Above(0),
	}
}

// Validate says what is wrong with what a user may choose.
func (o *ElectorOptions) Validate() error {
	err := o.Words().Check()
	if o.Renew <= o.Retry || o.Duration <= o.Renew {
		err = errors.Join(err, errors.New("election: want retry-period < renew-deadline < lease-duration"))
	}
	return err
}

// RunElector stands for a node in its cluster's election of a gateway until ctx ends. The
// node that holds the lease has the role, and takes it from all others of its cluster. A
// lease is not given back: who dies cannot.
func RunElector(ctx context.Context, o ElectorOptions, cluster, node string) error {
	c, err := newClient(o.Config)
	if err != nil {
		return err
	}
	leases, err := coordination.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("client for %s: %w", o.Config.Host, err)
	}
	e := elector{o, c, cluster, node}
	for ctx.Err() == nil {
		l, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "elector-" + cluster}, Client: leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: node}},
			LeaseDuration: o.Duration, RenewDeadline: o.Renew, RetryPeriod: o.Retry, Name: "elector-" + cluster,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: e.electPeriodically, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return fmt.Errorf("election in %s: %w", cluster, err)
		}
		l.Run(ctx)
	}
	return nil
}

type elector struct {
	options       ElectorOptions
	client        *client
	cluster, node string
}

// electPeriodically sees to it that its node alone has the role, until ctx ends. What fails goes again
// after Retry.
func (e elector) electPeriodically(ctx context.Context) {
	for {
		next := e.options.Check
		if err := e.writeRoles(ctx); err != nil {
			e.options.Log.Info("the roles of a cluster's nodes could not be written, goes again", "cluster", e.cluster, "error", err)
			next = e.options.Retry
		}
		if clock.Sleep(ctx, next) != nil {
			return
		}
	}
}

func (e elector) writeRoles(ctx context.Context) error {
	all := &resource.List[ClusterNode]{}
	if err := e.client.rest.Get().Resource(resourceNodes).Do(ctx).Into(all); err != nil {
		return fmt.Errorf("list %s: %w", resourceNodes, err)
	}
	for i := range all.Items {
		n := &all.Items[i]
		has, wants := slices.Contains(n.Spec.Roles, roleGateway), n.Name == e.node
		if n.Spec.ClusterName != e.cluster || has == wants {
			continue
		}
		n.Spec.Roles = slices.DeleteFunc(n.Spec.Roles, func(role string) bool { return role == roleGateway })
		if wants {
			n.Spec.Roles = append(n.Spec.Roles, roleGateway)
		}
		if _, err := e.client.nodes.Update(ctx, n); err != nil {
			return fmt.Errorf("roles of node %s: %w", n.Name, err)
		}
	}
	return nil
}
