package subject_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// server is as much of an API server as an installer needs. A definition is
// established a second after it was made, and served a second later.
type server struct {
	mu      sync.Mutex
	begin   time.Time
	objects map[string]time.Time // path -> when it was made
	said    []string             // changes, as METHOD PATH
	refuse  map[string]int       // path -> code of PATCH, until it is taken out
	names   string               // status of NamesAccepted
}

const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org"

func newServer() *server {
	return &server{begin: time.Now(), objects: map[string]time.Time{}, refuse: map[string]int{}, names: "True"}
}

func (s *server) Do(_ context.Context, req *wire.Request) (*wire.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, query, _ := strings.Cut(req.Path, "?")
	if req.Method != http.MethodGet {
		s.said = append(s.said, req.Method+" "+path)
	}
	age := func(of string) time.Duration {
		if at, ok := s.objects[of]; ok {
			return time.Since(at)
		}
		return -1
	}
	switch {
	case req.Method == http.MethodPatch:
		if code := s.refuse[path]; code != 0 {
			return &wire.Response{Code: code, Body: []byte("no")}, nil
		}
		if !strings.Contains(query, "fieldManager=windtunnel") || req.ContentType != "application/apply-patch+yaml" {
			return &wire.Response{Code: 415}, nil
		}
		s.objects[path] = time.Now()
		return &wire.Response{Code: 200}, nil
	case req.Method == http.MethodDelete:
		delete(s.objects, path)
		return &wire.Response{Code: 200}, nil
	case path == "/api/v1":
		return answer(`{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true},{"name":"namespaces","kind":"Namespace"}]}`)
	case path == "/apis/apiextensions.k8s.io/v1":
		return answer(`{"resources":[{"name":"customresourcedefinitions","kind":"CustomResourceDefinition"}]}`)
	case path == "/apis/example.org/v1" && age(crd) > time.Second:
		return answer(`{"resources":[{"name":"widgets","kind":"Widget","namespaced":true}]}`)
	case path == "/apis/example.org/v1/widgets" && age(crd) > 2*time.Second:
		return answer(`{"items":[]}`)
	case path == crd && age(crd) >= 0:
		established := "False"
		if age(crd) > time.Second {
			established = "True"
		}
		return answer(fmt.Sprintf(`{"status":{"conditions":[{"type":"NamesAccepted","status":%q,"message":"taken"},{"type":"Established","status":%q}]}}`, s.names, established))
	case age(path) >= 0:
		return answer(`{}`)
	}
	return &wire.Response{Code: 404}, nil
}

func answer(body string) (*wire.Response, error) {
	return &wire.Response{Code: 200, Body: []byte(body)}, nil
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec: {group: example.org, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true}, {name: v0, served: false}]}
`

func decoded(t *testing.T, text string) []subject.Object {
	t.Helper()
	return repotest.Must(subject.Decode("f.yaml", []byte(text)))(t)
}

func TestADefinitionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		i := subject.NewInstaller(s, subject.Owner{})
		repotest.NoError(t, i.Apply(t.Context(), decoded(t, definition)))
		if took := time.Since(s.begin); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("done after %v; it is served after 2 s", took)
		}
		repotest.NoError(t, i.Apply(t.Context(), decoded(t, "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w, namespace: ns}\n")))
		if _, ok := s.objects["/apis/example.org/v1/namespaces/ns/widgets/w"]; !ok {
			t.Errorf("there are %v", s.objects)
		}
	})
}

func TestWhatWasAppliedIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := subject.NewInstaller(newServer(), subject.Owner{})
		repotest.NoError(t, i.Apply(t.Context(), decoded(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: new}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")))
		if !i.Has("configmaps", "default", "m") || !i.Has("namespaces", "", "new") || i.Has("configmaps", "ns", "m") || (*subject.Installer)(nil).Has("a", "b", "c") {
			t.Error("what was applied is not known")
		}
	})
}

func TestWhatCannotBeApplied(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		prepare          func(*server)
		atLeast          time.Duration
	}{
		{"refused for good", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n", "f.yaml: document 1: apply ConfigMap m: status 422: no",
			func(s *server) { s.refuse["/api/v1/namespaces/default/configmaps/m"] = 422 }, 0},
		{"a server that stays ill", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n", "f.yaml: document 1: apply ConfigMap m: not done within 30s: status 500: no",
			func(s *server) { s.refuse["/api/v1/namespaces/default/configmaps/m"] = 500 }, 29 * time.Second},
		{"a kind that is not served", "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\n",
			"f.yaml: document 1: apply Widget w: not done within 30s: Widget of example.org/v1: the plane does not serve it", func(*server) {}, 29 * time.Second},
		{"names that are taken", definition, "f.yaml: document 1: apply CustomResourceDefinition widgets.example.org: its names are not accepted: taken",
			func(s *server) { s.names = "False" }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			tt.prepare(s)
			err := subject.NewInstaller(s, subject.Owner{}).Apply(t.Context(), decoded(t, tt.text))
			if took := time.Since(s.begin); fmt.Sprint(err) != tt.want || took < tt.atLeast {
				t.Errorf("%s: after %v:\n got %v\nwant %s", tt.name, took, err, tt.want)
			}
		})
	}
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		const path = "/api/v1/namespaces/default/configmaps/m"
		s.refuse[path] = 429
		go func() {
			time.Sleep(3 * time.Second)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.refuse, path)
		}()
		if err := subject.NewInstaller(s, subject.Owner{}).Apply(t.Context(), decoded(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")); err != nil {
			t.Error(err)
		}
	})
}
