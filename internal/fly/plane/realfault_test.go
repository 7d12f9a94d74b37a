package plane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestRealFaults(t *testing.T) {
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{
		LogDir: t.TempDir(), Executable: repotest.Binary(t), Proxies: plane.ProxyNames(),
	}))(t)
	t.Cleanup(func() { _ = p.Close() })
	t.Run("proxies", func(t *testing.T) { checkProxies(t, p) })
	seen := follow(t, p)
	for _, name := range component.Names() {
		t.Run("restart "+name, func(t *testing.T) { checkRestart(t, p, seen, name) })
	}
	t.Run("restart that is cancelled", func(t *testing.T) { checkCancelledRestart(t, p) })
	t.Run("pause", func(t *testing.T) { checkLongPause(t, p) })
	t.Run("slow", func(t *testing.T) { checkSlow(t, p) })
	addresses := []string{}
	for _, name := range plane.ProxyNames() {
		addresses = append(addresses, p.Proxy(name).Addr())
	}
	seen.end()
	t.Run("close leaves nothing", func(t *testing.T) { checkClose(t, p) })
	for _, address := range addresses {
		if _, err := net.Dial("tcp", address); err == nil {
			t.Errorf("the proxy at %s is left", address)
		}
	}
}

// create makes a ConfigMap and returns how long that took.
func create(t *testing.T, p *plane.Plane, who, name string) time.Duration {
	t.Helper()
	client, base, err := p.Endpoint(who).Client()
	repotest.NoError(t, err)
	defer client.CloseIdleConnections()
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
	begin := time.Now()
	resp, err := client.Post(base.JoinPath("/api/v1/namespaces/default/configmaps").String(), "application/json", strings.NewReader(object))
	repotest.NoError(t, err)
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("create %s: %d %s", name, resp.StatusCode, body)
	}
	return time.Since(begin)
}

func checkProxies(t *testing.T, p *plane.Plane) {
	create(t, p, plane.Admin, "by-admin") // the others' traffic begins with the plane
	for _, name := range []string{component.Etcd, component.Scheduler, component.ControllerManager, plane.Admin} {
		if s := p.Proxy(name).Stats(); s.Total == 0 || s.Up.Bytes == 0 || s.Down.Bytes == 0 {
			t.Errorf("the proxy of %s was not used: %+v", name, s)
		}
	}
	shape := func(name string, s proxy.Link) {
		repotest.NoError(t, p.Proxy(name).Emulate(s))
	}
	const trip = 100 * time.Millisecond
	shape(plane.Load, proxy.Link{RoundTrip: trip})
	if got := create(t, p, plane.Load, "far"); got < 3*trip { // TCP, TLS, the call
		t.Errorf("a call over a new connection with a round trip of %v took %v", trip, got)
	}
	near := time.Hour
	for try := 0; near > trip && try < 50; try++ { // a busy machine makes some as slow, the link would make all
		near = create(t, p, plane.Fleet, fmt.Sprint("near-", try))
	}
	if near > trip {
		t.Errorf("a call of another identity took %v", near)
	}
	shape(component.Etcd, proxy.Link{RoundTrip: trip})
	if got := create(t, p, plane.Fleet, "far-from-etcd"); got < trip {
		t.Errorf("a write with a round trip of %v to etcd took %v", trip, got)
	}
	shape(component.Etcd, proxy.Link{})
	// The controller-manager finds its way back and does its work.
	if n := p.Proxy(component.ControllerManager).Cut(); n == 0 {
		t.Error("no connections of the controller-manager were cut")
	}
	shape(component.ControllerManager, proxy.Link{RoundTrip: 10 * time.Millisecond})
	makeNamespace(t, p, "cut")
	shape(component.ControllerManager, proxy.Link{})
}

// makeNamespace makes a namespace and waits until the controllers have seen it.
func makeNamespace(t *testing.T, p *plane.Plane, name string) {
	t.Helper()
	client, base, err := p.Endpoint(plane.Admin).Client()
	repotest.NoError(t, err)
	defer client.CloseIdleConnections()
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	resp := repotest.Must(client.Post(base.JoinPath("/api/v1/namespaces").String(), "application/json", strings.NewReader(object)))(t)
	_ = resp.Body.Close()
	repotest.Eventually(t, "the controllers work: namespace "+name+" gets a service account", func() bool {
		code, _ := get(t, p.Endpoint(plane.Admin), "/api/v1/namespaces/"+name+"/serviceaccounts/default")
		return code == http.StatusOK
	})
}

// seenMaps are the ConfigMaps that a watch shows.
type seenMaps struct {
	stop func()
	wait sync.WaitGroup
	mu   sync.Mutex
	maps map[string]bool
	gaps int
}

