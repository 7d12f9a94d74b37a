package plane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// The test binary is also the reaper and the windtunnel that gets killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case process.ReaperArg:
			os.Exit(process.ReaperMain(os.Stdin))
		case "hold":
			os.Exit(hold(os.Args[2], os.Args[3]))
		case "answer":
			os.Exit(answer(os.Args[2], os.Args[3], os.Args[4:]))
		}
	}
	os.Exit(m.Run())
}

// answer is a component that is ready, or not, or dies, as a file says. With a release and
// its name it says them.
func answer(address, file string, says []string) int {
	raw, err := os.ReadFile(file)
	mode := string(raw)
	if err != nil || mode == "die" {
		fmt.Println("panic: told to die", err)
		return 3
	}
	release, name := "", ""
	if len(says) == 2 {
		release, name = says[0], says[1]
	}
	var asked atomic.Int32
	var target atomic.Pointer[string]
	err = http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/version":
			fmt.Fprintf(w, `{"gitVersion":%q,"etcdserver":%q}`, release, strings.TrimPrefix(release, "v"))
		case r.URL.Path == "/metrics":
			fmt.Fprintf(w, "kubernetes_build_info{git_version=%q} 1\n", release)
			if name == "etcd-1" {
				fmt.Fprintln(w, "etcd_server_is_leader 1")
			}
		case r.URL.Path == "/v3/maintenance/downgrade":
			var want struct{ Action, Version string }
			if err := json.NewDecoder(r.Body).Decode(&want); err != nil || want.Action != "ENABLE" {
				http.Error(w, want.Action, http.StatusBadRequest)
				return
			}
			want.Version = strings.TrimSuffix(want.Version, ".0")
			target.Store(&want.Version)
			fmt.Fprint(w, "{}")
		case r.URL.Path == "/v3/maintenance/target":
			said := ""
			if t := target.Load(); t != nil {
				said = *t
			}
			fmt.Fprintf(w, `{"target":%q}`, said)
		case r.URL.Path == "/v3/maintenance/status":
			stored := "3.6.0"
			if asked.Add(1) > 3 {
				stored = "3.5.0"
			}
			fmt.Fprintf(w, `{"storageVersion":%q}`, stored)
		case mode != "ready":
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	fmt.Println(err)
	return 4
}

// binaries makes a folder of programs that tell a version and then run a
// shell script.
func binaries(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range component.Names() {
		version := "Kubernetes v1.37.1"
		if name == component.Etcd {
			version = "etcd Version: 3.7.0"
		}
		script, ok := scripts[name]
		if !ok {
			script = "exec sleep 60"
		}
		text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && { echo '%s'; exit 0; }\necho args \"$@\"\n%s\n", version, script)
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	return dir
}

// leftBehind returns what remains of a plane whose etcd wrote its arguments
// into a log.
func leftBehind(t *testing.T, logs string) (tries int, left []string) {
	t.Helper()
	raw := repotest.Must(os.ReadFile(filepath.Join(logs, "etcd.log")))(t)
	for _, m := range regexp.MustCompile(`--data-dir=(\S+)/etcd `).FindAllStringSubmatch(string(raw), -1) {
		tries++
		if _, err := os.Lstat(m[1]); err == nil {
			left = append(left, m[1])
		}
	}
	return tries, left
}

