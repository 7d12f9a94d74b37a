// Package flighttest is as much of an API server, and of a component with
// metrics, as tests of the executor need. The server keeps objects of any
// resource, in JSON, and knows nothing of what they mean.
package flighttest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/load"
)

// Server keeps objects of any
// resource by their paths, in JSON, and shows their changes to watches. It does
// not know what a patch means: it counts them in metadata.annotations.patches.
type Server struct {
	Mu      sync.Mutex                // of all that follows
	Objects map[string]map[string]any // by path
	calls   []string                  // "METHOD PATH" in the order of their arrival, without reads of discovery
	Bodies  map[string]string         // of the last call of each
	Packed  int                       // bodies in protobuf
	version int
	changed *sync.Cond
	events  []event
	Refuse  func(method, path string) int // a status in place of an answer; 0: none
}

type event struct {
	kind, path string
	object     []byte
}

const discoveryText = `{"/api/v1":[["configmaps","ConfigMap",true],["namespaces","Namespace",false],["pods","Pod",true]],"/apis/apps/v1":[["deployments","Deployment",true]]}`

// NewServer returns an empty server.
func NewServer() *Server {
	s := &Server{Objects: map[string]map[string]any{}, Bodies: map[string]string{}}
	s.changed = sync.NewCond(&s.Mu)
	return s
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.discover(w, r.URL.Path) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	packed := r.Header.Get("Content-Type") == load.Protobuf
	if packed {
		body = inJSON(body)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if packed {
		s.Packed++
	}
	call := r.Method + " " + r.URL.Path
	s.calls, s.Bodies[call] = append(s.calls, call), string(body)
	if s.Refuse != nil {
		if code := s.Refuse(r.Method, r.URL.Path); code != 0 {
			w.WriteHeader(code)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet && s.Objects[r.URL.Path] == nil && collection(r.URL.Path):
		s.list(w, r.URL.Path)
	case r.Method == http.MethodPost:
		s.create(w, r.URL.Path, body)
	default:
		s.one(w, r, body)
	}
}

// inJSON returns a protobuf body as JSON.
func inJSON(body []byte) []byte {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		panic(err)
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	out, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return out
}

func (s *Server) discover(w http.ResponseWriter, path string) bool {
	var all map[string][][]any
	if err := json.Unmarshal([]byte(discoveryText), &all); err != nil {
		panic(err)
	}
	switch list, ok := all[path]; {
	case path == "/apis":
		fmt.Fprint(w, `{"groups":[{"name":"apps","preferredVersion":{"groupVersion":"apps/v1"}}]}`)
	case ok:
		var out []map[string]any
		for _, one := range list {
			out = append(out, map[string]any{"name": one[0], "kind": one[1], "namespaced": one[2]})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"resources": out})
	default:
		return false
	}
	return true
}

// collection tells paths of collections from those of objects.
func collection(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := len(parts) - 2 // without /api/v1
	if parts[0] == "apis" {
		n--
	}
	return n%2 == 1
}

// Change stores or deletes an object and shows it to watches; the caller holds Mu.
func (s *Server) Change(kind, path string, object map[string]any) {
	s.version++
	metadata := object["metadata"].(map[string]any)
	metadata["resourceVersion"] = strconv.Itoa(s.version)
	if parts := strings.Split(path, "/namespaces/"); len(parts) == 2 && strings.Contains(parts[1], "/") {
		metadata["namespace"], _, _ = strings.Cut(parts[1], "/")
	}
	raw, _ := json.Marshal(object)
	s.events = append(s.events, event{kind, path, raw})
	if s.Objects[path] = object; kind == "DELETED" {
		delete(s.Objects, path)
	}
	s.changed.Broadcast()
}

// inside tells whether an object belongs to a collection, of one namespace or
// of all.
func inside(object, in string) bool {
	folder := object[:strings.LastIndex(object, "/")]
	if folder == in {
		return true
	}
	root, resource := in[:strings.LastIndex(in, "/")], in[strings.LastIndex(in, "/"):]
	return strings.HasPrefix(folder, root+"/namespaces/") && strings.HasSuffix(folder, resource)
}

func (s *Server) list(w http.ResponseWriter, path string) {
	items := []any{}
	for _, p := range slices.Sorted(maps.Keys(s.Objects)) {
		if inside(p, path) {
			items = append(items, s.Objects[p])
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items})
}

// watch sends events until the client goes; callers hold mu.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	next := len(s.events)
	if from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion")); err == nil {
		next = from // each event has a version of its own
	}
	stop := make(chan struct{})
	go func() { <-r.Context().Done(); close(stop); s.changed.Broadcast() }()
	w.(http.Flusher).Flush()
	for {
		for ; next < len(s.events); next++ {
			if e := s.events[next]; inside(e.path, r.URL.Path) {
				fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", e.kind, e.object)
				w.(http.Flusher).Flush()
			}
		}
		select {
		case <-stop:
			return
		default:
			s.changed.Wait()
		}
	}
}

func (s *Server) create(w http.ResponseWriter, path string, body []byte) {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	at := path + "/" + name
	if s.Objects[at] != nil {
		w.WriteHeader(http.StatusConflict)
		return
	}
	s.Change("ADDED", at, object)
	w.WriteHeader(http.StatusCreated)
}

func (s *Server) one(w http.ResponseWriter, r *http.Request, body []byte) {
	object := s.Objects[r.URL.Path]
	if object == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet:
		_ = json.NewEncoder(w).Encode(object)
	case http.MethodDelete:
		s.Change("DELETED", r.URL.Path, object)
	case http.MethodPatch:
		metadata := object["metadata"].(map[string]any)
		n, _ := metadata["patches"].(int)
		metadata["patches"] = n + 1
		s.Change("MODIFIED", r.URL.Path, object)
	case http.MethodPut:
		var put map[string]any
		if json.Unmarshal(body, &put) != nil || put["metadata"].(map[string]any)["resourceVersion"] != object["metadata"].(map[string]any)["resourceVersion"] {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.Change("MODIFIED", r.URL.Path, put)
	}
}

// Names lists the objects of a collection as NAMESPACE/NAME.
func (s *Server) Names(in string) []string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var out []string
	for p := range s.Objects {
		if inside(p, in) {
			parts := strings.Split(p, "/")
			name := parts[len(parts)-1]
			if strings.Contains(p, "/namespaces/") && parts[len(parts)-2] != "namespaces" {
				name = parts[len(parts)-3] + "/" + name
			}
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Count is how many calls began with a text.
func (s *Server) Count(prefix string) int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// Endpoint serves it over TLS until the test ends.
func (s *Server) Endpoint(t *testing.T) endpoint.Endpoint {
	t.Helper()
	served := httptest.NewUnstartedServer(s)
	served.EnableHTTP2 = true
	served.Config.ErrorLog = log.New(io.Discard, "", 0)
	served.StartTLS()
	t.Cleanup(served.Close)
	return over(served)
}

func over(s *httptest.Server) endpoint.Endpoint {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return endpoint.New(s.URL, ca, endpoint.Identity{})
}
