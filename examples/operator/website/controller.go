// Package website is the operator: of each Website it makes a ConfigMap with the
// page and a Deployment that serves it, and says in the Website's status how far
// they are. Command operator runs it, and so does the scale test, in its own
// process.
package website

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/windtunnel/windtunnel/examples/operator/api/v1"
)

// nameLabel is on everything that belongs to a website.
const nameLabel = "app.kubernetes.io/name"

// Reconciler makes things as the websites ask for.
type Reconciler struct{ Client client.Client }

// Reconcile looks at one website.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site v1.Website
	if err := r.Client.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if site.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // what it owns goes with it
	}
	if err := r.page(ctx, &site); err != nil {
		return ctrl.Result{}, fmt.Errorf("page: %w", err)
	}
	deployment, err := r.servers(ctx, &site)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("servers: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, &site, deployment)
}

// page makes the ConfigMap.
func (r *Reconciler) page(ctx context.Context, site *v1.Website) error {
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Labels = map[string]string{nameLabel: site.Name}
		page.Data = map[string]string{"index.html": site.Spec.Page}
		return controllerutil.SetControllerReference(site, page, r.Client.Scheme())
	})
	return err
}

// servers makes the Deployment.
func (r *Reconciler) servers(ctx context.Context, site *v1.Website) (*appsv1.Deployment, error) {
	replicas := max(1, site.Spec.Replicas)
	labels := map[string]string{nameLabel: site.Name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, d, func() error {
		d.Labels = labels
		d.Spec.Replicas = &replicas
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		// Fields that the server fills in stay as they are: to take them away
		// would be an update on every look.
		if len(d.Spec.Template.Spec.Containers) == 0 {
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "server"}}
		}
		d.Spec.Template.Spec.Containers[0].Image = "registry.k8s.io/e2e-test-images/httpd:2.4.39-4"
		return controllerutil.SetControllerReference(site, d, r.Client.Scheme())
	})
	return d, err
}

// report writes the status, if it is not what it was.
func (r *Reconciler) report(ctx context.Context, site *v1.Website, d *appsv1.Deployment) error {
	before := site.DeepCopy()
	condition := metav1.Condition{
		Type: v1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: site.Generation,
		Message: fmt.Sprintf("%d of %d replicas are available", d.Status.AvailableReplicas, *d.Spec.Replicas),
	}
	if d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Available"
	}
	meta.SetStatusCondition(&site.Status.Conditions, condition)
	site.Status.ObservedGeneration = site.Generation
	if equality.Semantic.DeepEqual(before.Status, site.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, site, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	return nil
}