func TestComponentThatDiesAtStartIsNamedWithItsLastWords(t *testing.T) {
	logs := t.TempDir()
	// It dies only once etcd has told its arguments, which leftBehind reads.
	script := fmt.Sprintf("while [ ! -s %s/etcd.log ]; do sleep 0.01; done; echo 'Error: unknown flag: --bogus'; exit 1", logs)
	cfg := scenario.Plane{Binaries: binaries(t, map[string]string{component.APIServer: script})}
	_, err := plane.Start(t.Context(), cfg, plane.Options{LogDir: logs})
	var death *process.DeathError
	if !errors.As(err, &death) || death.Name != component.APIServer {
		t.Fatalf("error %v, want the death of kube-apiserver", err)
	}
	for _, want := range []string{"start plane: kube-apiserver died (exit status 1)", "Error: unknown flag: --bogus"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if tries, left := leftBehind(t, logs); tries != 1 || len(left) > 0 {
		t.Errorf("%d tries, left behind: %v", tries, left)
	}
}

func TestLostPortIsTriedAgainWithOthers(t *testing.T) {
	logs := t.TempDir()
	cfg := scenario.Plane{Binaries: binaries(t, map[string]string{component.Etcd: "echo 'listen tcp 127.0.0.1: bind: address already in use'; exit 1"})}
	_, err := plane.Start(t.Context(), cfg, plane.Options{LogDir: logs})
	if err == nil || !strings.Contains(err.Error(), "etcd died") {
		t.Fatalf("error %v", err)
	}
	if tries, left := leftBehind(t, logs); tries != 3 || len(left) > 0 {
		t.Errorf("%d tries, left behind: %v", tries, left)
	}
	raw := repotest.Must(os.ReadFile(filepath.Join(logs, "etcd.log")))(t)
	ports := map[string]bool{}
	for _, m := range regexp.MustCompile(`listen-client-urls=\S+:(\d+)`).FindAllStringSubmatch(string(raw), -1) {
		ports[m[1]] = true
	}
	if len(ports) < 2 {
		t.Errorf("the same ports each time: %v", ports)
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	logs := t.TempDir()
	cfg := scenario.Plane{Binaries: binaries(t, nil)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		repotest.Eventually(t, "etcd and the API server write their logs", func() bool {
			etcd, _ := os.ReadFile(filepath.Join(logs, "etcd.log"))
			api, _ := os.ReadFile(filepath.Join(logs, "kube-apiserver.log"))
			return len(etcd) > 0 && len(api) > 0
		})
	}()
	begin := time.Now()
	_, err := plane.Start(ctx, cfg, plane.Options{LogDir: logs})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "kube-apiserver to answer") {
		t.Errorf("error %v, want the cancelled wait", err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("took %v", took)
	}
	if tries, left := leftBehind(t, logs); tries != 1 || len(left) > 0 {
		t.Errorf("%d tries, left behind: %v", tries, left)
	}
}

func TestBadConfigurationIsAClearError(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	taken := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	flags := func(name, key, value string) map[string]scenario.Component {
		return map[string]scenario.Component{name: {Flags: map[string]string{key: value}}}
	}
	lacking, all := binaries(t, nil), binaries(t, nil)
	repotest.NoError(t, os.Remove(filepath.Join(lacking, component.Scheduler)))
	repotest.NoError(t, os.Chmod(filepath.Join(lacking, component.Etcd), 0o600))
	proxies := map[string][]string{"proxy for nobody": {"kubelet"}, "proxy that is led past": {"etcd", plane.Load}}
	cases := []struct {
		name  string
		cfg   scenario.Plane
		is    error
		words []string
	}{
		{"port taken", scenario.Plane{Binaries: all, Components: flags(component.APIServer, "secure-port", port)}, plane.ErrPortTaken, []string{"kube-apiserver", "secure-port", port}},
		{"etcd's port taken", scenario.Plane{Binaries: all, Components: flags("etcd", "listen-client-urls", "https://127.0.0.1:"+port)}, plane.ErrPortTaken, []string{"etcd", port}},
		{"no port", scenario.Plane{Binaries: all, Components: flags(component.Scheduler, "secure-port", "0")}, nil, []string{"kube-scheduler", `"0"`, "1 to 65535"}},
		{"etcd without TLS", scenario.Plane{Binaries: all, Components: flags("etcd", "listen-client-urls", "http://127.0.0.1:7")}, nil, []string{"etcd", "https"}},
		{"binaries incomplete", scenario.Plane{Binaries: lacking}, os.ErrNotExist, []string{"kube-scheduler is missing", "etcd is not executable"}},
		{"no binaries", scenario.Plane{Binaries: "/no/such/folder"}, os.ErrNotExist, []string{"etcd is missing", "/no/such/folder"}},
		{"relative binaries", scenario.Plane{Binaries: "bin"}, os.ErrNotExist, []string{"/base/folder/bin/etcd"}},
		{"unknown component", scenario.Plane{Binaries: all, Components: flags("kube-proxy", "a", "b")}, nil, []string{"kube-proxy", "kube-apiserver"}},
		{"unknown durability", scenario.Plane{Binaries: all, Durability: "paper"}, nil, []string{"paper", "fsync"}},
		{"a release that was not built", scenario.Plane{Release: "v1.36.3", Etcd: "v3.6.12"}, release.ErrAbsent, []string{"windtunnel plane build v1.36.3 --etcd v3.6.12"}},
		{"no plane beside the tool", scenario.Plane{}, release.ErrAbsent, []string{"kube-plane", "windtunnel plane build v1."}},
		{"proxy for nobody", scenario.Plane{Binaries: all}, nil, []string{`"kubelet"`, "kube-scheduler"}},
		{"proxy that is led past", scenario.Plane{Binaries: all, Components: flags(component.APIServer, "etcd_servers", "https://x:1")}, nil, []string{"proxy for etcd", "etcd-servers=https://x:1", "kube-apiserver"}},
		{"scheduler's config missing", scenario.Plane{Binaries: all, Components: flags(component.Scheduler, "config", "none.yaml")}, os.ErrNotExist, []string{"kube-scheduler", "none.yaml"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := plane.Start(t.Context(), c.cfg, plane.Options{LogDir: t.TempDir(), BaseDir: "/base/folder", Proxies: proxies[c.name]})
			if err == nil {
				t.Fatal("no error", p.Close())
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v is not %v", err, c.is)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q: %v", w, err)
				}
			}
		})
	}
}

