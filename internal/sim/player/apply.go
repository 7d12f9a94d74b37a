package player

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// manager is the field manager of what a fleet applies.
const manager = "windtunnel-fleet"

// applyObject creates any object, or changes it if it exists.
func (a *play) applyObject(ctx context.Context, e machine.Effect) bool {
	target, err := machine.Decode(e.Body)
	if err != nil {
		return a.blameStage(err)
	}
	apiVersion, _ := target["apiVersion"].(string)
	kind, _ := target["kind"].(string)
	r, err := a.options.Served.Kind(ctx, apiVersion, kind)
	switch {
	case errors.Is(err, discovery.ErrNotServed):
		return a.blameStage(err)
	case err != nil:
		a.result.kind = retry
		return false
	}
	w, err := writesOf(e, target, r, metadataText(a.object, "namespace"), a.options.Stamp)
	if err != nil {
		return a.blameStage(err)
	}
	if w.create != nil {
		answer := a.sendRequest(ctx, w.create, opKey{verb: "create", resource: r.Name})
		if a.succeeded(answer) {
			return true
		}
		if answer.Err != nil || answer.Code != http.StatusConflict {
			return a.settleRefusal(ctx, w.create, answer)
		}
	}
	if ok := a.mayChange(ctx, w.path, e.User, r.Name); !ok {
		return false
	}
	if answer := a.sendRequest(ctx, w.change, w.changeKey); !a.succeeded(answer) {
		return a.settleRefusal(ctx, w.change, answer)
	} else if r == a.served {
		a.takeChanged(answer.Body) // it may have been the object itself
	}
	return true
}

// writes are the requests that apply an object.
type writes struct {
	create    *wire.Request // nil: of an object that exists a part is changed
	path      string        // of what is changed
	change    *wire.Request // when it exists
	changeKey opKey
}

// writesOf decides on the requests that apply the target of an effect, for an object in a
// namespace.
func writesOf(e machine.Effect, target map[string]any, r discovery.Resource, namespace string, stamp object.Stamp) (w writes, err error) {
	if own := metadataText(target, "namespace"); own != "" {
		namespace = own
	}
	w.path = r.Object(namespace, metadataText(target, "name"))
	if e.Subresource == "" {
		made, err := stamp.MarkJSON(e.Body)
		if err != nil {
			return w, err
		}
		w.create = &wire.Request{Method: http.MethodPost, Path: r.Collection(namespace), ContentType: "application/json", Body: made, Impersonate: e.User}
	} else {
		w.path += "/" + e.Subresource
	}
	w.change = &wire.Request{Method: http.MethodPatch, Path: w.path, ContentType: string(e.Type), Body: e.Body, Impersonate: e.User}
	w.changeKey = opKey{verb: "patch", resource: r.Name, subresource: e.Subresource}
	if e.Type == machine.ApplyPatch {
		w.change.Path, w.changeKey.verb = w.path+"?fieldManager="+manager+"&force=true", "apply"
	}
	return w, nil
}

var errForeign = errors.New("it exists already, and this run has not made it: it is left alone")

// mayChange looks whether an object that is there may be changed. What is applied to
// it carries no stamp: it stays whose it is.
func (a *play) mayChange(ctx context.Context, path, user, resource string) bool {
	if a.options.Own == nil {
		return true
	}
	req := &wire.Request{Method: http.MethodGet, Path: path, Impersonate: user}
	answer := a.sendRequest(ctx, req, opKey{verb: "get", resource: resource})
	if !a.succeeded(answer) {
		return a.settleRefusal(ctx, req, answer)
	}
	there, err := machine.Decode(answer.Body)
	if err == nil && !a.options.Own(there) {
		err = fmt.Errorf("%s: %w", path, errForeign)
	}
	return err == nil || a.blameStage(err)
}

// blameStage ends a stage that asks for what cannot be.
func (a *play) blameStage(err error) bool {
	a.result.kind = faulty
	a.result.err = a.job.stage.Source().Fault("spec.steps["+strconv.Itoa(a.result.step)+"].apply", err)
	return false
}

// eventRequest returns the request of an event about the object.
func (a *play) eventRequest(e machine.Effect) *wire.Request {
	namespace := metadataText(a.object, "namespace")
	about := map[string]any{
		"apiVersion": a.object["apiVersion"], "kind": a.object["kind"], "name": metadataText(a.object, "name"),
		"namespace": namespace, "uid": a.job.entry.uid, "resourceVersion": metadataText(a.object, "resourceVersion"),
	}
	if namespace == "" {
		namespace = "default" // where events of things without a namespace live
	}
	now := a.options.Clock.Wall(a.options.Clock.Now()).UTC()
	source := map[string]any{"component": "windtunnel"}
	if spec, ok := a.object["spec"].(map[string]any); ok && spec["nodeName"] != nil {
		source = map[string]any{"component": "kubelet", "host": spec["nodeName"]}
	}
	body, _ := json.Marshal(map[string]any{ // of texts and numbers: cannot fail
		"apiVersion": "v1", "kind": "Event", "involvedObject": about, "source": source,
		"metadata": map[string]any{"namespace": namespace, "name": fmt.Sprintf("%s.%x", metadataText(a.object, "name"), uint64(now.UnixNano())&math.MaxInt64)},
		"type":     e.Event.Type, "reason": e.Event.Reason, "message": e.Event.Message, "count": 1,
		"firstTimestamp": now.Format(time.RFC3339), "lastTimestamp": now.Format(time.RFC3339),
	})
	return &wire.Request{Method: http.MethodPost, Path: "/api/v1/namespaces/" + namespace + "/events", ContentType: "application/json", Body: body}
}

func quoteJSON(s string) string {
	raw, _ := json.Marshal(s) // of a text: cannot fail
	return string(raw)
}
