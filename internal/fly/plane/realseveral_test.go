package plane_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// A plane of three etcd members, three API servers and two of each that elect a leader.
func TestRealPlaneOfSeveral(t *testing.T) {
	restarted := make(chan string, 100)
	var once sync.Once
	cfg := scenario.Plane{EtcdMembers: 3, APIServers: 3, Schedulers: 2, ControllerManagers: 2}
	p := repotest.Must(plane.Start(t.Context(), cfg, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t), OnFault: func(f plane.FaultEvent) {
		if f.Kind == plane.FaultStart {
			restarted <- f.Component
		}
	}}))(t)
	end := func() {
		once.Do(func() {
			pids, ports, paths := inventory(t, p)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if left := remains(pids, ports, paths); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	defer end()
	var names []string
	for _, c := range p.Components() {
		names = append(names, c.Name)
	}
	if got, want := strings.Join(names, " "), "etcd-0 etcd-1 etcd-2 kube-apiserver-0 kube-apiserver-1 kube-apiserver-2 kube-controller-manager-0 kube-controller-manager-1 kube-scheduler-0 kube-scheduler-1"; got != want {
		t.Errorf("processes %s, want %s", got, want)
	}
	t.Logf("ready after %.2f s, %d MB resident", p.Facts().Ready, resident(t, p)>>20)
	for _, c := range p.Components() {
		if code, body := get(t, c.Scrape, c.MetricsURL); code != 200 || !strings.Contains(body, "process_cpu_seconds_total") {
			t.Errorf("metrics of %s: %d", c.Name, code)
		}
	}
	if n := countItems(t, p, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity=kube-apiserver"); n != 3 {
		t.Errorf("%d identities of API servers, want 3", n)
	}
	for _, name := range []string{"etcd-1", "kube-apiserver-1"} { // the rest goes on
		c, _ := p.Component(name)
		repotest.NoError(t, c.Kill())
		if code := answers(t, p); code != 200 {
			t.Errorf("without %s: %d", name, code)
		}
		if err := c.Restart(t.Context()); err != nil {
			t.Error(err)
		}
		<-restarted
	}
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	// What ends by itself, as one that loses its lease does, is started again.
	c, _ := p.Component(component.Scheduler + "-0")
	repotest.NoError(t, syscall.Kill(c.PID, syscall.SIGTERM))
	if name := <-restarted; name != c.Name {
		t.Errorf("%s was started again, want %s", name, c.Name)
	}
	if now, _ := p.Component(c.Name); now.PID == c.PID {
		t.Error("the same process")
	}
	drain(restarted)
	checkReplacement(t, p)
	drain(restarted)
	checkLeaders(t, p, restarted)
	if code := answers(t, p); code != 200 {
		t.Errorf("at the end: %d", code)
	}
	select {
	case d := <-p.Died():
		t.Errorf("a death is reported: %v", d)
	default:
	}
	end()
}

// checkReplacement starts one process of each component from the executables of a release,
// here the same one, which it then reports.
func checkReplacement(t *testing.T, p *plane.Plane) {
	t.Helper()
	to, ok := release.Beside(repotest.Binary(t))
	if !ok || to.Err != nil {
		t.Fatal(to.Err)
	}
	for _, name := range []string{"etcd-0", "kube-apiserver-2", "kube-controller-manager-1", "kube-scheduler-1"} {
		c, _ := p.Component(name)
		if err := c.Replace(t.Context(), to.Plane); err != nil {
			t.Error(err)
		}
		want := to.Kubernetes
		if component.Is(name, component.Etcd) {
			want = to.Etcd
		}
		if got, err := c.ReportedRelease(t.Context()); err != nil || got != want {
			t.Errorf("%s reports %s, %v, want %s", name, got, err, want)
		}
		if now, _ := p.Component(name); now.PID == c.PID {
			t.Errorf("%s is the same process", name)
		}
	}
	if err := plane.AllowEtcdDowngrade(t.Context(), p, to.Etcd); err != nil { // the same minor release
		t.Error(err)
	}
}

// checkLeaders ends the leader of etcd, which others follow, and rolls the API servers.
func checkLeaders(t *testing.T, p *plane.Plane, restarted chan string) {
	t.Helper()
	leader := repotest.Must(p.Find(t.Context(), component.Leader(component.Etcd)))(t)
	repotest.NoError(t, leader.Terminate())
	next, err := p.Find(t.Context(), component.Leader(component.Etcd))
	if err != nil || next.Name == leader.Name {
		t.Errorf("after %s leads %s, %v", leader.Name, next.Name, err)
	}
	if err := leader.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	drain(restarted)
	for _, name := range []string{component.Scheduler, component.ControllerManager} {
		if c, err := p.Find(t.Context(), component.Leader(name)); err != nil || !component.Is(c.Name, name) {
			t.Errorf("leader of %s: %q, %v", name, c.Name, err)
		}
	}
	if err := plane.Roll(t.Context(), p, component.APIServer, 0); err != nil {
		t.Error(err)
	}
	if got := drain(restarted); got != "kube-apiserver-0 kube-apiserver-1 kube-apiserver-2" {
		t.Errorf("rolled %s", got)
	}
}

// drain returns what was started until now.
func drain(started chan string) string {
	var out []string
	for {
		select {
		case name := <-started:
			out = append(out, name)
		default:
			return strings.Join(out, " ")
		}
	}
}

// resident is what all processes of a plane hold, in bytes.
func resident(t *testing.T, p *plane.Plane) (sum int) {
	t.Helper()
	for _, c := range p.Components() {
		raw := repotest.Must(os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/statm"))(t)
		pages := repotest.Must(strconv.Atoi(strings.Fields(string(raw))[1]))(t)
		sum += pages * os.Getpagesize()
	}
	return sum
}

func countItems(t *testing.T, p *plane.Plane, path string) int {
	t.Helper()
	code, body := get(t, p.Endpoint(plane.Observe), path)
	var list struct{ Items []any }
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 {
		t.Fatalf("%s: %d, %v", path, code, err)
	}
	return len(list.Items)
}

// answers asks over new connections until one reaches a server that lives: the balancer may
// not yet know that one has died.
func answers(t *testing.T, p *plane.Plane) (code int) {
	t.Helper()
	client, base, err := p.Endpoint(plane.Admin).Client()
	repotest.NoError(t, err)
	defer client.CloseIdleConnections()
	for range 10 {
		resp, err := client.Get(base.JoinPath("/api/v1/namespaces/default").String())
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	return 0
}
