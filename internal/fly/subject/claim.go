package subject

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

// claim is an object that is brought to a cluster which is not the run's own.
type claim struct {
	*Installer
	resource        discovery.Resource
	namespace, path string
	object          Object
}

// createOnce brings it there once. It looks first: what is there is changed only when
// it carries the run's stamp, or may be adopted. An object whose creation was not
// answered is known by its stamp at the next look.
func (c claim) createOnce(ctx context.Context) (done bool, err error) {
	there, err := c.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: c.path})
	switch {
	case err != nil:
		return false, err
	case there.Code == http.StatusNotFound:
		return c.postObject(ctx)
	case !there.Success():
		return !isPassing(there.Code), there.Refusal()
	}
	about, err := object.ReadMetadata(there.Body)
	switch {
	case err != nil:
		return true, err
	case about.Labels[object.RunLabel] == c.owner.Stamp.Run:
		body, err := c.owner.Stamp.MarkJSON(c.object.Body)
		if err != nil {
			return true, err
		}
		return c.patchOnce(ctx, c.path, Object{Body: body})
	case slices.Contains(c.owner.Adopt, c.adoptName()):
		return c.patchOnce(ctx, c.path, c.object) // without a stamp: it stays
	}
	return true, fmt.Errorf("%w: it is left alone; --adopt %s lets the run change it for good", ErrExists, c.adoptName())
}

// adoptName is what Owner.Adopt calls it.
func (c claim) adoptName() string {
	if !c.resource.Namespaced {
		return c.resource.Name + "/" + c.object.Name
	}
	return c.resource.Name + "/" + c.namespace + "/" + c.object.Name
}

func (c claim) postObject(ctx context.Context) (done bool, err error) {
	body, err := c.owner.Stamp.MarkJSON(c.object.Body)
	if err != nil {
		return true, err
	}
	answer, err := c.client.Do(ctx, &wire.Request{
		Method: http.MethodPost, Path: c.resource.Collection(c.namespace) + "?fieldManager=" + fieldManager, ContentType: "application/json", Body: body,
	})
	switch {
	case err != nil:
		return false, err
	case answer.Success():
		return true, nil
	}
	return !isPassing(answer.Code) && answer.Code != http.StatusConflict, answer.Refusal() // of a conflict the next look tells
}
