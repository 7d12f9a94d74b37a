package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// joined is a member that has joined, with the controllers that work for it.
type joined struct {
	member  *member
	made    string // what of its Cluster it was made of
	pods    *podController
	nodes   *nodeController
	storage *storageController
	imports *importController // nil unless services are imported
}

// newJoined makes a member and its controllers, which do not run yet. down is the queue
// of pods of all members, nil where each has its own.
func newJoined(t *tree, c *api.Cluster, made string, down *loop.Loop) (*joined, error) {
	m, err := newMember(t, c)
	if err != nil {
		return nil, err
	}
	j := &joined{member: m, made: made, nodes: newNodeController(t, m), storage: newStorageController(t, m)}
	n := &namespaces{member: m, known: map[string]bool{}}
	j.pods = newPodController(t, m, n, down)
	for _, l := range m.leaves {
		l.joined = j
	}
	if m.imports != nil {
		j.imports = newImportController(t, m, n)
	}
	return j, j.addHandlers()
}

// addHandlers connects the member's caches with the queues.
func (j *joined) addHandlers() error {
	errs := []error{loop.Watch(j.member.pods, j.podChanged), j.nodes.addHandlers(), j.storage.addHandlers()}
	if j.imports != nil {
		errs = append(errs, j.imports.addHandlers())
	}
	return errors.Join(errs...)
}

// podChanged handles a member's pod that was made, has changed or is gone.
func (j *joined) podChanged(old, now *memberPod) {
	p := cmp.Or(now, old)
	if key := loop.Key(p); now == nil {
		j.pods.onMemberPodGone(key, p)
	} else {
		j.pods.onMemberPod(key, old, p)
	}
	j.nodes.podChanged(p)
}

// startCaches starts the member's caches and waits until they are full; they end with ctx,
// and wait waits for that.
func (j *joined) startCaches(ctx context.Context, wait *sync.WaitGroup) error {
	if err := j.member.caches.Start(ctx, wait); err != nil {
		return fmt.Errorf("watch member %s: %w", j.member.name, err)
	}
	return nil
}

// startControllers starts what works for the member; it ends with ctx, and wait waits for it.
func (j *joined) startControllers(ctx context.Context, wait *sync.WaitGroup) {
	loops := append(j.pods.ownLoops(), j.nodes.queue, j.storage.queue)
	if j.imports != nil {
		loops = append(loops, j.imports.queue)
	}
	for _, l := range loops {
		wait.Go(func() { l.Run(ctx) })
	}
	wait.Go(func() { j.nodes.renewLeases(ctx) })
	wait.Go(func() { j.nodes.renewStatuses(ctx) })
}
