package subject

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

const (
	pollEvery     = 50 * time.Millisecond
	appliedWithin = 30 * time.Second // for one object; far beyond what goes well
	fieldManager  = "windtunnel"
)

// ErrExists says that something is there already that is not the run's.
var ErrExists = errors.New("it exists already, and this run has not made it")

// Owner says how objects come to a cluster that is not the run's own. The zero
// value is for a plane that ends with the run: there all is the run's.
type Owner struct {
	Stamp object.Stamp // of all that is made
	// Adopt names the objects that may be there already, as ErrExists names them:
	// RESOURCE/NAME or RESOURCE/NAMESPACE/NAME. They are changed, and stay so.
	Adopt []string
}

// Installer brings objects to an API server.
type Installer struct {
	client discovery.Doer
	cache  *discovery.Cache
	owner  Owner
	all    map[applied]bool
}

// applied names an object; its resource is as in discovery.Resource.Name.
type applied struct{ resource, namespace, name string }

// NewInstaller returns an installer over a client.
func NewInstaller(client discovery.Doer, owner Owner) *Installer {
	return &Installer{client: client, cache: discovery.New(client), owner: owner, all: map[applied]bool{}}
}

// Apply applies objects in their order (server-side apply; conflicts are won). In
// a cluster that is not the run's own it creates them with the run's stamp, and
// what is there without it is ErrExists, unless it may be adopted.
// A CustomResourceDefinition is waited for until it is established and served.
func (i *Installer) Apply(ctx context.Context, objects []Object) error {
	for _, o := range objects {
		if err := i.applyObject(ctx, o); err != nil {
			return fmt.Errorf("%s: apply %s %s: %w", o.Place, o.Kind, o.Name, err)
		}
	}
	return nil
}

func (i *Installer) applyObject(ctx context.Context, o Object) error {
	ctx, cancel := context.WithTimeoutCause(ctx, appliedWithin, fmt.Errorf("not done within %v", appliedWithin))
	defer cancel()
	var resource discovery.Resource
	if err := retryUntil(ctx, func() (bool, error) {
		var err error
		resource, err = i.cache.Kind(ctx, o.APIVersion, o.Kind)
		return err == nil, err
	}); err != nil {
		return err
	}
	namespace := o.Namespace
	if namespace == "" {
		namespace = "default"
	}
	path := resource.Object(namespace, o.Name)
	bring := func() (bool, error) { return i.patchOnce(ctx, path, o) }
	if run := i.owner.Stamp.Run; run != "" {
		c := claim{i, resource, namespace, path, o}
		bring = func() (bool, error) { return c.createOnce(ctx) }
	}
	if err := retryUntil(ctx, bring); err != nil {
		return err
	}
	if !resource.Namespaced {
		namespace = ""
	}
	i.all[applied{resource.Name, namespace, o.Name}] = true
	if resource.Name == "customresourcedefinitions.apiextensions.k8s.io" {
		return i.awaitEstablished(ctx, path, o.Body)
	}
	return nil
}

// Has says whether an object is one that Apply has applied. A nil Installer has
// applied none.
func (i *Installer) Has(resource, namespace, name string) bool {
	return i != nil && i.all[applied{resource, namespace, name}]
}

// patchOnce applies an object once; done says that there is no use in trying again.
func (i *Installer) patchOnce(ctx context.Context, path string, o Object) (done bool, err error) {
	answer, err := i.client.Do(ctx, &wire.Request{
		Method: http.MethodPatch, Path: path + "?force=true&fieldManager=" + cmp.Or(o.manager, fieldManager),
		ContentType: "application/apply-patch+yaml", Body: o.Body,
	})
	switch {
	case err != nil:
		return false, err
	case answer.Success():
		return true, nil
	}
	return !isPassing(answer.Code), answer.Refusal()
}

// isPassing tells a refusal that another try may change: what was just defined may
// not be served by every handler yet; a webhook may be on its way; the server may
// be busy.
func isPassing(code int) bool {
	return code == http.StatusNotFound || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// awaitEstablished waits until a definition is in force and its versions are served.
func (i *Installer) awaitEstablished(ctx context.Context, path string, body []byte) error {
	var definition struct {
		Spec struct {
			Group    string `json:"group"`
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
			}
		} `json:"spec"`
	}
	if err := json.Unmarshal(body, &definition); err != nil {
		return err
	}
	if err := retryUntil(ctx, func() (bool, error) { return i.isAccepted(ctx, path) }); err != nil {
		return err
	}
	for _, v := range definition.Spec.Versions {
		if !v.Served {
			continue
		}
		if err := retryUntil(ctx, func() (bool, error) {
			r, err := i.cache.Kind(ctx, definition.Spec.Group+"/"+v.Name, definition.Spec.Names.Kind)
			if err != nil {
				return false, err
			}
			return i.isListable(ctx, r)
		}); err != nil {
			return err
		}
	}
	return nil
}

// isListable says whether a resource can be listed: discovery knows of it a moment
// before it is served.
func (i *Installer) isListable(ctx context.Context, r discovery.Resource) (bool, error) {
	answer, err := i.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: r.All() + "?limit=1", Discard: true})
	if err != nil {
		return false, err
	}
	if !answer.Success() {
		return false, answer.Refusal()
	}
	return true, nil
}

// isAccepted says whether a definition is established; one whose names are taken
// never will be.
func (i *Installer) isAccepted(ctx context.Context, path string) (done bool, err error) {
	answer, err := i.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
	if err != nil {
		return false, err
	}
	var o struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(answer.Body, &o); err != nil {
		return false, err
	}
	for _, c := range o.Status.Conditions {
		switch {
		case c.Type == "NamesAccepted" && c.Status == "False":
			return true, fmt.Errorf("%w: %s", errNames, c.Message)
		case c.Type == "Established" && c.Status == "True":
			return true, nil
		}
	}
	return false, errNotEstablished
}

var (
	errNames          = errors.New("its names are not accepted")
	errNotEstablished = errors.New("not established")
)

// retryUntil does something until it is done; ctx bounds it, and the error is then
// that of the last try.
func retryUntil(ctx context.Context, do func() (done bool, err error)) error {
	for {
		done, err := do()
		if done {
			return err
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
