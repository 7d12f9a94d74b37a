package registry_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// epoch is the time at which traces begin.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// traced is a registry whose events and tasks are noted.
type traced struct {
	*registry.Registry
	now    time.Time
	events []string
	tasks  []registry.Task
	uids   int
}

func newTraced(rootCA string) *traced {
	z := &traced{now: epoch}
	s := store.New(store.Options{Clock: clock.Start(), History: time.Hour, Notify: func(t *store.Table, e *store.Event) {
		z.events = append(z.events, z.describe(t, e))
	}})
	z.Registry = registry.New(registry.Options{
		Store: s, RootCA: rootCA,
		NewUID:    func() types.UID { z.uids++; return types.UID(fmt.Sprint("uid-", z.uids)) },
		NewSuffix: func() string { return "xxxxx" },
	})
	return z
}

// describe writes an event as a line.
func (z *traced) describe(t *store.Table, e *store.Event) string {
	verb := "add"
	switch {
	case e.Deleted:
		verb = "remove"
	case e.Before != nil:
		verb = "modify"
	}
	line := fmt.Sprintf("%s %s %s v%d", verb, t.Name, e.Object.Key, e.Version)
	k := z.Kinds().OfTable(t.Name)
	if k == nil || e.Deleted {
		return line
	}
	m := k.Metadata(e.Object.Raw)
	if m.Generation > 0 {
		line += fmt.Sprint(" generation=", m.Generation)
	}
	if m.DeletionTimestamp != nil {
		line += " deletion=" + m.DeletionTimestamp.Sub(epoch).String()
	}
	if len(m.Finalizers) > 0 {
		line += " finalizers=" + strings.Join(m.Finalizers, ",")
	}
	for _, o := range m.OwnerReferences {
		line += " owner=" + o.Name
	}
	return line
}

// find returns the target that the first two words of a step name.
func (z *traced) find(s repotest.Step) registry.Target {
	for _, k := range z.Kinds().All() {
		if k.Table() == s.Words[0] {
			t := registry.Target{Kind: k, Sub: s.Args["sub"]}
			t.Namespace, t.Name = kind.SplitKey(s.Words[1])
			return t
		}
	}
	return registry.Target{}
}

// decode reads the object of a step: YAML to which its name is added.
func (z *traced) decode(t *testing.T, target registry.Target, input string) runtime.Object {
	t.Helper()
	var tree map[string]any
	repotest.NoError(t, yaml.Unmarshal([]byte(input), &tree))
	u := unstructured.Unstructured{Object: tree}
	if tree == nil {
		u.Object = map[string]any{}
	}
	u.SetGroupVersionKind(target.Kind.GVK())
	if u.GetGenerateName() == "" {
		u.SetName(target.Name)
	}
	raw := repotest.Must(u.MarshalJSON())(t)
	o, unknown, err := codec.Decode(target.Kind, raw)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("%v: %v, %v", input, unknown, err)
	}
	return o
}

func (z *traced) play(t *testing.T, s repotest.Step) string {
	if at := s.Args["at"]; at != "" {
		d := repotest.Must(time.ParseDuration(at))(t)
		z.now = epoch.Add(d)
	}
	z.events = nil
	before := len(z.tasks)
	text, err := z.carryOut(t, s)
	var out []string
	if err != nil {
		out = append(out, refusal(err))
	}
	out = append(out, z.events...)
	if s.Name == "do" {
		before = 0
	}
	for _, task := range z.tasks[before:] {
		line := fmt.Sprintf("task %s", task.Verb)
		if task.Kind != nil {
			line += " " + task.Kind.Table()
		}
		out = append(out, line+" "+task.Key)
	}
	if text != "" {
		out = append(out, text)
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}

// refusal writes an error as an API server answers it.
func refusal(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "refused: " + err.Error()
	}
	return fmt.Sprintf("refused %d %s: %s", status.Status().Code, status.Status().Reason, status.Status().Message)
}

