package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// instantClient answers every call at once, so that a benchmark measures the
// fleet alone.
type instantClient struct {
	clock  clock.Clock
	sent   atomic.Int64
	events chan []byte // chunks of the watch of pods
}

func (c *instantClient) Send(r *wire.Request, done func(*wire.Response)) {
	now := c.clock.Now()
	c.sent.Add(1)
	done(&wire.Response{Code: 200, Sent: now, Done: now})
}

func (c *instantClient) Do(_ context.Context, r *wire.Request) (*wire.Response, error) {
	if r.Path == "/version" {
		return &wire.Response{Code: 200, Body: []byte(`{"gitVersion":"v1.37.1"}`)}, nil
	}
	meta := object.AppendString(nil, 2, "1")
	return &wire.Response{Code: 200, Body: object.AppendEnvelope(nil, "v1", "List", object.AppendBytes(nil, 1, meta))}, nil
}

func (c *instantClient) Stream(ctx context.Context, r *wire.Request, data func([]byte) error) error {
	events := c.events
	if r.Path[:len(nodesPath)] == nodesPath {
		events = nil
	}
	for {
		select {
		case chunk := <-events:
			if err := data(chunk); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func newInstant() *instantClient {
	return &instantClient{clock: clock.Start(), events: make(chan []byte)}
}

// startOn starts a fleet that calls a client in place of a server, as fast as it can,
// until the test ends.
func startOn(t testing.TB, c client, k clock.Clock, cfg scenario.Fleet) *Fleet {
	t.Helper()
	cfg.Rate = 1e6
	o, cfg, err := withDefaults(Options{Clock: k, Seed: 1}, cfg)
	repotest.NoError(t, err)
	f := repotest.Must(startFleet(t.Context(), cfg, o, c, func() error { return nil }))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func instantFleet(b *testing.B, nodes int, lease time.Duration) (*Fleet, *instantClient) {
	b.Helper()
	c := newInstant()
	f := startOn(b, c, c.clock, scenario.Fleet{Nodes: nodes, Lease: unit.Duration(lease)})
	for f.Stats().Created < nodes {
		time.Sleep(time.Millisecond)
	}
	return f, c
}

// podEvents returns the frames of one watch event for each of some pods.
func podEvents(b *testing.B, count, nodes int) (frames []byte) {
	b.Helper()
	for i := range count {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", i), Namespace: "default", ResourceVersion: "2",
			UID: types.UID(fmt.Sprintf("0b1e5f1c-7d52-4f39-9a39-%012x", i)),
		}}
		p.Spec = corev1.PodSpec{NodeName: fmt.Sprintf("node-%06d", i%nodes), Containers: []corev1.Container{{Name: "c", Image: "image"}}}
		p.Status.Phase = corev1.PodPending
		frames = appendPodEvent(b, frames, "ADDED", &p)
	}
	return frames
}

// appendPodEvent appends the frame of a watch event in protobuf.
func appendPodEvent(t testing.TB, frames []byte, kind string, p *corev1.Pod) []byte {
	t.Helper()
	raw := repotest.Must(p.Marshal())(t)
	event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object.AppendEnvelope(nil, "v1", "Pod", raw)}}
	body := repotest.Must(event.Marshal())(t)
	return append(binary.BigEndian.AppendUint32(frames, uint32(len(body))), body...)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPods measures the way of a pod through the fleet: its event, the
// choice of its stage, the patch, the answer.
func BenchmarkPods(b *testing.B) {
	const pods, nodes = 1000, 100
	_, c := instantFleet(b, nodes, 0)
	frames := podEvents(b, pods, nodes)
	before, begin := c.sent.Load(), cpuTime()
	rounds := int64(0)
	for b.Loop() {
		rounds++
		c.events <- frames
		for c.sent.Load()-before < rounds*pods {
			time.Sleep(100 * time.Microsecond)
		}
	}
	b.ReportMetric(float64(cpuTime()-begin)/float64(rounds*pods), "cpu-ns/pod")
	b.ReportMetric(float64(b.Elapsed())/float64(rounds*pods), "ns/pod")
}

// BenchmarkLeases measures renewals: 20,000 nodes, each every quarter of a second.
func BenchmarkLeases(b *testing.B) {
	_, c := instantFleet(b, 20000, time.Second)
	time.Sleep(500 * time.Millisecond) // all have their lease
	before, begin := c.sent.Load(), cpuTime()
	for b.Loop() {
		time.Sleep(250 * time.Millisecond)
	}
	b.ReportMetric(float64(cpuTime()-begin)/float64(c.sent.Load()-before), "cpu-ns/renewal")
}
