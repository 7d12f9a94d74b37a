package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// findDefinition returns a definition: of the application's own namespace, else of the system's.
func (c *Controller) findDefinition(kind, namespace, name string) (*api.Definition, error) {
	defer c.metrics.timeOwnRequest("GetCache", kind)()
	for _, ns := range []string{namespace, api.SystemNamespace} {
		if d := slim.Get[*api.Definition](c.definitions[kind], ns+"/"+name); d != nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s %q: %w", kind, name, errUnknownType)
}

var errUnknownType = errors.New("not found in the namespace of the application or in " + api.SystemNamespace)

// findWorkflow returns the workflow that an application names or refers to; nil
// without one. A workflow that it refers to is read, and not watched: a change of it is
// found in the next pass.
func (c *Controller) findWorkflow(ctx context.Context, app *api.Application) (*api.Workflow, error) {
	own := app.Spec.Workflow
	if own == nil || own.Ref == "" {
		return own, nil
	}
	if len(own.Steps) > 0 {
		return nil, fmt.Errorf("workflow: ref %s beside steps of its own: want one of them", own.Ref)
	}
	ctx, done := c.requests.begin(ctx, "Get", api.KindWorkflow, api.ExternalVersion().String())
	defer done()
	gvr := api.ExternalVersion().WithResource(api.Resource(api.KindWorkflow))
	o, err := c.objects.client.Resource(gvr).Namespace(app.Namespace).Get(ctx, own.Ref, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("workflow: ref %s: %w", own.Ref, err)
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("workflow: ref %s: %w", own.Ref, err)
	}
	found := &api.Workflow{Ref: own.Ref}
	if err := json.Unmarshal(raw, found); err != nil {
		return nil, fmt.Errorf("workflow: ref %s: %w", own.Ref, err)
	}
	if own.Mode != nil {
		found.Mode = own.Mode
	}
	return found, nil
}
