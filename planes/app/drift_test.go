package app_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
)

// TestWatchedDrift holds that with a watch a pass over an application at rest sends
// nothing, that what somebody changes or deletes comes back without waiting for the
// re-sync, an hour here, and that after it there is rest again.
func TestWatchedDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.run(func(o *controller.Options) { o.Features.WatchDrift, o.Features.FoldSecrets = true, true })
	r.create("w", "light")
	r.becomes("w", api.Running)
	c.rests("w")
	hub, ctx := r.hub(), t.Context()
	maps, secrets, deployments := hub.CoreV1().ConfigMaps("default"), hub.CoreV1().Secrets("default"), hub.AppsV1().Deployments("default")
	for range 2 { // what came back is watched as well
		repotest.Must(maps.Patch(ctx, "cm-w", types.MergePatchType, []byte(`{"data":{"version":"x"}}`), metav1.PatchOptions{}))(t)
		repotest.NoError(t, secrets.Delete(ctx, "secret-w", metav1.DeleteOptions{}))
		repotest.Must(deployments.Patch(ctx, "w-v1", types.MergePatchType, []byte(`{"spec":{"replicas":2},"metadata":{"labels":{"app.oam.dev/component":null}}}`), metav1.PatchOptions{}))(t)
		repotest.Eventually(t, "drift is repaired", func() bool {
			cm, err := maps.Get(ctx, "cm-w", metav1.GetOptions{})
			_, there := secrets.Get(ctx, "secret-w", metav1.GetOptions{})
			d, failed := deployments.Get(ctx, "w-v1", metav1.GetOptions{})
			return err == nil && cm.Data["version"] == "1" && there == nil && failed == nil && *d.Spec.Replicas == 0 && d.Labels[api.LabelComponent] == "w-v1"
		})
		c.rests("w")
	}
	r.update("w", "light", 2)
	r.becomes("w", api.Running)
	c.rests("w")
	r.delete("w")
}
