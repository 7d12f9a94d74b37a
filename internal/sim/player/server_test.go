package player_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

type object = map[string]any

const widgets = "/apis/example.org/v1/namespaces/ns/widgets/"

// server is an API server with custom resources of example.org/v1.
type server struct{ *apitest.Server }

func newServer(t *testing.T) (server, *wire.Client, clock.Clock) {
	t.Helper()
	s := apitest.New(t, apitest.Resource{Version: "example.org/v1", Plural: "widgets", Kind: "Widget", Namespaced: true},
		apitest.Resource{Version: "example.org/v1", Plural: "gadgets", Kind: "Gadget", Namespaced: true})
	c := clock.Start()
	return server{s}, apitest.Client(t, s.Endpoint(), c), c
}

// create makes a widget as a user would.
func (s server) create(name string, spec object) { s.Add(widgets+name, object{"spec": spec}) }

func (s server) remove(name string) { s.Remove(widgets + name) }

func (s server) status(name, field string) any {
	o := s.Get(widgets + name)
	if o == nil {
		return nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", field)
	return value
}

// refuse answers the next call that begins so with a code.
func (s server) refuse(call string, code int) {
	var once sync.Once
	s.Inject(func(r *http.Request) (f *apitest.Injection) {
		if strings.HasPrefix(r.Method+" "+r.URL.Path, call) && r.URL.Query().Get("watch") == "" {
			once.Do(func() { f = &apitest.Injection{Code: code} })
		}
		return f
	})
}

// events are those that the player has written.
func (s server) events() []*apitest.Object { return s.Objects("/api/v1/events") }
