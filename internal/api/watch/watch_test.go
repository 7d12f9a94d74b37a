package watch_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// encode gives an object's protobuf form as an API server sends it.
func encode(t testing.TB, o runtime.Object) []byte {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	repotest.NoError(t, err)
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var b bytes.Buffer
	repotest.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b))
	return b.Bytes()
}

func frame(t testing.TB, kind string, o runtime.Object) []byte {
	t.Helper()
	event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: encode(t, o)}}
	raw := repotest.Must(event.Marshal())(t)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: "uid-" + "x", ResourceVersion: version,
		Labels: map[string]string{"a": "b", object.GroupLabel: "latency"},
	}, Spec: corev1.PodSpec{NodeName: "node-1"}}
}

// seen writes down what a handler was told.
type seen struct {
	mu  sync.Mutex
	log []string
	end chan struct{} // closed at the end of the script
}

func (s *seen) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}
func (s *seen) ListBegin(again bool, _ string) { s.add("list again=%v", again) }
func (s *seen) ListEnd()                       { s.add("end") }
func (s *seen) Bookmark(clock.Time, uint64)    { s.add("whole") }
func (s *seen) Event(e watch.Event) {
	var p object.Pod
	_ = object.DecodePod(e.Object, &p)
	s.add("%d %s", e.Kind, p.Name)
	if string(p.Name) == "last" {
		close(s.end)
	}
}

// server plays an API server: two pages of a list, a watch that is cut in the
// middle of a frame, one that resumes where it was, one that is gone, and after
// the second list a last event.
func server(t *testing.T) http.HandlerFunc {
	var mu sync.Mutex
	lists, watches := 0, []string{}
	list := func(version, next string, pods ...*corev1.Pod) []byte {
		l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
		for _, p := range pods {
			l.Items = append(l.Items, *p)
		}
		return encode(t, l)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		q := r.URL.Query()
		if q.Get("watch") == "" {
			if q.Get("continue") == "next+/=" {
				_, _ = w.Write(list("10", "", pod("b", "3")))
				return
			}
			lists++
			if lists == 1 {
				_, _ = w.Write(list("10", "next+/=", pod("a", "2")))
			} else {
				_, _ = w.Write(list("20", "", pod("a", "2")))
			}
			return
		}
		watches = append(watches, q.Get("resourceVersion"))
		switch len(watches) {
		case 1: // from 10: c is added, then the connection is cut inside a frame
			_, _ = w.Write(frame(t, "ADDED", pod("c", "11")))
			_, _ = w.Write(frame(t, "ADDED", pod("d", "12"))[:20])
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
			panic(http.ErrAbortHandler)
		case 2: // from 11: d again, a bookmark
			_, _ = w.Write(frame(t, "ADDED", pod("d", "12")))
			_, _ = w.Write(frame(t, "BOOKMARK", pod("", "15")))
		case 3: // from 15: gone
			status := &metav1.Status{Code: http.StatusGone, Reason: "Expired", Message: "too old"}
			_, _ = w.Write(frame(t, "ERROR", status))
		default:
			_, _ = w.Write(frame(t, "DELETED", pod("last", "21")))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			if want := []string{"10", "11", "15", "20"}; !slices.Equal(watches, want) {
				t.Errorf("watched from %v, want %v", watches, want)
			}
		}
	}
}

func start(t *testing.T, h http.HandlerFunc) *wire.Client {
	t.Helper()
	return apitest.Client(t, apitest.Serve(t, h), clock.Start())
}

func TestFollowLosesAndDoublesNothing(t *testing.T) {
	c := start(t, server(t))
	s := &seen{end: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- watch.Follow(ctx, c, watch.Options{Path: "/api/v1/pods", Clock: clock.Start()}, s)
	}()
	select {
	case <-s.end:
	case <-ctx.Done():
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	want := "list again=false,1 a,1 b,end,2 c,2 d,whole,list again=true,1 a,end,4 last"
	if got := strings.Join(s.log, ","); got != want {
		t.Errorf("saw  %s\nwant %s", got, want)
	}
}

func TestFollowGivesUpWhereItIsForbidden(t *testing.T) {
	c := start(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `pods is forbidden: User "x" cannot list`, http.StatusForbidden)
	})
	err := watch.Follow(t.Context(), c, watch.Options{Path: "/api/v1/pods", Clock: clock.Start()}, &seen{})
	if err == nil || !strings.Contains(err.Error(), "follow /api/v1/pods: list: status 403: pods is forbidden") {
		t.Errorf("err = %v", err)
	}
}
