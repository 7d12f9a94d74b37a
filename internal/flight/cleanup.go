package flight

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// cleanUpTime bounds each part of what is done to a cluster that outlives the run.
const cleanUpTime = 3 * time.Minute

// leave takes what this run made out of a cluster that goes on living, however
// the run ended. A plane of our own is thrown away whole.
func (r *run) leave(ctx context.Context) {
	if r.plane == nil || r.own() {
		return
	}
	for _, part := range []func(context.Context){
		func(ctx context.Context) { r.namespaces.delete(ctx, r.client, r.log) },
		func(ctx context.Context) { r.installation.uninstall(ctx, r.log) },
		r.deleteNodes,
	} {
		within(context.WithoutCancel(ctx), cleanUpTime, part)
	}
}

// within gives a part of what is to be done a time of its own: one that hangs
// takes nothing from the others.
func within(ctx context.Context, d time.Duration, do func(context.Context)) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%v have passed", d))
	defer cancel()
	do(ctx)
}

// deleteNodes takes the fleet's nodes away.
func (r *run) deleteNodes(ctx context.Context) {
	if r.fleet == nil {
		return
	}
	if err := r.fleet.Delete(ctx); err != nil {
		r.log.Warn("nodes were left behind", slog.Any("error", err))
	}
}
