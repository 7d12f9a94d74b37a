package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// object is what kwok's engine takes.
type object interface {
	metav1.Object
	runtime.Object
}

// engine is kwok's engine over the stages of one folder, and one object.
type engine struct {
	stages   lifecycle.Lifecycle
	renderer gotpl.Renderer
	object   object
	event    *lifecycle.Event // kept from call to call, as kwok's benchmark does
	read     func() (object, error)
}

// load reads an object and the stages for it.
func load(ctx context.Context, path, folder string) (*engine, error) {
	found, err := config.LoadUnstructured(path)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d objects, want 1", len(found))
	}
	o, ok := found[0].(object)
	if !ok {
		return nil, errors.New("not an API object")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var sources []*internalversion.Stage
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		docs, err := config.Load(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("read stages: %w", err)
		}
		sources = append(sources, config.FilterWithType[*internalversion.Stage](docs)...)
	}
	return newEngine(o, sources)
}

// newEngine compiles the stages that are meant for the object's kind.
func newEngine(o object, sources []*internalversion.Stage) (*engine, error) {
	gvk := o.GetObjectKind().GroupVersionKind()
	var mine []*internalversion.Stage
	for _, s := range sources {
		if s.Spec.ResourceRef.Kind == gvk.Kind && s.Spec.ResourceRef.APIGroup == gvk.GroupVersion().String() {
			mine = append(mine, s)
		}
	}
	stages, err := lifecycle.NewLifecycle(mine)
	if err != nil {
		return nil, fmt.Errorf("compile stages: %w", err)
	}
	e := &engine{stages: stages, renderer: gotpl.NewRenderer(functions()), object: o, event: eventOf(o)}
	e.read, err = reader(o)
	return e, err
}

// functions are what the controller gives to templates, with fixed addresses.
func functions() gotpl.FuncMap {
	return gotpl.FuncMap{
		"NodeIP": func() string { return "10.1.2.3" }, "NodeName": func() string { return "node" }, "NodePort": func() int { return 10250 },
		"PodIP":       func() string { return "10.4.5.6" },
		"NodeIPWith":  func(string) string { return "10.1.2.3" },
		"NodeIPsWith": func(string) []string { return []string{"10.1.2.3"} },
		"PodIPWith":   func(string, bool, string, string, string) string { return "10.4.5.6" },
		"PodIPsWith":  func(string, bool, string, string, string) []string { return []string{"10.4.5.6"} },
	}
}

func eventOf(o object) *lifecycle.Event {
	return &lifecycle.Event{Labels: o.GetLabels(), Annotations: o.GetAnnotations(), Data: o}
}

// match chooses the stage that plays.
func (e *engine) match(ctx context.Context) (*lifecycle.Stage, error) {
	return e.stages.Match(ctx, e.event)
}

// play chooses the stage and writes what it asks for.
func (e *engine) play(ctx context.Context) error { return e.on(ctx, e.object, e.event) }

// wire does so from the object's bytes.
func (e *engine) wire(ctx context.Context) error {
	o, err := e.read()
	if err != nil {
		return err
	}
	return e.on(ctx, o, eventOf(o))
}

func (e *engine) on(ctx context.Context, o object, event *lifecycle.Event) error {
	stage, err := e.stages.Match(ctx, event)
	if err != nil || stage == nil {
		return errors.Join(errors.New("no stage matches"), err)
	}
	if _, _, err := stage.Delay(ctx, event, time.Unix(1767323045, 0)); err != nil {
		return err
	}
	_, err = stage.DoSteps(0, o.GetFinalizers(), o, e.renderer,
		func(*internalversion.StageEvent) error { return nil },
		func() error { return nil },
		func(*lifecycle.Patch) error { return nil },
		func(*lifecycle.Apply) error { return nil },
	)
	return err
}

// reader returns what reads the object from its protobuf form, which is how the
// controller gets pods and nodes; nil for other kinds, which it reads from JSON.
func reader(o object) (func() (object, error), error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write object: %w", err)
	}
	switch o.GetObjectKind().GroupVersionKind().Kind {
	case "Pod":
		return typed(raw, func() *corev1.Pod { return &corev1.Pod{} })
	case "Node":
		return typed(raw, func() *corev1.Node { return &corev1.Node{} })
	}
	return nil, nil
}

// message is an object with a protobuf form.
type message interface {
	object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func typed[T message](raw []byte, empty func() T) (func() (object, error), error) {
	o := empty()
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	wire, err := o.Marshal()
	if err != nil {
		return nil, fmt.Errorf("write object: %w", err)
	}
	return func() (object, error) {
		o := empty()
		return o, o.Unmarshal(wire)
	}, nil
}
