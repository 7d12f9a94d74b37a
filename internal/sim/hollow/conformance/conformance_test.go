// Package conformance_test holds that a hollow cluster answers as a real API server
// does: the same calls are made of both, and both must give the answers that stand
// in testdata. What differs is declared there, with differs=REASON.
package conformance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestHollow(t *testing.T) {
	for _, path := range traces(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s := repotest.Must(hollow.New(hollow.Options{}))(t)
			t.Cleanup(func() { _ = s.Close() })
			c := repotest.Must(s.Cluster("one"))(t)
			play(t, path, c.Endpoint(), false)
		})
	}
}

func TestReal(t *testing.T) {
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() { _ = p.Close() })
	for _, path := range traces(t) {
		t.Run(filepath.Base(path), func(t *testing.T) { play(t, path, p.Endpoint("admin"), true) })
	}
}

func traces(t *testing.T) []string { return glob(t, "testdata/*.txt") }

func glob(t *testing.T, pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	return paths
}

// player makes the calls of a trace.
type player struct {
	client  *http.Client
	server  string
	real    bool
	names   map[string]string // of uids, versions and generated names, by what they are
	saved   map[string]string // NAME.uid and NAME.version of the objects that were answered
	watches map[string]*watch
}

// play plays a trace on an API server.
func play(t *testing.T, path string, e endpoint.Endpoint, real bool) {
	repotest.Trace(t, path, newPlayer(t, e, real).step)
}

func (p *player) step(t *testing.T, s repotest.Step) string {
	t.Helper()
	if s.Args["differs"] != "" && !p.real {
		return s.Want // declared, and not compared
	}
	out := ""
	switch s.Name {
	case "watch":
		p.watch(t, s)
	case "events":
		out = p.events(t, s)
	case "up-to-last":
		out = p.upToLast(t, s)
	case "until":
		out = p.until(t, s)
	default:
		out = p.call(t, s)
	}
	return out
}

