package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// contextStore is the ConfigMap with the state that the steps of a workflow hand to each
// other. With an in-memory context there is none.
type contextStore struct {
	app      *application
	revision string
	outputs  map[string]json.RawMessage // of steps, by name
}

func contextName(app *api.Application) string { return "workflow-" + app.Name + "-context" }

// stepValues are what the steps of one revision gave to others.
type stepValues struct {
	Revision string                     `json:"revision"`
	Values   map[string]json.RawMessage `json:"values"`
}

// valuesKey is where they are in the ConfigMap.
const valuesKey = "outputs"

// openContext reads the state, or makes it.
func (s *contextStore) openContext(ctx context.Context) error {
	cm, err := s.readConfigMap(ctx)
	if err != nil {
		return err
	}
	if cm != nil {
		var v stepValues // what somebody else wrote into it is not used
		if json.Unmarshal([]byte(cm.Data[valuesKey]), &v) == nil && v.Revision == s.revision {
			maps.Copy(s.outputs, v.Values)
		}
		return nil
	}
	cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: contextName(s.app.object), Namespace: s.app.object.Namespace,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.app.object, api.GroupVersion().WithKind(api.KindApplication))},
	}, Data: map[string]string{"vars": "{}"}}
	ctx, done := s.app.c.requests.begin(ctx, "Create", "ConfigMap", "v1")
	defer done()
	if _, err := s.app.c.client.Core.ConfigMaps(cm.Namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("workflow context: %w", err)
	}
	return nil
}

// readConfigMap returns the state, from the cache where there is one; nil without any.
func (s *contextStore) readConfigMap(ctx context.Context) (*corev1.ConfigMap, error) {
	namespace, name := s.app.object.Namespace, contextName(s.app.object)
	if s.app.c.configMaps != nil {
		defer s.app.c.metrics.timeRequest("GetCache", "ConfigMap", "v1")()
		return slim.Get[*corev1.ConfigMap](s.app.c.configMaps, namespace+"/"+name), nil
	}
	ctx, done := s.app.c.requests.begin(ctx, "Get", "ConfigMap", "v1")
	defer done()
	cm, err := s.app.c.client.Core.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("workflow context: %w", err)
	}
	return cm, nil
}

// saveStep stores that a step ran, and the outputs of all steps.
func (s *contextStore) saveStep(ctx context.Context, name string) error {
	cm, err := s.readConfigMap(ctx)
	if err != nil {
		return err
	}
	vars := map[string]string{}
	if cm != nil {
		if err := json.Unmarshal([]byte(cm.Data["vars"]), &vars); err != nil {
			vars = map[string]string{} // somebody wrote into it: what steps need they make again
		}
	}
	vars[name] = s.revision
	data, err := s.encodeData(vars)
	if err != nil {
		return fmt.Errorf("workflow context: %w", err)
	}
	body, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("workflow context: %w", err)
	}
	ctx, done := s.app.c.requests.begin(ctx, "Patch", "ConfigMap", "v1")
	defer done()
	if _, err := s.app.c.client.Core.ConfigMaps(s.app.object.Namespace).Patch(ctx, contextName(s.app.object), types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("workflow context: %w", err)
	}
	return nil
}

// encodeData returns the content of the ConfigMap.
func (s *contextStore) encodeData(vars map[string]string) (map[string]string, error) {
	raw, err := json.Marshal(vars)
	if err != nil || len(s.outputs) == 0 {
		return map[string]string{"vars": string(raw)}, err
	}
	values, err := json.Marshal(stepValues{s.revision, s.outputs})
	return map[string]string{"vars": string(raw), valuesKey: string(values)}, err
}