// server answers as an API server does to Attach.
func server(t *testing.T, allowed map[string]bool, code int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code != 0 {
			http.Error(w, "no", code)
			return
		}
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"gitVersion":"v1.30.0"}`)
			return
		}
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		resource := regexp.MustCompile(`"resource":"(\w+)"`).FindSubmatch(body)
		fmt.Fprintf(w, `{"status":{"allowed":%v}}`, allowed[string(resource[1])])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, endpoint.New(url, nil, endpoint.Identity{}).WriteKubeconfig(path))
	return path
}

// creations are rights that a run with a fleet needs.
func creations() []plane.Right {
	return []plane.Right{{Verb: "create", Resource: "namespaces"}, {Verb: "create", Resource: "nodes"}, {Verb: "create", Resource: "pods"}}
}

func TestAttach(t *testing.T) {
	all := map[string]bool{"namespaces": true, "nodes": true, "pods": true}
	p := repotest.Must(plane.Attach(t.Context(), kubeconfig(t, server(t, all, 0)), plane.Options{Rights: creations()}))(t)
	if f := p.Facts(); f.Kind != "kubeconfig" || p.Versions()["kubernetes"] != "v1.30.0" {
		t.Errorf("facts %+v, versions %v", f, p.Versions())
	}
	c := p.Components()
	if len(c) != 1 || c[0].Name != component.APIServer || c[0].PID != 0 || !strings.HasSuffix(c[0].MetricsURL, "/metrics") {
		t.Errorf("components %+v", c)
	}
	for _, err := range []error{c[0].Kill(), c[0].Pause(), c[0].Continue(), c[0].Slow(0.5), c[0].FullSpeed(), c[0].Restart(t.Context())} {
		if !errors.Is(err, plane.ErrNotOurs) {
			t.Errorf("a component of somebody else was hurt: %v", err)
		}
	}
	r := repotest.Must(p.AddProxy(plane.Load))(t)
	again, err := p.AddProxy(plane.Load)
	if err != nil || again != r || p.Proxy(plane.Load) != r || p.Proxy(plane.Fleet) != nil {
		t.Errorf("another proxy: %v", err)
	}
	before := r.Stats().Total
	if code, body := get(t, p.Endpoint(plane.Load), "/version"); code != http.StatusOK || r.Stats().Total != before+1 {
		t.Errorf("through the proxy: %d %s, %+v", code, body, r.Stats())
	}
	if code, _ := get(t, p.Endpoint(plane.Fleet), "/version"); code != http.StatusOK || r.Stats().Total != before+1 {
		t.Errorf("another identity goes through the proxy of the load: %+v", r.Stats())
	}
	if _, err := p.AddProxy("nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a proxy for nobody: %v", err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", r.Addr()); err == nil {
		t.Error("the proxy outlives the plane")
	}
	if _, err := p.AddProxy(plane.Fleet); !errors.Is(err, plane.ErrClosed) {
		t.Errorf("a proxy after Close: %v", err)
	}
}

func TestAttachThatFailsIsOneClearLine(t *testing.T) {
	taken := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	free := "http://" + taken.Addr().String()
	_ = taken.Close()
	broken := filepath.Join(t.TempDir(), "broken")
	repotest.NoError(t, os.WriteFile(broken, []byte("a: [\n"), 0o600))
	cases := []struct {
		name, file string
		is         error
		words      []string
	}{
		{"no file", "/no/such/kubeconfig", os.ErrNotExist, []string{"/no/such/kubeconfig"}},
		{"no kubeconfig", broken, nil, []string{broken}},
		{"nobody there", kubeconfig(t, free), plane.ErrUnreachable, []string{free, "refused"}},
		{"not let in", kubeconfig(t, server(t, nil, 401)), plane.ErrUnauthorised, []string{"401"}},
		{"broken server", kubeconfig(t, server(t, nil, 503)), plane.ErrUnreachable, []string{"503"}},
		{"a right missing", kubeconfig(t, server(t, map[string]bool{"pods": true}, 0)), plane.ErrUnauthorised, []string{"may not create namespaces, nodes; list configmaps/status.example.org in n: run FILE --print-rbac"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := plane.Attach(t.Context(), c.file, plane.Options{Rights: append(creations(), plane.Right{Verb: "list", Group: "example.org", Resource: "configmaps", Part: "status", Namespace: "n"})})
			if err == nil {
				t.Fatal("no error")
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v is not %v", err, c.is)
			}
			for _, w := range append(c.words, c.file) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q: %v", w, err)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

// port returns the number in a component's address.
func port(t *testing.T, url string) int {
	t.Helper()
	return repotest.Must(strconv.Atoi(regexp.MustCompile(`:(\d+)/`).FindStringSubmatch(url)[1]))(t)
}
