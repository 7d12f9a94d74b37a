package conformance_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// generator makes calls by chance: mostly such as succeed, on few names, so that
// they meet each other; some with one thing wrong.
type generator struct {
	*rand.Rand
	namespace string
	watches   []string // that have been opened
}

// sort is a kind of objects that calls are made of.
type sort struct {
	apiVersion, kind, plural string
	custom                   bool
	body                     func(g *generator, o map[string]any)
	field                    []string // JSON pointers into what body fills in
}

// group is the one of the custom resources of the sequences.
const group = "sequences.example.com"

func sorts() []sort {
	return []sort{
		{apiVersion: "v1", kind: "ConfigMap", plural: "configmaps", body: configMap, field: []string{"/data/a", "/data/b", "/data"}},
		{apiVersion: "v1", kind: "Secret", plural: "secrets", body: secret, field: []string{"/data/a", "/stringData/b", "/type"}},
		{apiVersion: "coordination.k8s.io/v1", kind: "Lease", plural: "leases", body: lease, field: []string{"/spec/holderIdentity", "/spec/leaseTransitions"}},
		{apiVersion: group + "/v1", kind: "Widget", plural: "widgets", custom: true, body: widget, field: []string{"/spec/size", "/spec/parts/0", "/spec/parts/-", "/spec/unknown"}},
	}
}

// path returns the path of a sort's objects.
func (s sort) path(namespace string) string {
	root := "/apis/"
	if s.apiVersion == "v1" {
		root = "/api/"
	}
	return root + s.apiVersion + "/namespaces/" + namespace + "/" + s.plural
}

func one[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// sometimes is true once in n times.
func (g *generator) sometimes(n int) bool { return g.IntN(n) == 0 }

func (g *generator) name() string {
	if g.sometimes(40) {
		return one(g, "A_B", "a..b", strings.Repeat("x", 254))
	}
	return one(g, "a", "b", "c")
}

// applied are the names of objects that only applies create: a hollow cluster notes
// who manages which field from the first apply on, an API server from the creation.
func (g *generator) applied() string { return one(g, "d", "e") }

func configMap(g *generator, o map[string]any) {
	data := map[string]any{}
	for _, key := range []string{"a", "b"} {
		if g.sometimes(2) {
			data[key] = g.value()
		}
	}
	if g.sometimes(4) {
		o["binaryData"] = map[string]any{"c": "AAE="}
	}
	o["data"] = data
}

func secret(g *generator, o map[string]any) {
	o["data"] = map[string]any{"a": one(g, "AAE=", "eA==")}
	if g.sometimes(2) {
		o["stringData"] = map[string]any{"b": g.value()}
	}
	if g.sometimes(8) {
		o["data"] = map[string]any{"a": "not base64"}
	}
}

func lease(g *generator, o map[string]any) {
	o["spec"] = map[string]any{"holderIdentity": g.value(), "leaseDurationSeconds": one(g, 1, 40), "renewTime": "2030-01-01T00:00:0" + fmt.Sprint(g.IntN(10)) + ".000000Z"}
}

func widget(g *generator, o map[string]any) {
	spec := map[string]any{"color": one[any](g, "red", "blue")}
	if g.sometimes(2) {
		spec["size"] = one[any](g, 1, 2, 3)
	}
	if g.sometimes(2) {
		spec["parts"] = []any{g.value()}
	}
	if g.sometimes(12) {
		spec[one(g, "color", "size", "unknown")] = one[any](g, "green", 11, nil, true, 1.5)
	}
	o["spec"] = spec
	if g.sometimes(3) {
		o["status"] = map[string]any{"ready": g.IntN(3)}
	}
}

// value is a text that comes again soon.
func (g *generator) value() string { return one(g, "x", "y", "é\"<", "") }

// object makes an object, or one with less for a patch.
func (g *generator) object(s sort, name string, whole bool) map[string]any {
	m := map[string]any{}
	if whole {
		m["name"] = name
	}
	if g.sometimes(2) {
		m["labels"] = map[string]any{"l": one[any](g, "1", "2")}
	}
	if g.sometimes(4) {
		m["annotations"] = map[string]any{"n": g.value()}
	}
	if g.sometimes(10) {
		m["finalizers"] = one(g, []any{}, []any{"example.com/one"}, []any{"example.com/one", "example.com/two"})
	}
	if g.sometimes(30) {
		m[one(g, "labels", "namespace", "uid", "generation", "deletionTimestamp", "name")] = one[any](g, "other", map[string]any{"a b": "c"}, 7, "2030-01-01T00:00:00Z")
	}
	o := map[string]any{"metadata": m}
	if whole {
		o["apiVersion"], o["kind"] = s.apiVersion, s.kind
	}
	s.body(g, o)
	if g.sometimes(40) {
		o[one(g, "kind", "apiVersion", "unknown")] = one[any](g, "Other", "v9", 1)
	}
	return o
}

// text writes a value as JSON, now and then broken.
func (g *generator) text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was made here
	}
	if g.sometimes(60) {
		raw = raw[:g.IntN(len(raw))]
	}
	return string(raw)
}

