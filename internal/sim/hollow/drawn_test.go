package hollow_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// drawn is a request by chance whose body has as many values as it has room for.
type drawn struct{ method, path, media, body string }

// fill joins what f returns to about n bytes.
func fill(n int, f func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f(i))
	}
	return b.String()
}

// small returns one of the smallest values, or some of them in each other.
func small(r *rand.Rand) string {
	leaves := []string{`{}`, `[]`, `1`, `""`, `null`, `true`, `0.5`}
	v := leaves[r.IntN(len(leaves))]
	for r.IntN(3) == 0 {
		v = []string{`[` + v + `]`, `{"a":` + v + `}`, `[` + v + `,` + v + `]`}[r.IntN(3)]
	}
	return v
}

// large returns a list or an object of n bytes whose elements are small, or one that is
// nested deep.
func large(r *rand.Rand, n int) string {
	v := small(r)
	switch r.IntN(8) {
	case 0:
		depth := min(n/2, r.IntN(10_500))
		return strings.Repeat(`[`, depth) + v + strings.Repeat(`]`, depth)
	case 1:
		depth := min(n/6, r.IntN(10_500))
		return strings.Repeat(`{"a":`, depth) + v + strings.Repeat(`}`, depth)
	case 2, 3:
		return `{` + fill(n, func(i int) string { return strconv.Quote(strconv.FormatInt(int64(i), 36)) + `:` + v }) + `}`
	}
	return `[` + fill(n, func(int) string { return v }) + `]`
}

// messages is a pod in protobuf with n bytes of empty messages in a list of its spec.
func messages(r *rand.Rand, n int) string {
	spec := bytes.Repeat(object.AppendBytes(nil, 1+r.IntN(25), nil), n/2)
	raw := object.AppendBytes(object.AppendBytes(nil, 1, object.AppendString(nil, 1, "new")), 2, spec)
	return string(object.AppendEnvelope(nil, "v1", "Pod", raw))
}

const (
	podsPath  = "/api/v1/namespaces/default/pods"
	boxesPath = "/apis/example.com/v1/namespaces/default/boxes"
	kindsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// places are where in an object a large value stands.
func places() []drawn {
	pod := func(spec string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c"}],` + spec + `}}`
	}
	box := `{"apiVersion":"example.com/v1","kind":"Box","metadata":{"name":"NAME","namespace":"default"},"spec":{"free":LARGE}}`
	return []drawn{
		{path: mapsPath, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":LARGE}`},
		{path: mapsPath, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"unknown":LARGE}`},
		{path: mapsPath, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","labels":LARGE}}`},
		{path: mapsPath, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","finalizers":LARGE}}`},
		{path: mapsPath, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","ownerReferences":LARGE}}`},
		{path: mapsPath, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","managedFields":LARGE}}`},
		{path: podsPath, body: strings.Replace(pod(`"x":1`), `[{"name":"c"}],"x":1`, `LARGE`, 1)},
		{path: podsPath, body: pod(`"volumes":LARGE`)}, {path: podsPath, body: pod(`"tolerations":LARGE`)}, {path: podsPath, body: pod(`"nodeSelector":LARGE`)},
		{path: boxesPath, body: box}, {path: boxesPath, body: box},
		{path: kindsPath, body: strings.ReplaceAll(crdWith(`{"allOf":LARGE}`), "NAME", "NAME.example.com")},
		{path: kindsPath, body: strings.ReplaceAll(crdWith(`{"properties":LARGE}`), "NAME", "NAME.example.com")},
	}
}

func crdWith(schema string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"NAME"},"spec":{"group":"example.com","scope":"Namespaced",` +
		`"names":{"plural":"new","kind":"New"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` + schema + `}}}}]}}`
}

// draw returns a request by chance: small in bytes, large in memory.
func draw(r *rand.Rand) drawn {
	n := int(20_000 * 1.05 * float64(uint(1)<<r.IntN(8))) // to 2.7 MB
	ways := []string{"application/json", "application/yaml", "PUT", "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
	d := places()[r.IntN(len(places()))]
	d.method, d.media = http.MethodPost, ways[r.IntN(len(ways))]
	body := strings.Replace(d.body, "LARGE", large(r, n), 1)
	name := "old"
	switch d.media {
	case "application/json", "application/yaml":
		if name = "new"; r.IntN(10) == 0 {
			return drawn{http.MethodPost, podsPath, object.ContentType, messages(r, n)}
		}
	case "PUT":
		d.method, d.media = http.MethodPut, "application/json"
	case "application/json-patch+json":
		d.method, body = http.MethodPatch, operations(r, n)
	default:
		d.method = http.MethodPatch
	}
	if d.method != http.MethodPost {
		if d.path == kindsPath {
			name = "old.example.com"
		}
		d.path += "/" + name + "?fieldManager=f"
		name = "old"
	}
	d.body = strings.ReplaceAll(body, "NAME", name)
	return d
}

// operations is a JSON patch of many operations, or of one with a large value.
func operations(r *rand.Rand, n int) string {
	if r.IntN(2) == 0 {
		return `[{"op":"add","path":"/spec","value":` + large(r, n) + `}]`
	}
	one := []string{`{"op":"add","path":"/metadata/labels/a","value":"b"}`, `{"op":"copy","from":"/spec","path":"/spec/a"}`, `{"op":"test","path":"","value":{}}`,
		`{"op":"add","path":"/spec/free/0","value":1}`, `{"op":"copy","from":"/spec/free","path":"/spec/free/0"}`, `{}`}[r.IntN(6)]
	return `[{"op":"add","path":"/spec","value":{"free":[` + fill(1+r.IntN(n), func(int) string { return "1" }) + `]}},` + fill(min(n, 9000*len(one)), func(int) string { return one }) + `]`
}

// playDrawn sends requests by chance, each to a server in the same state.
func playDrawn(t *testing.T, seed, requests int, each func(d drawn, send func() (code, length int))) {
	s := directly(t)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	s.must("POST", kindsPath, "application/json", strings.Replace(strings.NewReplacer("new", "boxes", "New", "Box", "NAME", "boxes.example.com").Replace(crdWith(`{"x-kubernetes-preserve-unknown-fields":true}`)), `{"type":"object","properties"`, `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties"`, 1))
	for _, p := range places() {
		if strings.Contains(p.body, "LARGE") && p.path != kindsPath {
			s.send("POST", p.path, "application/json", strings.NewReplacer("NAME", "old", "LARGE", "null").Replace(p.body))
		}
	}
	c := repotest.Must(s.s.Cluster("c"))(t)
	state := c.Copy()
	for range requests {
		d := draw(r)
		each(d, func() (int, int) {
			code, answer := s.send(d.method, d.path, d.media, d.body)
			return code, len(answer)
		})
		c.Restore(state)
		c.Compact()
	}
}

