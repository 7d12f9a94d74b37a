package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// endPods does what the kubelets of deleted nodes would do: it deletes pods without a grace
// period once something else has begun to delete them. Without it, the cluster's own
// controller does so after about a minute. It returns when ctx ends or no pod is left.
func endPods(ctx context.Context, client discovery.Doer, nodes map[string]bool, pods []Object) {
	inParts(pods, func(part []Object) []error {
		for _, pod := range part {
			for pause := pollEvery; !pod.endPod(ctx, client, nodes) && clock.Sleep(ctx, pause) == nil; {
				pause = min(2*pause, time.Second)
			}
		}
		return nil
	})
}

// endPod ends a pod that is being deleted, and reports whether nothing remains to be done: a
// pod on another node has a kubelet.
func (o Object) endPod(ctx context.Context, client discovery.Doer, nodes map[string]bool) bool {
	var pod struct {
		Metadata object.Metadata
		Spec     struct{ NodeName string }
	}
	answer, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: o.Path})
	switch {
	case err != nil || answer.Retriable():
		return false
	case !answer.Success() || json.Unmarshal(answer.Body, &pod) != nil || pod.Metadata.UID != o.UID || pod.Spec.NodeName != "" && !nodes[pod.Spec.NodeName]:
		return true
	case pod.Metadata.DeletionTimestamp == "":
		return false
	}
	body := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":%q}}`, o.UID)
	answer, err = client.Do(ctx, &wire.Request{Method: http.MethodDelete, Path: o.Path, ContentType: "application/json", Body: []byte(body)})
	return err == nil && !answer.Retriable()
}
