package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/app/internal/webhook"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// update puts another version of an application in the place of the one that is there.
func (r *rig) update(name, template string, version int) {
	r.t.Helper()
	body := repotest.Must(json.Marshal(map[string]any{"spec": application(r.t, name, template, version).Spec}))(r.t)
	r.patch(name, body)
}

func (r *rig) patch(name string, body []byte, part ...string) {
	r.t.Helper()
	o := &api.Application{}
	o.Namespace, o.Name = "default", name
	repotest.Must(r.client.Applications.Patch(r.t.Context(), o, resource.Patch{Type: types.MergePatchType, Body: body}, part...))(r.t)
}

// left counts what there is of an application: Deployments are seen through their
// ConfigMaps and Secrets, which live and die with them.
type left struct{ configMaps, secrets, revisions, trackers int }

func (r *rig) left(name string) (l left) {
	r.t.Helper()
	ctx, of := r.t.Context(), metav1.ListOptions{LabelSelector: api.LabelName + "=" + name}
	maps := repotest.Must(r.client.Core.ConfigMaps("default").List(ctx, of))(r.t)
	secrets := repotest.Must(r.client.Core.Secrets("default").List(ctx, of))(r.t)
	l.configMaps, l.secrets = len(maps.Items), len(secrets.Items)
	revisions, trackers := r.kept(name)
	l.revisions, l.trackers = len(revisions), len(trackers)
	return l
}

// kept returns the revisions and trackers of an application.
func (r *rig) kept(name string) ([]*api.Revision, []*api.Tracker) {
	r.t.Helper()
	ctx, of := r.t.Context(), api.LabelName+"="+name
	revisions := repotest.Must(r.client.Revisions.List(ctx, "default", of))(r.t)
	trackers := repotest.Must(r.client.Trackers.List(ctx, "", of))(r.t)
	return revisions, trackers
}

func (r *rig) remains(name string, want left) {
	r.t.Helper()
	var got left
	repotest.Eventually(r.t, fmt.Sprintf("of %s there is %+v", name, want), func() bool {
		got = r.left(name)
		return got == want
	}, func() any { return fmt.Sprintf("%+v", got) })
}

func (r *rig) delete(name string) {
	r.t.Helper()
	repotest.NoError(r.t, deleteAsRead(r.t.Context(), r.client, name))
	r.vanishes(name)
}

// deleteAsRead deletes an application of the state in which it is read. An API server that
// finds no finalizer deletes the object even if it gets one meanwhile; who is about to
// publish it then publishes what is gone, and leaves a tracker that nobody looks after.
// KubeVela leaves it, too.
func deleteAsRead(ctx context.Context, client *api.Client, name string) error {
	for {
		o, err := client.Applications.Get(ctx, "default", name)
		if err != nil {
			return err
		}
		if len(o.Finalizers) > 0 {
			return client.Applications.Delete(ctx, o)
		}
		err = client.Core.RESTClient().Delete().AbsPath("/apis", api.GroupVersion().String(), "namespaces/default/applications", name).
			Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}}).Do(ctx).Error()
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// vanishes waits until an application that is being deleted is gone.
func (r *rig) vanishes(name string) {
	r.t.Helper()
	repotest.Eventually(r.t, name+" is gone", func() bool {
		_, err := r.client.Applications.Get(r.t.Context(), "default", name)
		return apierrors.IsNotFound(err)
	})
}

// TestLife takes applications through updates, what is in their way, suspension and their end,
// on a real plane. Their drift is TestWatchedDrift's there, what is wrong with them TestFaults'.
func TestLife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.run(func(o *controller.Options) { o.Resync = 2 * time.Second })

	updates(t, r)
	foreign(t, r)
	suspends(t, r)
	r.create("brief", "light") // and deleted while it is published
	r.delete("brief")
	r.remains("brief", left{})
	c.stop()
}

// updates holds that each version replaces the one before: its Deployment goes, the
// ConfigMap is patched, the Secret stays; no more revisions than the limit and the
// one in use, and one tracker.
func updates(t *testing.T, r *rig) {
	r.create("a", "light")
	r.becomes("a", api.Running)
	for version := 2; version <= 5; version++ {
		r.update("a", "light", version)
		r.becomes("a", api.Running)
	}
	r.remains("a", left{configMaps: 1, secrets: 1, revisions: 3, trackers: 1})
	o := r.get("a")
	if o.Status.LatestRevision.Name != "a-v5" || o.Status.Workflow.AppRevision != "a-v5" {
		t.Errorf("revision %+v", o.Status.LatestRevision)
	}
	cm, err := r.client.Core.ConfigMaps("default").Get(t.Context(), "cm-a", metav1.GetOptions{})
	if err != nil || cm.Data["version"] != "5" || cm.Labels[api.LabelRevision] != "a-v5" {
		t.Errorf("%v: %v %v", err, cm.Data, cm.Labels)
	}
	raw, err := r.client.Core.RESTClient().Get().AbsPath("/apis/apps/v1/namespaces/default/deployments").Do(t.Context()).Raw()
	if err != nil || strings.Contains(string(raw), `"name":"a-v4"`) || !strings.Contains(string(raw), `"name":"a-v5"`) {
		t.Errorf("%v: Deployments of earlier versions are there", err)
	}
	r.delete("a")
	r.remains("a", left{})
}

