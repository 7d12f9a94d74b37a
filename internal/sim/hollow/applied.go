package hollow

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// apply makes the object that a stage applies, or changes it where it is there. What
// cannot be made is left out: a stage of a hollow cluster has nobody to tell.
func (c *Cluster) apply(s subject, effect machine.Effect) {
	u := &unstructured.Unstructured{}
	if u.UnmarshalJSON(effect.Body) != nil {
		return
	}
	k := c.kinds.Load().OfKind(u.GroupVersionKind())
	if k == nil {
		return
	}
	t := target{kind: k, name: u.GetName(), sub: effect.Subresource}
	if k.Namespaced {
		if t.namespace = u.GetNamespace(); t.namespace == "" {
			t.namespace, _ = kind.SplitKey(s.key)
		}
	}
	w := write{target: t, manager: "stages"}
	if effect.Subresource == "" {
		o, _, err := codec.Decode(k, effect.Body)
		if err != nil {
			return
		}
		if _, err := c.create(w, o); !apierrors.IsAlreadyExists(err) {
			return
		}
	}
	patch := types.PatchType(effect.Type)
	if patch == types.ApplyPatchType {
		patch = types.MergePatchType // fields that others own are a stage's too
	}
	body := append([]byte(nil), effect.Body...)
	_, _ = c.change(change{write: w, of: func(old runtime.Object) (runtime.Object, error) {
		o, _, _, err := patchedBy(patch, t, old, body)
		return o, err
	}}) // it may have gone in the meantime
}