// mediaTypes are the short names of media types.
func mediaType(name string) string {
	switch name {
	case "":
		return "application/json"
	case "merge", "strategic":
		return "application/" + strings.ReplaceAll(name, "strategic", "strategic-merge") + "-patch+json"
	case "jsonpatch":
		return "application/json-patch+json"
	case "apply":
		return "application/apply-patch+yaml"
	case "yaml":
		return "application/yaml"
	case "table":
		return "application/json;as=Table;v=v1;g=meta.k8s.io"
	case "meta":
		return "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	case "metalist":
		return "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	}
	return name
}

func (p *player) request(t *testing.T, s repotest.Step, method, path string) *http.Response {
	body := p.fill(s.Input)
	if n := s.Args["pad"]; n != "" {
		size := 0
		_, _ = fmt.Sscan(n, &size)
		body = strings.ReplaceAll(body, "PAD", strings.Repeat("x", size))
	}
	r := repotest.Must(http.NewRequestWithContext(t.Context(), method, p.server+p.fill(path), strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", mediaType(s.Args["type"]))
	r.Header.Set("Accept", mediaType(s.Args["accept"]))
	r.Header.Set("User-Agent", "conformance")
	a, err := p.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// fill puts saved values in the place of $NAME.uid and $NAME.version.
func (p *player) fill(text string) string {
	return regexp.MustCompile(`\$[a-z0-9-]+\.[a-z]+`).ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := p.saved[name[1:]]; ok {
			return v
		}
		return name
	})
}

// call makes one call and returns its code and what it was answered with.
func (p *player) call(t *testing.T, s repotest.Step) string {
	a := p.request(t, s, s.Name, s.Words[0])
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	repotest.NoError(t, err)
	out := fmt.Sprint(a.StatusCode)
	if w := a.Header.Values("Warning"); len(w) > 0 {
		out += " warning " + strings.Join(w, "; ")
	}
	if v := a.Header.Get("Retry-After"); v != "" {
		out += " retry after " + v
	}
	if _, only := s.Args["code"]; only {
		return out
	}
	var o map[string]any
	if s.Args["accept"] == "yaml" {
		if raw, err = yaml.YAMLToJSON(raw); err != nil {
			return out + " " + err.Error()
		}
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return out + " " + strings.TrimSpace(string(raw))
	}
	return out + " " + p.show(o, s.Args["show"])
}

// show writes an object with names in place of what differs from run to run.
func (p *player) show(o map[string]any, fields string) string {
	if o["kind"] == "Status" && o["status"] == "Failure" {
		for _, known := range []string{"kind", "apiVersion", "metadata", "status", "code"} {
			delete(o, known)
		}
		sortCauses(o)
	}
	p.save(o)
	p.normalize(o)
	if fields != "" {
		o = pick(o, strings.Split(fields, ","))
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	text := string(raw)
	long := slices.SortedFunc(maps.Keys(p.names), func(a, b string) int { return len(b) - len(a) })
	for _, value := range long {
		if len(value) > 8 {
			text = strings.ReplaceAll(text, value, p.names[value])
		}
	}
	return text
}

// sortCauses sorts several causes, which stand in no order, and drops the message
// that is made of them.
func sortCauses(o map[string]any) {
	d, _ := o["details"].(map[string]any)
	causes, _ := d["causes"].([]any)
	if len(causes) < 2 {
		return
	}
	delete(o, "message")
	slices.SortFunc(causes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// save remembers uid and version of an object by its name.
func (p *player) save(o map[string]any) {
	m, _ := o["metadata"].(map[string]any)
	name, _ := m["name"].(string)
	if name == "" {
		return
	}
	if g, ok := m["generateName"].(string); ok {
		if _, known := p.names[name]; !known {
			p.names[name] = g + "N"
		}
		name = strings.TrimSuffix(g, "-")
	}
	for field, as := range map[string]string{"uid": "uid", "resourceVersion": "version"} {
		if v, ok := m[field].(string); ok {
			p.saved[name+"."+as] = v
		}
	}
}

// name returns a name for a value, the same each time.
func (p *player) name(prefix, value string) string {
	if n, ok := p.names[prefix+value]; ok {
		return n
	}
	n := 1
	for _, other := range p.names {
		if strings.HasPrefix(other, prefix) && !strings.ContainsAny(other, "-N") {
			n++
		}
	}
	p.names[prefix+value] = fmt.Sprint(prefix, n)
	if prefix == "U" {
		p.names[value] = fmt.Sprint(prefix, n)
	}
	return p.names[prefix+value]
}

// normalize names uids and versions, and times.
func (p *player) normalize(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "managedFields")
		for _, key := range slices.Sorted(maps.Keys(v)) {
			item := v[key]
			text, _ := item.(string)
			switch {
			case text == "":
				p.normalize(item)
			case key == "uid":
				v[key] = p.name("U", text)
			case key == "resourceVersion" && v["name"] != nil:
				v[key] = p.name("V", text)
			case key == "resourceVersion" || key == "continue":
				v[key] = "*"
			case isTime(text):
				v[key] = "T"
			case key == "message":
				v[key] = regexp.MustCompile(`(in record|in the precondition) \(\d+\)`).ReplaceAllString(text, "$1 (*)")
			}
		}
	case []any:
		for i, item := range v {
			if text, _ := item.(string); isTime(text) {
				v[i] = "T"
				continue
			}
			p.normalize(item)
		}
	}
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

// pick keeps the fields that paths lead to; through lists too.
func pick(o map[string]any, paths []string) map[string]any {
	out := map[string]any{}
	for _, path := range paths {
		head, rest, deep := strings.Cut(path, ".")
		v, there := o[head]
		if !there {
			continue
		}
		switch v := v.(type) {
		case map[string]any:
			if deep {
				below, _ := out[head].(map[string]any)
				if below == nil {
					below = map[string]any{}
				}
				for k, item := range pick(v, []string{rest}) {
					if old, ok := below[k].(map[string]any); ok {
						for kk, vv := range item.(map[string]any) {
							old[kk] = vv
						}
						continue
					}
					below[k] = item
				}
				out[head] = below
				continue
			}
		case []any:
			if deep {
				var items []any
				for _, item := range v {
					if m, ok := item.(map[string]any); ok {
						items = append(items, pick(m, strings.Split(rest, "|")))
					}
				}
				out[head] = items
				continue
			}
		}
		out[head] = v
	}
	return out
}

// watch is a watch under way.
type watch struct {
	code   int
	events chan map[string]any
}

func (p *player) watch(t *testing.T, s repotest.Step) {
	a := p.request(t, s, http.MethodGet, s.Words[1])
	w := &watch{code: a.StatusCode, events: make(chan map[string]any, 1000)}
	p.watches[s.Words[0]] = w
	go func() {
		defer a.Body.Close()
		defer close(w.events)
		d := json.NewDecoder(a.Body)
		for {
			var e map[string]any
			if d.Decode(&e) != nil {
				return
			}
			w.events <- e
		}
	}()
}

// byChance says whether an event is a bookmark that a server sends when it pleases: all
// but the one that ends what a watch begins with.
func byChance(e map[string]any) bool {
	if e["type"] != "BOOKMARK" {
		return false
	}
	o, _ := e["object"].(map[string]any)
	annotation, _, _ := unstructured.NestedString(o, "metadata", "annotations", metav1.InitialEventsAnnotationKey)
	return annotation == ""
}

// events returns so many events of a watch, or all up to its end. Bookmarks that are
// chance are left out.
func (p *player) events(t *testing.T, s repotest.Step) string {
	w := p.watches[s.Words[0]]
	n := 0
	_, _ = fmt.Sscan(s.Words[1], &n)
	out := fmt.Sprintln(w.code)
	for n != 0 {
		select {
		case e, ok := <-w.events:
			if !ok {
				return out + "end"
			}
			if byChance(e) {
				continue
			}
			kind, _ := e["type"].(string)
			o, _ := e["object"].(map[string]any)
			if o == nil { // refused before it began
				o = e
			}
			out += kind + " " + p.show(o, s.Args["show"]) + "\n"
		case <-time.After(time.Minute):
			return out + "nothing comes"
		}
		n--
	}
	return out
}

// upToLast returns the events of a watch up to that of an object called last, or to
// its end. Those that a watch without a version begins with stand in no order that
// is promised, and the bookmarks of others are chance.
func (p *player) upToLast(t *testing.T, s repotest.Step) string {
	w := p.watches[s.Words[0]]
	out := fmt.Sprintln(w.code)
	for {
		select {
		case e, ok := <-w.events:
			if !ok {
				return out + "end"
			}
			o, _ := e["object"].(map[string]any)
			if o == nil {
				return out + p.show(e, "")
			}
			kind, _ := e["type"].(string)
			if kind == "BOOKMARK" {
				continue
			}
			m, _ := o["metadata"].(map[string]any)
			last := m["name"] == "last"
			if out += kind + " " + p.show(o, "") + "\n"; last {
				return out
			}
		case <-time.After(time.Minute):
			return out + "nothing comes"
		}
	}
}

// until gets an object until its answer is as the file says; under -update after a
// moment.
func (p *player) until(t *testing.T, s repotest.Step) string {
	got, names := "", maps.Clone(p.names)
	want := strings.TrimSpace(s.Want)
	deadline := time.Now().Add(time.Minute)
	for wait := 50 * time.Millisecond; ; wait = 250 * time.Millisecond {
		time.Sleep(wait)
		p.names = maps.Clone(names) // how many versions went by on the way is chance
		got = p.call(t, repotest.Step{Name: "GET", Words: s.Words, Args: s.Args, Input: s.Input})
		if got == want || time.Now().After(deadline) || want == "" && time.Until(deadline) < 50*time.Second {
			return got
		}
	}
}
