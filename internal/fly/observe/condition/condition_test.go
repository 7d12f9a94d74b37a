package condition

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/scenario"
)

func objectJSON(name string, ready int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"n","name":%q,"resourceVersion":"1"},"status":{"ready":%d}}`, name, ready)
}

// TestTraces holds the counts after scripts of events: "KIND NAME READY".
func TestTraces(t *testing.T) {
	c := repotest.Must(scenario.ParseCondition("self.status.ready >= 2"))(t)
	odd := repotest.Must(scenario.ParseCondition("self.status.ready + 'x' == 'y'"))(t)
	for _, tt := range []struct {
		name, script, want string
		condition          Holder
		mine               func(string, string) bool
	}{
		{"it comes to hold and stops to hold", "LIST; END; ADDED a 1; ADDED b 2; MODIFIED a 2; MODIFIED b 0", "2 1 0", c, nil},
		{"what is deleted is gone", "LIST; LISTED a 2; LISTED b 2; END; DELETED a 2; DELETED none 2", "1 1 0", c, nil},
		{"what vanished during a gap is gone", "LIST; LISTED a 2; LISTED b 2; END; LIST; LISTED b 1; END", "1 0 0", c, nil},
		{"without a condition objects exist", "LIST; LISTED a 1; END; ADDED b 1", "2 0 0", nil, nil},
		{"others' objects do not count", "LIST; LISTED a 2; LISTED b 2; END; DELETED b 2", "1 1 0", c, func(ns, name string) bool { return ns == "n" && name == "a" }},
		{"what cannot be evaluated is said", "LIST; LISTED a 2; END; ADDED b 1", "2 0 2", odd, nil},
		{"until it is gone", "LIST; LISTED a 2; END; DELETED a 1", "0 0 0", odd, nil},
	} {
		o := New(Options{Condition: tt.condition, Mine: tt.mine})
		h := handler{o}
		kinds := map[string]watch.Kind{"LISTED": watch.Listed, "ADDED": watch.Added, "MODIFIED": watch.Modified, "DELETED": watch.Deleted}
		for line := range strings.SplitSeq(tt.script, "; ") {
			var kind, name string
			var ready int
			switch n, _ := fmt.Sscan(line, &kind, &name, &ready); {
			case kind == "LIST":
				h.ListBegin(false, "")
			case kind == "END":
				h.ListEnd()
			case n == 3:
				h.Event(watch.Event{Kind: kinds[kind], Object: []byte(objectJSON(name, ready))})
			}
		}
		got := o.Counts()
		if text := fmt.Sprint(got.Existing, got.Holding, got.Faulty); text != tt.want || (got.Err != nil) != (got.Faulty > 0) {
			t.Errorf("%s: %s %v, want %s", tt.name, text, got.Err, tt.want)
		}
		select {
		case <-o.Changed():
		default:
			t.Errorf("%s: no change was told", tt.name)
		}
	}
}

func serve(t *testing.T, handler http.HandlerFunc) (*wire.Client, clock.Clock) {
	t.Helper()
	c := clock.Start()
	return apitest.Client(t, apitest.Serve(t, handler), c), c
}

func TestRun(t *testing.T) {
	more := make(chan string, 4)
	client, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/x/v1/things" || r.URL.Query().Get("labelSelector") != "a=b" {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"5"},"items":[%s]}`, objectJSON("a", 2))
			return
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-more:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	condition := repotest.Must(scenario.ParseCondition("{.status.ready}=2"))(t)
	o := New(Options{Path: "/apis/x/v1/things", Selector: "labelSelector=a%3Db", Condition: condition})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx, client, c) }()
	<-o.Synced()
	if got := o.Counts(); got.Existing != 1 || got.Holding != 1 {
		t.Errorf("listed: %+v", got)
	}
	more <- `{"type":"ADDED","object":` + objectJSON("b", 2) + `}`
	for o.Counts().Holding != 2 {
		<-o.Changed()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRunOfWhatIsNotServed(t *testing.T) {
	client, c := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) })
	var status *wire.StatusError
	if err := New(Options{Path: "/apis/x/v1/none"}).Run(t.Context(), client, c); !errors.As(err, &status) || status.Code != http.StatusNotFound {
		t.Error(err)
	}
}