// TestDrawnRequestsStaySmall bounds what requests by chance allocate, also in between.
func TestDrawnRequestsStaySmall(t *testing.T) {
	const most = 250 << 20
	seed := repotest.Times(t, "WINDTUNNEL_SEED", 1)
	codes := map[int]int{}
	playDrawn(t, seed, 60, func(d drawn, send func() (int, int)) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, length := send()
		runtime.ReadMemStats(&after)
		codes[code]++
		if got := after.TotalAlloc - before.TotalAlloc; got > most || code == 0 {
			t.Errorf("%s %s (%s): %d; a request of %d bytes allocates %d MiB, and its answer is %d bytes long: %.200s", d.method, d.path, d.media, code, len(d.body), got>>20, length, d.body)
		}
	})
	t.Log(codes)
}

// inUse returns how many bytes of heap and stacks there are.
func inUse() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() + s[1].Value.Uint64())
}

// highest returns by how many bytes memory grows at most while f runs.
func highest(f func()) int64 {
	debug.FreeOSMemory()
	before := inUse()
	var most atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			most.Store(max(most.Load(), inUse()))
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most.Load() - before
}

// TestProofRequestsStaySmall holds that no request by chance moves the process by more
// than 64 MiB, or holds it longer than 60 s.
func TestProofRequestsStaySmall(t *testing.T) {
	repotest.Proof(t)
	most, longest, c := int64(0), time.Duration(0), clock.Start()
	playDrawn(t, repotest.Times(t, "WINDTUNNEL_SEED", 1), repotest.Times(t, "WINDTUNNEL_REQUESTS", 2000), func(d drawn, send func() (int, int)) {
		var code, length int
		var took time.Duration
		grown := highest(func() {
			begin := c.Now()
			code, length = send()
			took = c.Now().Sub(begin)
		})
		longest = max(longest, took)
		if most = max(most, grown); grown > 64<<20 || took > time.Minute {
			t.Errorf("%d MiB, %v: %s %s (%s): %d; %d bytes, answer %d bytes: %.200s", grown>>20, took, d.method, d.path, d.media, code, len(d.body), length, d.body)
		}
	})
	t.Logf("%d MiB at most, %v at the longest", most>>20, longest)
}
