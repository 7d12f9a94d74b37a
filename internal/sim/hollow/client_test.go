package hollow_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// one returns a cluster of a new server that ends with the test.
func one(t testing.TB, o hollow.Options) *hollow.Cluster {
	t.Helper()
	s := repotest.Must(hollow.New(o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return repotest.Must(s.Cluster("one"))(t)
}

// start returns a client of a new cluster that sends and asks for a media type.
func start(t testing.TB, media string) (*hollow.Cluster, kubernetes.Interface) {
	t.Helper()
	c := one(t, hollow.Options{})
	config := c.Endpoint().Config("hollow-test")
	config.ContentType, config.AcceptContentTypes = media, media
	client := repotest.Must(kubernetes.NewForConfig(config))(t)
	return c, client
}

func TestInformerFollows(t *testing.T) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) { follow(t, media) })
	}
}

// follow changes configmaps under an informer, which must end with what there is,
// also after the past was forgotten.
func follow(t *testing.T, media string) {
	cluster, client := start(t, media)
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	deleted := make(chan string, 10)
	informer := factory.Core().V1().ConfigMaps()
	repotest.Must(informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
		if m, ok := o.(*corev1.ConfigMap); ok {
			deleted <- m.Name
		}
	}}))(t)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	seen := func(name, want string) func() bool {
		return func() bool {
			m, err := informer.Lister().ConfigMaps("default").Get(name)
			return err == nil && m.Data["a"] == want
		}
	}
	if !seen("early", "")() {
		t.Fatal("a synced informer does not have what there was")
	}
	made, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	if err != nil || made.UID == "" || made.Name == "late-" {
		t.Fatalf("%+v, %v", made, err)
	}
	repotest.Eventually(t, "the informer sees a new object", seen(made.Name, "1"))
	cluster.Compact()
	if _, err := maps.Patch(t.Context(), made.Name, types.StrategicMergePatchType, []byte(`{"data":{"a":"2"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	repotest.Eventually(t, "the informer sees a change after the past was forgotten", seen(made.Name, "2"))
	stale := made.DeepCopy()
	if _, err := maps.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	repotest.NoError(t, maps.Delete(t.Context(), made.Name, metav1.DeleteOptions{}))
	select {
	case name := <-deleted:
		if name != made.Name {
			t.Errorf("%s was deleted", name)
		}
	case <-time.After(time.Minute):
		t.Error("the informer sees no deletion")
	}
	if all, err := informer.Lister().List(labels.Everything()); err != nil || len(all) != 1 {
		t.Errorf("%d left, %v", len(all), err)
	}
}

func TestTokenThatExpired(t *testing.T) {
	cluster, client := start(t, "application/json")
	cluster.SetToken("another")
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Error(err)
	}
}

func TestManyClusters(t *testing.T) {
	for _, shared := range []bool{false, true} {
		s := repotest.Must(hollow.New(hollow.Options{Shared: shared}))(t)
		defer s.Close()
		for _, name := range []string{"a", "b"} {
			c := repotest.Must(s.Cluster(name))(t)
			client := kubernetes.NewForConfigOrDie(c.Endpoint().Config("test"))
			if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/metadata.name in (a,b)"})
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != name {
				t.Errorf("shared %t, cluster %s: %v, %v", shared, name, list, err)
			}
		}
	}
}

func TestOpenAPI(t *testing.T) {
	_, client := start(t, "application/json")
	paths := repotest.Must(client.Discovery().OpenAPIV3().Paths())(t)
	raw := repotest.Must(paths["api/v1"].Schema("application/json"))(t)
	var doc struct {
		Paths      map[string]map[string]struct{ Parameters []struct{ Name string } }
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any
			}
		}
	}
	repotest.NoError(t, json.Unmarshal(raw, &doc))
	patch := doc.Paths["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"].Parameters
	if !slices.ContainsFunc(patch, func(p struct{ Name string }) bool { return p.Name == "fieldValidation" }) {
		t.Errorf("a patch of pods takes %v: kubectl looks for fieldValidation", patch)
	}
	containers := doc.Components.Schemas["io.k8s.api.core.v1.PodSpec"].Properties["containers"]
	if containers["x-kubernetes-patch-merge-key"] != "name" || containers["x-kubernetes-patch-strategy"] != "merge" {
		t.Errorf("containers: %v", containers)
	}
	old, err := client.Discovery().OpenAPISchema()
	if err != nil || len(old.Definitions.AdditionalProperties) < 100 {
		t.Errorf("version 2: %v", err)
	}
}
