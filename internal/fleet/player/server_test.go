package player_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

type object = map[string]any

// server is an API server with one custom resource, widgets.example.org/v1,
// that understands merge patches, and takes events.
type server struct {
	mu      sync.Mutex
	version int
	objects map[string]object // by namespace/name
	watches map[chan []byte]bool
	calls   []string       // METHOD path
	refuse  map[string]int // by the call's beginning: code to answer once
	events  []object
}

func newServer(t *testing.T) (*server, *wire.Client, clock.Clock) {
	t.Helper()
	s := &server{version: 10, objects: map[string]object{}, watches: map[chan []byte]bool{}, refuse: map[string]int{}}
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(h.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	watch := clock.Start()
	c, err := wire.New(endpoint.New(h.URL, ca, endpoint.Identity{}), wire.Options{Clock: watch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, c, watch
}

func meta(o object) object { return o["metadata"].(object) }

// put stores an object and tells the watches; callers hold mu.
func (s *server) put(kind string, o object) {
	s.version++
	meta(o)["resourceVersion"] = strconv.Itoa(s.version)
	key := fmt.Sprint(meta(o)["namespace"], "/", meta(o)["name"])
	s.objects[key] = o
	if kind == "DELETED" {
		delete(s.objects, key)
	}
	raw, _ := json.Marshal(object{"type": kind, "object": o})
	for w := range s.watches {
		w <- append(raw, '\n')
	}
}

// create makes a widget as a user would.
func (s *server) create(name string, spec object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put("ADDED", object{
		"apiVersion": "example.org/v1", "kind": "Widget", "spec": spec,
		"metadata": object{"name": name, "namespace": "ns", "uid": "uid-" + name + strconv.Itoa(s.version)},
	})
}

func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put("DELETED", s.objects["ns/"+name])
}

func (s *server) get(name string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects["ns/"+name])
}

func (s *server) status(name, field string) any {
	st, _ := s.get(name)["status"].(object)
	return st[field]
}

// count counts the calls that begin so.
func (s *server) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + r.URL.Path
	if r.URL.Query().Get("watch") != "" {
		call = "WATCH " + r.URL.Path
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	for prefix, code := range s.refuse {
		if strings.HasPrefix(call, prefix) {
			delete(s.refuse, prefix)
			answer(w, code, object{"kind": "Status", "code": code, "message": "refused on purpose"})
			return
		}
	}
	const all = "/apis/example.org/v1/widgets"
	switch {
	case r.URL.Path == "/apis/example.org/v1":
		answer(w, 200, object{"resources": []any{object{"name": "widgets", "kind": "Widget", "namespaced": true}, object{"name": "gadgets", "kind": "Gadget", "namespaced": true}}})
	case strings.HasPrefix(call, "WATCH"):
		s.watch(w, r)
	case call == "GET "+all:
		answer(w, 200, object{"metadata": object{"resourceVersion": strconv.Itoa(s.version)}, "items": slices.Collect(maps.Values(s.objects))})
	case strings.HasSuffix(call, "/events"):
		var e object
		_ = json.NewDecoder(r.Body).Decode(&e)
		s.events = append(s.events, e)
		answer(w, 201, e)
	default:
		s.one(w, r)
	}
}

// one serves a single object.
func (s *server) one(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/example.org/v1/namespaces/"), "/")
	var body object
	_ = json.NewDecoder(r.Body).Decode(&body)
	if r.Method == http.MethodPost {
		key := parts[0] + "/" + meta(body)["name"].(string)
		if s.objects[key] != nil {
			answer(w, 409, object{"code": 409, "reason": "AlreadyExists"})
			return
		}
		meta(body)["namespace"], meta(body)["uid"] = parts[0], "uid-"+key
		s.put("ADDED", body)
		answer(w, 201, body)
		return
	}
	o := s.objects[parts[0]+"/"+parts[2]]
	switch {
	case o == nil:
		answer(w, 404, object{"code": 404})
	case r.Method == http.MethodGet:
		answer(w, 200, o)
	case r.Method == http.MethodDelete:
		s.put("DELETED", o)
		answer(w, 200, o)
	case r.Method == http.MethodPatch:
		next := merge(o, body).(object)
		if a, b := text(o), text(next); a != b {
			s.put("MODIFIED", next)
		}
		answer(w, 200, next)
	}
}

func text(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// merge applies a merge patch to a copy.
func merge(target, patch any) any {
	p, ok := patch.(object)
	if !ok {
		return patch
	}
	t, _ := target.(object)
	out := maps.Clone(t)
	if out == nil {
		out = object{}
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	c := make(chan []byte, 10000)
	if from < s.version { // what happened meanwhile is not kept here
		answer(w, 410, object{"code": 410})
		return
	}
	s.watches[c] = true
	s.mu.Unlock()
	defer s.mu.Lock()
	w.(http.Flusher).Flush()
	for {
		select {
		case raw, ok := <-c:
			if !ok {
				return
			}
			_, _ = w.Write(raw)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			s.mu.Lock()
			delete(s.watches, c)
			s.mu.Unlock()
			return
		}
	}
}

func answer(w http.ResponseWriter, code int, o object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
}
