package hollow_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// heap returns how many bytes of memory are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestProofMemoryOfClusters bounds what clusters take that nobody talks to, and
// what an object takes beyond its own bytes.
func TestProofMemoryOfClusters(t *testing.T) {
	repotest.Proof(t)
	const clusters, objects = 2000, 20_000
	s := repotest.Must(hollow.New(hollow.Options{Shared: true}))(t)
	t.Cleanup(func() { _ = s.Close() })
	before := heap()
	for i := range clusters {
		if _, err := s.Cluster(fmt.Sprint("c", i)); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / clusters
	t.Logf("%d bytes a cluster", each)
	if each > 300_000 {
		t.Errorf("%d bytes a cluster", each)
	}
	c := repotest.Must(s.Cluster("full"))(t)
	const value = 1000
	before = heap()
	for i := range objects {
		o := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-%d","namespace":"default"},"data":{"a":%q}}`, i, strings.Repeat("x", value))
		if _, err := c.Load(strings.NewReader(o)); err != nil {
			t.Fatal(err)
		}
	}
	more := (heap()-before)/objects - value
	t.Logf("%d bytes an object beyond its value of %d", more, value)
	if more > 600 {
		t.Errorf("%d bytes an object beyond its value", more)
	}
}

// stalled opens watches over one connection whose client opens no window.
func stalled(t *testing.T, c *hollow.Cluster, watches int) {
	t.Helper()
	e := c.Endpoint()
	config := repotest.Must(e.TLS())(t)
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	conn := repotest.Must(tls.Dial("tcp", strings.TrimPrefix(c.Address(), "https://"), config))(t)
	t.Cleanup(func() { _ = conn.Close() })
	frame := func(kind, flags byte, id int, body []byte) []byte {
		n := len(body)
		return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, byte(id >> 8), byte(id)}, body...)
	}
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0})...) // an initial window of 0
	for i := range watches {
		var block []byte
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":path", "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1"}, {"authorization", "Bearer t"}} {
			block = append(append(append(block, 0, byte(len(f[0]))), f[0]...), byte(len(f[1])))
			block = append(block, f[1]...)
		}
		out = append(out, frame(1, 5, 2*i+1, block)...)
	}
	if _, err := conn.Write(out); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
}

// TestProofStalledWatches bounds what a thousand watches take that are 100 MB behind
// and whose clients take nothing.
func TestProofStalledWatches(t *testing.T) {
	repotest.Proof(t)
	for _, size := range []int{1000, 500_000} {
		before := heap()
		c := one(t, hollow.Options{Token: "t", History: time.Hour})
		client := kubernetes.NewForConfigOrDie(c.Endpoint().Config("test"))
		for i := range 100_000_000 / size {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"i": fmt.Sprint(i), "x": strings.Repeat("x", size)}}
			var err error
			if i == 0 {
				_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{})
			} else {
				_, err = client.CoreV1().ConfigMaps("default").Update(t.Context(), m, metav1.UpdateOptions{})
			}
			repotest.NoError(t, err)
		}
		history := heap() - before
		for range 10 {
			stalled(t, c, 100)
		}
		repotest.Eventually(t, "all watches are there", func() bool {
			raw, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
			return err == nil && strings.Contains(string(raw), `{verb="WATCH"} 1000`)
		})
		most := int64(0)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, heap()-before)
		}
		t.Logf("objects of %d bytes: %d MiB of history, %d MiB with 1,000 watches", size, history>>20, most>>20)
		if most > 500<<20 {
			t.Errorf("%d MiB", most>>20)
		}
	}
}
