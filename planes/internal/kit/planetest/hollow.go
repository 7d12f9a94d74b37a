package planetest

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// servers are the hollow servers of the tests that run now, by their models: models take
// longer to be compiled than most tests run.
var servers = struct {
	sync.Mutex
	byModels map[string]*server
	clusters int
}{byModels: map[string]*server{}}

type server struct {
	*hollow.Server
	users int
}

// Cluster returns a hollow cluster that is the test's alone. Its server is shared with
// other clusters of the same models, and closed after the last test that uses it.
func Cluster(t testing.TB, name string, m hollow.Models) *hollow.Cluster {
	t.Helper()
	s, number := use(t, m)
	return repotest.Must(s.Cluster(fmt.Sprintf("%s-%d", name, number)))(t)
}

func use(t testing.TB, m hollow.Models) (s *server, number int) {
	t.Helper()
	key := fmt.Sprintf("%+v", m)
	servers.Lock()
	defer servers.Unlock()
	if s = servers.byModels[key]; s == nil {
		h := repotest.Must(hollow.New(hollow.Options{Models: m}))(t)
		s = &server{Server: h}
		servers.byModels[key] = s
	}
	s.users++
	servers.clusters++
	t.Cleanup(func() {
		servers.Lock()
		defer servers.Unlock()
		if s.users--; s.users == 0 {
			delete(servers.byModels, key)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s, servers.clusters
}

// Client returns a client of a cluster without a rate limit.
func Client(t testing.TB, e endpoint.Endpoint) kubernetes.Interface {
	t.Helper()
	config := e.Config("test")
	config.QPS = -1
	return repotest.Must(kubernetes.NewForConfig(config))(t)
}