// next makes the next call.
func (g *generator) next() repotest.Step {
	s := one(g, sorts()...)
	name := g.name()
	step := repotest.Step{Args: map[string]string{}}
	path, query := s.path(g.namespace), url.Values{}
	switch n := g.IntN(100); {
	case n < 25:
		step.Name, step.Input = http.MethodPost, g.text(g.object(s, name, true))
		g.options(query, "fieldValidation")
	case n < 40:
		if g.sometimes(3) && s.plural != "leases" { // which PUT creates
			name = g.applied()
		}
		step.Name, path = http.MethodPut, path+"/"+name
		o := g.object(s, name, true)
		o["metadata"].(map[string]any)["resourceVersion"] = one(g, "$"+name+".version", "$"+name+".version", "1", "")
		step.Input = g.text(o)
		g.options(query, "fieldValidation")
	case n < 65:
		if g.sometimes(2) {
			name = g.applied()
		}
		path += "/" + name
		if s.custom && g.sometimes(3) {
			path += "/status"
		}
		step = g.patch(s, name, query)
	case n < 78:
		step.Name, path = http.MethodDelete, path+"/"+name
		step.Input = g.text(g.deletion(name))
		g.options(query, "")
	case n < 80:
		step.Name = http.MethodDelete
		query.Set("labelSelector", one(g, "l=1", "l in (1,2)", "l"))
	case n < 88:
		step.Name, path = http.MethodGet, path+"/"+name
		step.Args["accept"] = one(g, "", "meta", "yaml")
	case n < 97:
		step.Name = http.MethodGet
		g.selection(query)
		step.Args["accept"] = one(g, "", "", "metalist")
	default:
		id := fmt.Sprint("w", len(g.watches))
		g.watches = append(g.watches, id)
		query.Set("watch", "true")
		query.Set("resourceVersion", one(g, "", "0", "$"+name+".version"))
		if g.sometimes(2) {
			query.Set("labelSelector", "l=1")
		}
		return repotest.Step{Name: "watch", Words: []string{id, path + "?" + unescaped(query)}, Args: step.Args}
	}
	step.Words = []string{path + "?" + unescaped(query)}
	return step
}

// unescaped lets $NAME.version stand in a query.
func unescaped(q url.Values) string { return strings.ReplaceAll(q.Encode(), "%24", "$") }

// options adds some of the options of writes.
func (g *generator) options(q url.Values, more string) {
	if g.sometimes(10) {
		q.Set("dryRun", "All")
	}
	if more != "" && g.sometimes(3) {
		q.Set(more, one(g, "Strict", "Warn", "Ignore"))
	}
	if g.sometimes(50) {
		q.Set(one(g, "dryRun", "fieldValidation"), "Some")
	}
}

// patch makes a patch of any type.
func (g *generator) patch(s sort, name string, q url.Values) repotest.Step {
	step := repotest.Step{Name: http.MethodPatch, Args: map[string]string{}}
	g.options(q, "")
	kind := one(g, "merge", "strategic", "jsonpatch")
	if (name == "d" || name == "e") && !g.sometimes(3) {
		kind = "apply"
	}
	step.Args["type"] = kind
	switch kind {
	case "jsonpatch":
		step.Input = g.text(g.operations(s))
	case "apply":
		if !g.sometimes(20) {
			q.Set("fieldManager", one(g, "one", "two"))
		}
		if g.sometimes(3) {
			q.Set("force", "true")
		}
		step.Input = g.text(g.object(s, name, true))
	default:
		o := g.object(s, name, false)
		if g.sometimes(3) {
			m := o["metadata"].(map[string]any)
			m["resourceVersion"] = one(g, "$"+name+".version", "$"+name+".version", "1")
			if g.sometimes(2) {
				m["uid"] = one(g, "$"+name+".uid", "other")
			}
		}
		if g.sometimes(3) {
			o[one(g, "data", "spec", "metadata")] = one[any](g, nil, map[string]any{"a": nil, "labels": nil, "finalizers": nil})
		}
		step.Input = g.text(o)
	}
	return step
}

// operations makes a JSON patch.
func (g *generator) operations(s sort) []any {
	out := []any{}
	places := append([]string{"/metadata/labels/l", "/metadata/labels", "/metadata/finalizers/0"}, s.field...)
	for range 1 + g.IntN(2) {
		op := map[string]any{"op": one(g, "add", "replace", "remove", "test", "copy", "move"), "path": one(g, places...)}
		switch op["op"] {
		case "copy", "move":
			op["from"] = one(g, places...)
		case "remove":
		default:
			op["value"] = one[any](g, "x", "1", map[string]any{"l": "1"})
		}
		out = append(out, op)
	}
	return out
}

// deletion makes the options of a deletion.
func (g *generator) deletion(name string) map[string]any {
	o := map[string]any{}
	if g.sometimes(3) {
		o["gracePeriodSeconds"] = one(g, 0, 5)
	}
	if g.sometimes(4) {
		o["preconditions"] = map[string]any{"uid": one(g, "$"+name+".uid", "other")}
		if g.sometimes(2) {
			o["preconditions"] = map[string]any{"resourceVersion": one(g, "$"+name+".version", "1")}
		}
	}
	if g.sometimes(6) {
		o["propagationPolicy"] = one(g, "Background", "Sideways")
	}
	return o
}

// selection makes the query of a list.
func (g *generator) selection(q url.Values) {
	if g.sometimes(2) {
		q.Set("labelSelector", one(g, "l=1", "l!=1", "l in (1,2)", "!l", "l in", ""))
	}
	if g.sometimes(4) {
		q.Set("fieldSelector", one(g, "metadata.name=a", "metadata.name!=b", "type=Opaque", "nonsense=1"))
	}
	if g.sometimes(3) {
		q.Set("limit", one(g, "1", "2", "10", "-1"))
	}
	if g.sometimes(4) {
		q.Set("resourceVersion", one(g, "0", "$a.version", "$b.version", "x"))
		if g.sometimes(2) {
			q.Set("resourceVersionMatch", one(g, "Exact", "NotOlderThan", "Roughly"))
		}
	}
}