// carryOut does what a step says and returns what it reads.
func (z *traced) carryOut(t *testing.T, s repotest.Step) (text string, err error) {
	if s.Name == "do" {
		return "", z.doTask(t)
	}
	target := z.find(s)
	if target.Kind == nil {
		return "no resource " + s.Words[0], nil
	}
	w := registry.Write{Target: target, Now: z.now, DryRun: slices.Contains(s.Words, "dry-run"), Manager: s.Args["manager"]}
	var r registry.Result
	switch s.Name {
	case "create":
		o := z.decode(t, target, s.Input)
		if w.Name == "-" {
			w.Name = ""
			kind.Meta(o).SetName("")
		}
		r, err = z.Create(w, o)
	case "put":
		o := z.decode(t, target, s.Input)
		r, err = z.Change(registry.Change{Write: w, Create: target.Kind.PutCreates, UID: kind.Meta(o).GetUID(), Replace: func(runtime.Object, time.Time) (runtime.Object, error) { return o, nil }})
	case "patch":
		r, err = z.Change(registry.Change{Write: w, Replace: registry.PatchBy(types.MergePatchType, target, toJSON(t, s.Input), nil)})
	case "apply":
		w.Applied = true
		config := &unstructured.Unstructured{Object: z.decodeTree(t, target, s.Input)}
		r, err = z.Change(registry.Change{Write: w, Create: true, Replace: z.ApplyBy(target, config, w.Manager, slices.Contains(s.Words, "force"))})
	case "delete":
		r, err = z.Delete(w, deleteOptions(s))
	case "bind":
		r, err = z.Change(z.Bind(w, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: target.Name}, Target: corev1.ObjectReference{Name: s.Args["node"]}}))
	case "evict":
		var changes []registry.Change
		changes, err = z.Disruptions(w)
		for _, ch := range changes {
			if err == nil {
				_, err = z.Change(ch)
			}
		}
		if err == nil {
			r, err = z.Delete(w, metav1.DeleteOptions{})
		}
	case "renew":
		z.tasks = append(z.tasks, z.RenewLease(target.Name, 40, z.now)...)
	case "show":
		return z.show(t, target), nil
	default:
		t.Fatalf("no command %s", s.Name)
	}
	z.tasks = append(z.tasks, r.Tasks...)
	if w.DryRun && err == nil {
		text = fmt.Sprintf("would answer with %s: gone=%t", r.Metadata().Name, r.Gone)
	}
	return text, err
}

// doTask carries out the first task.
func (z *traced) doTask(t *testing.T) error {
	t.Helper()
	if len(z.tasks) == 0 {
		return errors.New("no task waits")
	}
	task := z.tasks[0]
	z.tasks = append(z.tasks[1:], z.Do(task, z.now)...)
	return nil
}

func deleteOptions(s repotest.Step) (o metav1.DeleteOptions) {
	if grace, ok := s.Args["grace"]; ok {
		n, _ := strconv.ParseInt(grace, 10, 64)
		o.GracePeriodSeconds = &n
	}
	if policy, ok := s.Args["policy"]; ok {
		o.PropagationPolicy = (*metav1.DeletionPropagation)(&policy)
	}
	if uid, ok := s.Args["uid"]; ok {
		o.Preconditions = &metav1.Preconditions{UID: (*types.UID)(&uid)}
	}
	if version, ok := s.Args["version"]; ok {
		o.Preconditions = &metav1.Preconditions{ResourceVersion: &version}
	}
	return o
}

func toJSON(t *testing.T, input string) []byte {
	t.Helper()
	return repotest.Must(yaml.YAMLToJSON([]byte(input)))(t)
}

func (z *traced) decodeTree(t *testing.T, target registry.Target, input string) map[string]any {
	t.Helper()
	tree := map[string]any{}
	repotest.NoError(t, yaml.Unmarshal([]byte(input), &tree))
	u := unstructured.Unstructured{Object: tree}
	u.SetGroupVersionKind(target.Kind.GVK())
	u.SetName(target.Name)
	u.SetNamespace(target.Namespace)
	return u.Object
}

// show returns an object in YAML.
func (z *traced) show(t *testing.T, target registry.Target) string {
	t.Helper()
	o := z.Table(target.Kind).Get(target.Key())
	if o == nil {
		return "not found"
	}
	raw := repotest.Must(target.Kind.JSON(o.Raw))(t)
	out := repotest.Must(yaml.JSONToYAML(raw))(t)
	return string(out)
}

// TestTrace plays testdata/registry.trace, whose first lines say what its commands mean.
func TestTrace(t *testing.T) {
	var z *traced
	repotest.Trace(t, "testdata/registry.trace", func(t *testing.T, s repotest.Step) string {
		if s.Name != "registry" {
			return z.play(t, s)
		}
		z = newTraced(s.Args["root-ca"])
		for _, namespace := range s.Words {
			z.play(t, repotest.Step{Name: "create", Words: []string{"namespaces", namespace}})
		}
		return "at version " + strconv.FormatUint(z.Store().Version(), 10)
	})
}
