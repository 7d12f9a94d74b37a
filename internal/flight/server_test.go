package flight

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// server is as much of an API server as steps need: it keeps objects of any
// resource by their paths, in JSON, and shows their changes to watches. It does
// not know what a patch means: it counts them in metadata.annotations.patches.
type server struct {
	mu      sync.Mutex
	objects map[string]map[string]any // by path
	calls   []string                  // "METHOD PATH" in the order of their arrival, without reads of discovery
	bodies  map[string]string         // of the last call of each
	packed  int                       // bodies in protobuf
	version int
	changed *sync.Cond
	events  []event
	refuse  func(method, path string) int // a status in place of an answer; 0: none
}

type event struct {
	kind, path string
	object     []byte
}

const discoveryText = `{"/api/v1":[["configmaps","ConfigMap",true],["namespaces","Namespace",false],["pods","Pod",true]],"/apis/apps/v1":[["deployments","Deployment",true]]}`

func newServer() *server {
	s := &server{objects: map[string]map[string]any{}, bodies: map[string]string{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.discover(w, r.URL.Path) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	packed := r.Header.Get("Content-Type") == load.Protobuf
	if packed {
		body = inJSON(body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if packed {
		s.packed++
	}
	call := r.Method + " " + r.URL.Path
	s.calls, s.bodies[call] = append(s.calls, call), string(body)
	if s.refuse != nil {
		if code := s.refuse(r.Method, r.URL.Path); code != 0 {
			w.WriteHeader(code)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet && s.objects[r.URL.Path] == nil && collection(r.URL.Path):
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

func (s *server) discover(w http.ResponseWriter, path string) bool {
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

func (s *server) change(kind, path string, object map[string]any) {
	s.version++
	metadata := object["metadata"].(map[string]any)
	metadata["resourceVersion"] = strconv.Itoa(s.version)
	if parts := strings.Split(path, "/namespaces/"); len(parts) == 2 && strings.Contains(parts[1], "/") {
		metadata["namespace"], _, _ = strings.Cut(parts[1], "/")
	}
	raw, _ := json.Marshal(object)
	s.events = append(s.events, event{kind, path, raw})
	if s.objects[path] = object; kind == "DELETED" {
		delete(s.objects, path)
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

func (s *server) list(w http.ResponseWriter, path string) {
	items := []any{}
	for _, p := range slices.Sorted(maps.Keys(s.objects)) {
		if inside(p, path) {
			items = append(items, s.objects[p])
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items})
}

// watch sends events until the client goes; callers hold mu.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
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

func (s *server) create(w http.ResponseWriter, path string, body []byte) {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	at := path + "/" + name
	if s.objects[at] != nil {
		w.WriteHeader(http.StatusConflict)
		return
	}
	s.change("ADDED", at, object)
	w.WriteHeader(http.StatusCreated)
}

func (s *server) one(w http.ResponseWriter, r *http.Request, body []byte) {
	object := s.objects[r.URL.Path]
	if object == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet:
		_ = json.NewEncoder(w).Encode(object)
	case http.MethodDelete:
		s.change("DELETED", r.URL.Path, object)
	case http.MethodPatch:
		metadata := object["metadata"].(map[string]any)
		n, _ := metadata["patches"].(int)
		metadata["patches"] = n + 1
		s.change("MODIFIED", r.URL.Path, object)
	case http.MethodPut:
		var put map[string]any
		if json.Unmarshal(body, &put) != nil || put["metadata"].(map[string]any)["resourceVersion"] != object["metadata"].(map[string]any)["resourceVersion"] {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.change("MODIFIED", r.URL.Path, put)
	}
}

// names lists the objects of a collection as NAMESPACE/NAME.
func (s *server) names(in string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for p := range s.objects {
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

// count is how many calls began with a text.
func (s *server) count(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// bench is a run without a plane: its steps go to a server of the test.
type bench struct {
	*run
	server *server
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	sc.Gate.Tolerate = append(sc.Gate.Tolerate, preflight.Host) // the machine that tests run on is not looked at
	b := &bench{server: newServer(), run: &run{
		options: Options{File: file}, scenario: sc, clock: clock.Start(), made: map[string]*made{}, log: slog.New(slog.DiscardHandler), faults: &faults{},
	}}
	if err := b.compile(); err != nil {
		t.Fatal(err)
	}
	if b.dir, err = record.CreateDir(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	if b.records, err = record.Create(b.dir.File(record.StreamFile)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.records.Close() })
	b.status, b.life = newBoard(b.run), lifecycle.New(b.records)
	b.connect(t)
	return b
}

func (b *bench) connect(t *testing.T) {
	t.Helper()
	served := httptest.NewUnstartedServer(b.server)
	served.EnableHTTP2 = true
	served.Config.ErrorLog = log.New(io.Discard, "", 0)
	served.StartTLS()
	t.Cleanup(served.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw})
	e := endpoint.New(served.URL, ca, endpoint.Identity{})
	var err error
	if b.watcher, err = wire.New(e, wire.Options{Clock: b.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.watcher.Close() })
	if b.generator, err = load.New(load.Options{Endpoint: e, Records: b.records, Clock: b.clock, Connections: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.generator.Close() })
	b.status.follow(b.generator, nil)
}