func (s *seenMaps) Event(e watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range regexp.MustCompile(`flight-\d+`).FindAll(e.Object, -1) {
		s.maps[string(name)] = true
	}
}

func (s *seenMaps) ListBegin(again bool, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		s.gaps++
	}
}

func (s *seenMaps) ListEnd() {}

func (s *seenMaps) count() (maps, gaps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.maps), s.gaps
}

func (s *seenMaps) end() { s.stop(); s.wait.Wait() }

// follow watches ConfigMaps through the proxy of the observer.
func follow(t *testing.T, p *plane.Plane) *seenMaps {
	t.Helper()
	c := clock.Start()
	client := repotest.Must(wire.New(p.Endpoint(plane.Observe), wire.Options{Clock: c}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := &seenMaps{maps: map[string]bool{}}
	s.stop = func() { cancel(); _ = client.Close() }
	s.wait.Go(func() {
		err := watch.Follow(ctx, client, watch.Options{Path: "/api/v1/namespaces/default/configmaps", Clock: c}, s)
		if !errors.Is(err, context.Canceled) && !errors.Is(err, wire.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(s.end)
	return s
}

func checkRestart(t *testing.T, p *plane.Plane, seen *seenMaps, name string) {
	before, _ := seen.count()
	for i := range 100 {
		create(t, p, plane.Admin, fmt.Sprintf("flight-%d", before+i))
	}
	old, _ := p.Component(name)
	begin := time.Now()
	repotest.NoError(t, old.Restart(t.Context()))
	took := time.Since(begin)
	repotest.NoError(t, p.Ready(t.Context()))
	fresh, _ := p.Component(name)
	if fresh.PID == old.PID || len(remains([]int{old.PID}, nil, nil)) > 0 {
		t.Errorf("process %d after %d", fresh.PID, old.PID)
	}
	t.Logf("ready after %v, all after %v", took, time.Since(begin))
	// Nothing is lost, and what comes now is seen.
	create(t, p, plane.Admin, fmt.Sprintf("flight-%d", before+100))
	_, body := get(t, p.Endpoint(plane.Admin), "/api/v1/namespaces/default/configmaps")
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	repotest.NoError(t, json.Unmarshal([]byte(body), &list))
	flights := 0
	for _, i := range list.Items {
		if strings.HasPrefix(i.Metadata.Name, "flight-") {
			flights++
		}
	}
	if flights != before+101 {
		t.Errorf("%d of %d objects are there", flights, before+101)
	}
	var maps, gaps int
	repotest.Eventually(t, "the watch shows every object", func() bool {
		maps, gaps = seen.count()
		return maps == before+101
	})
	t.Logf("%d objects seen, %d gaps", maps, gaps)
	if code, _ := get(t, fresh.Scrape, fresh.MetricsURL); code != http.StatusOK {
		t.Errorf("its metrics: %d", code)
	}
	makeNamespace(t, p, "after-"+name)
	select {
	case d := <-p.Died():
		t.Fatalf("a death is reported: %v", d)
	default:
	}
}

func checkCancelledRestart(t *testing.T, p *plane.Plane) {
	c, _ := p.Component(component.APIServer)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.Restart(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	down, _ := p.Component(component.APIServer)
	if left := remains([]int{c.PID, down.PID}, []int{port(t, c.MetricsURL)}, nil); down.PID == c.PID || len(left) > 0 {
		t.Errorf("process %d after %d, left: %v", down.PID, c.PID, left)
	}
	if err := p.Ready(t.Context()); !errors.Is(err, plane.ErrEnded) {
		t.Errorf("ready without kube-apiserver: %v", err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func checkLongPause(t *testing.T, p *plane.Plane) {
	const long = 2 * time.Second
	c, _ := p.Component(component.APIServer)
	repotest.NoError(t, c.Pause())
	var wait sync.WaitGroup
	wait.Go(func() {
		time.Sleep(long)
		if err := c.Continue(); err != nil {
			t.Error(err)
		}
	})
	begin := time.Now()
	code, _ := get(t, p.Endpoint(plane.Load), "/version")
	wait.Wait()
	if took := time.Since(begin); code != http.StatusOK || took < long || took > time.Minute {
		t.Errorf("%d after %v", code, took)
	}
}

// checkSlow keeps the API server busy and looks at its CPU.
func checkSlow(t *testing.T, p *plane.Plane) {
	const (
		share = 0.2
		some  = share / 4 // what others leave it at least, in one of the tries: a stopped one has none
		tries = 10
	)
	c, _ := p.Component(component.APIServer)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() { keepBusy(ctx, t, p) })
	}
	defer callers.Wait()
	defer cancel()
	time.Sleep(300 * time.Millisecond)
	full := usedBy(t, c.PID, time.Second)
	repotest.NoError(t, c.Slow(share))
	time.Sleep(100 * time.Millisecond)
	var slow, after float64
	for try := 0; try < tries && slow < some; try++ {
		slow = usedBy(t, c.PID, 2*time.Second)
		if slow > 1.2*share {
			t.Errorf("slowed to %v cores it uses %.3f", share, slow)
		}
	}
	repotest.NoError(t, c.FullSpeed())
	for try := 0; try < tries && after < 1.5*share; try++ {
		after = usedBy(t, c.PID, time.Second)
	}
	t.Logf("cores used at full speed %.2f, slowed %.3f, afterwards %.2f", full, slow, after)
	switch {
	case full < 2*share:
		t.Skip("others leave it too little of the machine to show anything")
	case slow < some || after < 1.5*share:
		t.Errorf("cores used at full speed %.2f, slowed %.3f, afterwards %.2f", full, slow, after)
	}
}

func keepBusy(ctx context.Context, t *testing.T, p *plane.Plane) {
	client, base, err := p.Endpoint(plane.Observe).Client()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("/api/v1/configmaps").String(), http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
}

// usedBy returns how many cores a process uses for a while, to 1/100 s.
func usedBy(t *testing.T, pid int, within time.Duration) float64 {
	t.Helper()
	ticks := func() (sum float64) {
		raw := repotest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)
		fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+2:])
		for _, f := range fields[11:13] {
			n := repotest.Must(strconv.ParseFloat(string(f), 64))(t)
			sum += n
		}
		return sum
	}
	before, begin := ticks(), time.Now()
	time.Sleep(within)
	return (ticks() - before) / 100 / time.Since(begin).Seconds()
}

// A plane whose proxies see the calls works as any other, and its answers can be
// stretched, on connections that many calls share.
func TestRealAnswersAreStretched(t *testing.T) {
	plain, stretched := stretch(t)
	if plain < etcdTrip || stretched < 2*etcdTrip {
		t.Errorf("a write takes %v, stretched %v, and each waits for etcd, %v away", plain, stretched, etcdTrip)
	}
}

func TestProofRealAnswersAreStretchedByTheFactor(t *testing.T) {
	repotest.Proof(t)
	plain, stretched := stretch(t)
	if ratio := stretched.Seconds() / plain.Seconds(); ratio < 1.7 || ratio > 2.6 {
		t.Errorf("stretched by 2, writes take %.2f times as long", ratio)
	}
}

const etcdTrip = 40 * time.Millisecond

// stretch returns the median of a write, and that with answers stretched by 2.
func stretch(t *testing.T) (plain, stretched time.Duration) {
	t.Helper()
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{
		LogDir: t.TempDir(), Executable: repotest.Binary(t), Proxies: plane.ProxyNames(), TerminateTLS: true,
	}))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	makeNamespace(t, p, "opened")
	checkIdentities(t, p)
	c := clock.Start()
	client := repotest.Must(wire.New(p.Endpoint(plane.Load), wire.Options{Clock: c}))(t)
	defer client.Close()
	before := p.Proxy(plane.Load).Stats().Total
	repotest.NoError(t, p.Proxy(component.Etcd).Emulate(proxy.Link{RoundTrip: etcdTrip}))
	middle := func(run string, factor float64) time.Duration {
		repotest.NoError(t, p.Proxy(plane.Load).Emulate(proxy.Link{AnswerFactor: factor}))
		return median(t, c, client, run)
	}
	middle("warm", 1)
	plain, stretched = middle("plain", 1), middle("stretched", 2)
	t.Logf("median of a write: %v, stretched %v", plain, stretched)
	if s := p.Proxy(plane.Load).Stats(); s.Total != before+1 {
		t.Errorf("not one connection: %+v", s)
	}
	return plain, stretched
}

// median sends 60 overlapping writes and returns the median of their times.
func median(t *testing.T, c clock.Clock, client *wire.Client, run string) time.Duration {
	t.Helper()
	const calls = 60
	took := make(chan time.Duration, calls)
	for i := range calls {
		time.Sleep(15 * time.Millisecond)
		begin := c.Now()
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%d"}}`, run, i)
		client.Send(&wire.Request{
			Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps", ContentType: "application/json", Body: []byte(body),
		}, func(r *wire.Response) {
			if r.Code != http.StatusCreated {
				t.Errorf("%d %v %s", r.Code, r.Err, r.Body)
			}
			took <- r.Done.Sub(begin)
		})
	}
	all := make([]time.Duration, 0, calls)
	for range calls {
		all = append(all, <-took)
	}
	slices.Sort(all)
	return all[calls/2]
}