// foreign holds that nothing of nobody's or of another application's is touched, and
// that the step says whose it is.
func foreign(t *testing.T, r *rig) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm-d"}, Data: map[string]string{"mine": "yes"}}
	repotest.Must(r.client.Core.ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}))(t)
	r.create("d", "light")
	repotest.Eventually(t, "the step fails", func() bool {
		w := r.get("d").Status.Workflow
		return w != nil && len(w.Steps) == 2 && w.Steps[1].Phase == api.StepFailed && strings.Contains(w.Steps[1].Message, "managed by nobody")
	})
	got, err := r.client.Core.ConfigMaps("default").Get(t.Context(), "cm-d", metav1.GetOptions{})
	if err != nil || got.Data["mine"] != "yes" || len(got.Labels) > 0 {
		t.Errorf("%v: it is %v %v", err, got.Data, got.Labels)
	}
	r.delete("d")
	if _, err := r.client.Core.ConfigMaps("default").Get(t.Context(), "cm-d", metav1.GetOptions{}); err != nil {
		t.Errorf("gone with an application that it was not of: %v", err)
	}
}

// suspends holds that a workflow waits where it is told to, and goes on when somebody
// resumes it.
func suspends(t *testing.T, r *rig) {
	o := application(t, "e", "light", 1)
	o.Spec.Workflow = &api.Workflow{Steps: []api.Step{
		{Name: "wait", Type: "suspend"},
		{Name: "first", Type: "apply-component", Properties: json.RawMessage(`{"component":"e-v1"}`)},
		{Name: "second", Type: "apply-component", Properties: json.RawMessage(`{"component":"secret-e"}`)},
	}}
	r.make(o)
	r.becomes("e", api.WorkflowSuspending)
	if got := r.left("e"); got.secrets != 0 || got.trackers != 0 {
		t.Errorf("it made %+v", got)
	}
	r.patch("e", []byte(`{"status":{"workflow":{"suspend":false}}}`), "status")
	r.touch("e")
	r.becomes("e", api.Running)
}

// TestShards holds that the webhook gives each application a shard, that each is
// handled by its shard's controller alone, with all that it leaves behind, that an
// unknown type is refused at the door, and that one which is moved is taken over.
func TestShards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("unowned", "light") // before there is a webhook
	shards := []string{shardA, shardB}
	r.webhook(webhook.Options{Listen: "127.0.0.1:0", Schedulable: shards, Types: true})
	var running []*running
	for _, shard := range shards {
		running = append(running, r.shard(shard))
	}
	wrong := application(t, "wrong", "light", 1)
	wrong.Spec.Components[0].Type = "webservise"
	if _, err := r.client.Applications.Create(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), `ComponentDefinition "webservise"`) {
		t.Errorf("an unknown type is not refused: %v", err)
	}
	const count = 8
	of := map[string]int{}
	for i := range count {
		name := fmt.Sprintf("s-%d", i)
		r.create(name, "light")
		shard := r.get(name).Labels[api.LabelShard]
		of[shard]++
		r.becomes(name, api.Running)
		r.belongs(name, shard)
	}
	for i, c := range running {
		if got := c.calls.Take()["POST applicationrevisions"]; got != of[shards[i]] {
			t.Errorf("%s made %d revisions, want %d", shards[i], got, of[shards[i]])
		}
	}
	if o := r.get("unowned"); len(o.Finalizers) > 0 || o.Status.Phase != "" {
		t.Errorf("an application without a shard was handled: %+v", o.Status)
	}
	other := map[string]string{shardA: shardB, shardB: shardA}[r.get("s-0").Labels[api.LabelShard]]
	r.move("s-0", other)
	r.belongs("s-0", other)
	r.remains("s-0", left{configMaps: 1, secrets: 1, revisions: 1, trackers: 1})
	r.delete("s-0")
	r.nothing("s-0")
}

// TestReviewed holds that with use-webhook the controller's own webhook refuses what names an
// unknown type, and what a template cannot render, and publishes what is well.
func TestReviewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.run(func(o *controller.Options) { o.Webhook = true })
	r.reviews()
	wrong := application(t, "wrong", "light", 1)
	wrong.Spec.Components[0].Properties = json.RawMessage(`{"image":7}`)
	if _, err := r.client.Applications.Create(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "component wrong-v1") {
		t.Errorf("what cannot be rendered is not refused: %v", err)
	}
	r.create("well", "light")
	r.becomes("well", api.Running)
	c.stop()
}

// webhook runs a webhook until the test ends, and returns when it is registered.
func (r *rig) webhook(o webhook.Options) {
	r.t.Helper()
	ready := instrument.New("")
	o.Config, o.Registry, o.Clock, o.Log = r.config, ready, clock.Start(), planetest.Log(r.t)
	planetest.Start(r.t, func(ctx context.Context) error { return webhook.Run(ctx, o) })
	r.reviews()
}

// reviews waits until unknown types are refused.
func (r *rig) reviews() {
	r.t.Helper()
	repotest.Eventually(r.t, "the webhook is asked", func() bool { // it is registered, and the API server has noticed
		o := application(r.t, "probe", "light", 1)
		o.Spec.Components[0].Type = "none"
		_, err := r.client.Applications.Create(r.t.Context(), o)
		if err == nil {
			repotest.NoError(r.t, r.client.Applications.Delete(r.t.Context(), r.get("probe")))
		}
		return err != nil
	})
}
