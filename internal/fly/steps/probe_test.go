package steps

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// checkProbe runs a probe of 60 writes and returns what its records show. Prepare gets the
// bench before.
func checkProbe(t *testing.T, prepare func(*bench)) consistency.Report {
	t.Helper()
	return checkSteps(t, "- {name: writes, probe: {keys: 5, count: 60, pace: {constant: 500}}}\n", prepare)
}

func checkSteps(t *testing.T, steps string, prepare func(*bench)) consistency.Report {
	t.Helper()
	b := newBench(t, head(1)+steps)
	prepare(b)
	repotest.NoError(t, Run(t.Context(), b.Session))
	repotest.NoError(t, b.Journal.Records.Close())
	var all []consistency.Access
	repotest.Must(record.Read(b.Dir.File(record.StreamFile), func(s *record.Stream) record.Visitor {
		return record.Visitor{Access: func(a record.Access) { all = append(all, consistency.Access{Verb: s.Ops[a.Op].Verb, Access: a}) }}
	}))(t)
	return consistency.Check(all)
}

// A server that fails now and then, before or after it has done the write, and ends watches,
// loses nothing.
func TestProbeOfARightServer(t *testing.T) {
	var calls atomic.Int64
	r := checkProbe(t, func(b *bench) {
		b.server.Inject(func(r *http.Request) *apitest.Injection {
			switch n := calls.Add(1); {
			case r.Method == http.MethodGet:
			case n%7 == 0:
				return &apitest.Injection{Code: 500, Done: true}
			case n%11 == 0:
				return &apitest.Injection{Code: 503}
			case n%13 == 0:
				b.server.CutWatches()
			}
			return nil
		})
	})
	if len(r.Violations) > 0 || len(r.Incomplete) > 0 || r.Acknowledged < 10 || r.Unknown < 3 || r.Reads < 50 {
		t.Errorf("%+v", r)
	}
}

// A probe that ends with the steps beside it is checked up to there.
func TestProbeBesideOthers(t *testing.T) {
	const steps = "- parallel:\n  - {name: writes, beside: true, probe: {keys: 5, count: 1000000, pace: {constant: 200}}}\n" +
		"  - wait: {objects: configmaps, selector: windtunnel.dev/probe=writes, condition: has(self.data), count: 3}\n"
	r := checkSteps(t, steps, func(*bench) {})
	if len(r.Violations) > 0 || len(r.Incomplete) > 0 || r.Acknowledged < 4 || r.Acknowledged > 500_000 { // three, and the last
		t.Errorf("%+v", r)
	}
}

// What a front makes up is found, and so is an object with another value than was written.
func TestProbeOfAFrontThatAnswersByItself(t *testing.T) {
	r := checkProbe(t, func(b *bench) { b.useFront(t) })
	if r.Count("") == 0 {
		t.Errorf("%+v", r)
	}
	r = checkProbe(t, func(b *bench) {
		b.server.Admit(func(path string, o *apitest.Object) {
			if strings.HasSuffix(path, "writes-3") {
				o.Object["data"] = map[string]any{"value": "forged"}
			}
		})
	})
	if r.Count(consistency.Invented) == 0 {
		t.Errorf("%+v", r)
	}
}

// useFront has the load sent to a front that answers each tenth update with a version, and
// does nothing.
func (b *bench) useFront(t *testing.T) {
	client, base, err := b.server.Endpoint().Client()
	repotest.NoError(t, err)
	onward := httputil.NewSingleHostReverseProxy(base)
	onward.Transport = client.Transport
	var puts atomic.Int64
	front := apitest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || puts.Add(1)%10 != 0 {
			onward.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		o := map[string]any{}
		if err == nil {
			err = json.Unmarshal(body, &o)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		o["metadata"].(map[string]any)["resourceVersion"] = "1000000"
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, string(must(json.Marshal(o))))
	}))
	records := b.Journal.Records
	if b.Load, err = load.New(load.Options{Endpoint: front, Records: records, Clock: b.Clock, Connections: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Load.Close() })
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// Each request of a step with new connections comes by one of its own; a probe's watches and
// final list keep theirs, and its records are checked as any probe's.
func TestNewConnections(t *testing.T) {
	const get = "mix: [{verb: get, resource: namespaces, name: default}]}\n"
	for steps, want := range map[string]int{
		"- requests: {count: 12, pace: {constant: 500}, " + get:                   1,
		"- requests: {count: 12, pace: {constant: 500}, connection: new, " + get:  12,
		"- probe: {keys: 8, count: 8, pace: {constant: 500}, connection: new}\n":  16, // a read follows each creation
		"- probe: {keys: 8, count: 8, pace: {constant: 500}, connection: kept}\n": 1,
	} {
		var mu sync.Mutex
		from := map[string]bool{}
		checkSteps(t, steps, func(b *bench) {
			b.server.Inject(func(r *http.Request) *apitest.Injection {
				if strings.HasPrefix(r.UserAgent(), "windtunnel-load") {
					mu.Lock()
					from[r.RemoteAddr] = true
					mu.Unlock()
				}
				return nil
			})
		})
		if n := len(from); want > 1 && n != want || want == 1 && n > 4 { // 4: the connections that calls are spread over
			t.Errorf("%s came by %d connections, want %d", steps, n, want)
		}
	}
}
