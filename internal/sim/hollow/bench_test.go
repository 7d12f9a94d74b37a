package hollow_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// discarded is an answer that nobody reads.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header       { return d.header }
func (discarded) Write(b []byte) (int, error) { return len(b), nil }
func (discarded) WriteHeader(int)             {}
func (discarded) Flush()                      {}

// BenchmarkCreate is what a create takes without its way over the network, in
// protobuf, as typed clients send it.
func BenchmarkCreate(b *testing.B) {
	benchmarkCreate(b, object.ContentType, func(name string) []byte {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "registry.example/pause:3.10"}}}}
		raw := repotest.Must(p.Marshal())(b)
		return object.AppendEnvelope(nil, "v1", "Pod", raw)
	})
}

// BenchmarkCreateJSON is the same in JSON.
func BenchmarkCreateJSON(b *testing.B) {
	benchmarkCreate(b, "application/json", func(name string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","creationTimestamp":null,"labels":{"app":"web"}},`+
			`"spec":{"nodeName":"n","containers":[{"name":"c","image":"registry.example/pause:3.10","resources":{}}]},"status":{}}`, name)
	})
}

func benchmarkCreate(b *testing.B, media string, body func(name string) []byte) {
	s := repotest.Must(hollow.New(hollow.Options{Shared: true, Token: "t"}))(b)
	defer s.Close()
	if _, err := s.Cluster("c"); err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		i++
		r := httptest.NewRequest(http.MethodPost, "/clusters/c/api/v1/namespaces/default/pods", bytes.NewReader(body(fmt.Sprint("p", i))))
		r.Header.Set("Authorization", "Bearer t")
		r.Header.Set("Content-Type", media)
		r.Header.Set("Accept", media)
		s.ServeHTTP(discarded{http.Header{}}, r)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}
