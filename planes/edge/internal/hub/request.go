package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	authv1 "k8s.io/api/authentication/v1"
	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// request is what an edge asks for. What it asks for, and what the answer says, is decided
// here, without a server and a session.
type request struct {
	session  *session
	message  message.Message
	resource message.Resource
}

// mergePatch is a strategic merge patch of the status of a node or a pod.
type mergePatch []byte

// decodeContent returns what a request, OPERATION TYPE, brings for the API server: its type says
// which call it is for. It is nil for a query of what the hub reads itself. The error says why
// there is no such call.
func decodeContent(request string, content []byte) (any, error) {
	switch request {
	case "query node", "query podlist", "query lease", "query configmap", "query secret":
		return nil, nil
	case "insert node":
		return decodeAs[corev1.Node](content)
	case "patch nodepatch", "patch podpatch":
		m := message.Message{Content: content}
		patch, err := m.Text()
		return mergePatch(patch), err
	case "update nodestatus":
		var said struct{ Status *corev1.NodeStatus }
		if err := json.Unmarshal(content, &said); err != nil || said.Status == nil {
			return nil, errors.New("no status of a node")
		}
		return said.Status, nil
	case "delete pod":
		return decodeAs[metav1.DeleteOptions](content)
	case "update podstatus":
		var said []message.PodStatus
		if err := json.Unmarshal(content, &said); err != nil {
			return nil, errors.New("no statuses of pods")
		}
		return said, nil
	case "insert lease", "update lease":
		return decodeAs[coordv1.Lease](content)
	case "query serviceaccounttoken":
		return decodeAs[authv1.TokenRequest](content)
	}
	return nil, fmt.Errorf("no such operation: %s", request)
}

func decodeAs[T any](content []byte) (*T, error) {
	out := new(T)
	return out, json.Unmarshal(content, out)
}

// prepareNode makes a node that an edge sends the one to create: it names the hub, since its edge has
// connected before it joined. With KubeEdge's way to join it loses the labels that are
// Kubernetes' own, and the patch brings them; otherwise there is none.
func prepareNode(n *corev1.Node, o *Options) (patch []byte) {
	own := map[string]string{}
	for name, value := range n.Labels {
		domain, _, ok := strings.Cut(name, "/")
		if o.Join == JoinPatch && ok && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")) {
			own[name] = value
			delete(n.Labels, name)
		}
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, api.AnnotationHub, o.Address)
	if len(own) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": own}})
	if err != nil {
		panic(err) // texts can always be written
	}
	return patch
}

// encodeResult is the content of the answer to a request. Queries for tokens, nodes and what
// pods use are answered with the bare object or the bare error, others with a pair of both,
// or with OK.
func encodeResult(request string, o any, err error) ([]byte, error) {
	failure := map[string]any{}
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case errors.As(err, &status):
		failure["ErrStatus"] = status.Status()
	default:
		failure["ErrStatus"] = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInternalError, Code: 500}
	}
	isBare := strings.HasPrefix(request, message.Query+" ") && request != message.Query+" "+message.TypeLease
	switch {
	case err == nil && o == nil:
		return []byte(message.OK), nil
	case err == nil && isBare:
		return json.Marshal(o)
	case isBare:
		return json.Marshal(failure)
	}
	var out struct {
		Object any
		Err    any
	}
	if out.Object = o; err != nil {
		out.Object, out.Err = nil, failure
	}
	return json.Marshal(out)
}
