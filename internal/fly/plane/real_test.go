package plane_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// real starts a real plane.
func real(t *testing.T, cfg scenario.Plane) *plane.Plane {
	t.Helper()
	p := repotest.Must(plane.Start(t.Context(), cfg, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("ready after %.2f s: %v, data on %s", p.Facts().Ready, p.Versions(), p.Facts().DataOn)
	return p
}

// get asks one question and returns code and body.
func get(t *testing.T, e endpoint.Endpoint, path string) (int, string) {
	t.Helper()
	client, base, err := e.Client()
	repotest.NoError(t, err)
	defer client.CloseIdleConnections()
	url := path
	if !strings.HasPrefix(path, "https:") {
		url = strings.TrimSuffix(base.String(), "/") + path
	}
	resp := repotest.Must(client.Get(url))(t)
	defer resp.Body.Close()
	body := repotest.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(body)
}

// remains says what of a plane is left.
func remains(pids []int, ports []int, paths []string) (left []string) {
	for _, pid := range pids {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(raw), ") Z ") {
			left = append(left, "process "+strconv.Itoa(pid))
		}
	}
	for _, port := range ports {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = c.Close()
			left = append(left, "port "+strconv.Itoa(port))
		}
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, path)
		}
	}
	return left
}

// inventory lists what must be gone after the end.
func inventory(t *testing.T, p *plane.Plane) (pids, ports []int, paths []string) {
	t.Helper()
	for _, c := range p.Components() {
		pids = append(pids, c.PID)
		ports = append(ports, port(t, c.MetricsURL))
		for _, dir := range c.Cgroups {
			paths = append(paths, dir)
		}
	}
	for _, c := range p.Facts().Components {
		for _, arg := range c.Args {
			if dir, ok := strings.CutPrefix(arg, "--data-dir="); ok {
				paths = append(paths, filepath.Dir(dir))
			}
		}
	}
	return pids, ports, paths
}

func TestRealPlane(t *testing.T) {
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	const text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 7\n"
	repotest.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	p := real(t, scenario.Plane{Limits: scenario.Limits{CPU: 1.5, Memory: unit.Bytes(8 << 30)}, Components: map[string]scenario.Component{
		component.Scheduler:         {Flags: map[string]string{"config": config, "v": "2"}},
		component.ControllerManager: {CPU: 1.5, Memory: unit.Bytes(1 << 30), Env: map[string]string{"GOGC": "90"}},
	}})
	t.Run("every component's metrics", func(t *testing.T) { checkMetrics(t, p) })
	t.Run("identities", func(t *testing.T) { checkIdentities(t, p) })
	t.Run("limits", func(t *testing.T) { checkLimits(t, p) })
	t.Run("facts", func(t *testing.T) { checkFacts(t, p) })
	t.Run("service accounts", func(t *testing.T) { checkAccounts(t, p) })
	t.Run("kubectl", func(t *testing.T) { checkKubectl(t, p) })
	t.Run("attach", func(t *testing.T) { checkAttach(t, p) })
	t.Run("pause", func(t *testing.T) { checkPause(t, p) })
	t.Run("close leaves nothing", func(t *testing.T) { checkClose(t, p) })
}

func checkMetrics(t *testing.T, p *plane.Plane) {
	telling := map[string]string{
		component.Etcd: "etcd_server_has_leader 1", component.APIServer: "apiserver_request_duration_seconds_bucket",
		component.Scheduler: "scheduler_pending_pods", component.ControllerManager: "workqueue_depth",
	}
	for _, c := range p.Components() {
		code, body := get(t, c.Scrape, c.MetricsURL)
		if code != http.StatusOK || !strings.Contains(body, telling[c.Name]) {
			t.Errorf("%s: %d, %d bytes, want %q in them", c.Name, code, len(body), telling[c.Name])
		}
	}
	if len(p.Components()) != len(telling) {
		t.Errorf("%d components", len(p.Components()))
	}
}

func checkIdentities(t *testing.T, p *plane.Plane) {
	users := map[string]string{plane.Load: "windtunnel:load", plane.Fleet: "windtunnel:fleet", plane.Admin: "windtunnel:admin", plane.Observe: "windtunnel:observe"}
	levels := map[string]string{plane.Admin: "exempt", plane.Observe: "exempt", plane.Load: "global-default", plane.Fleet: "system"}
	uids := priorityLevels(t, p)
	for who, user := range users {
		e := p.Endpoint(who)
		client, base, err := e.Client()
		repotest.NoError(t, err)
		review := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
		resp, err := client.Post(base.JoinPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").String(), "application/json", strings.NewReader(review))
		repotest.NoError(t, err)
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		client.CloseIdleConnections()
		if !strings.Contains(string(body), `"username":"`+user+`"`) {
			t.Errorf("%s is %s", who, body)
		}
		if level := uids[resp.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid")]; level != levels[who] {
			t.Errorf("%s is queued as %q, want %q", who, level, levels[who])
		}
		if code, body := get(t, e, "/api/v1/nodes"); code != http.StatusOK {
			t.Errorf("%s may not list nodes: %d %s", who, code, body)
		}
	}
	anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: anonymousTLS(t, p)}}
	defer anonymous.CloseIdleConnections()
	resp := repotest.Must(anonymous.Get(p.Endpoint(plane.Admin).Server() + "/api/v1/nodes"))(t)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("anonymous gets %d, want 403", resp.StatusCode)
	}
}

// anonymousTLS trusts the plane and brings no certificate.
func anonymousTLS(t *testing.T, p *plane.Plane) *tls.Config {
	t.Helper()
	c := repotest.Must(p.Endpoint(plane.Admin).TLS())(t)
	return &tls.Config{RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12}
}

// priorityLevels returns the name of each priority level by its UID.
func priorityLevels(t *testing.T, p *plane.Plane) map[string]string {
	t.Helper()
	_, body := get(t, p.Endpoint(plane.Admin), "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations")
	var list struct {
		Items []struct{ Metadata struct{ Name, UID string } }
	}
	repotest.NoError(t, json.Unmarshal([]byte(body), &list))
	out := map[string]string{}
	for _, i := range list.Items {
		out[i.Metadata.UID] = i.Metadata.Name
	}
	return out
}

func checkLimits(t *testing.T, p *plane.Plane) {
	c, _ := p.Component(component.ControllerManager)
	if !c.Limited {
		if len(p.Warnings()) == 0 {
			t.Error("limits are not in force and no warning says so")
		}
		t.Skip(p.Warnings())
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.PID))
	if err != nil || !strings.Contains(string(raw), filepath.Base(c.Cgroups["memory"])) {
		t.Errorf("it runs in %s, %v", raw, err)
	}
	if len(p.Warnings()) != 0 {
		t.Errorf("warnings %v", p.Warnings())
	}
	if f := p.Facts(); !f.Limited || f.CPULimit != 1.5 || f.MemoryLimit != 8<<30 {
		t.Errorf("facts of the plane as a whole: %+v", f)
	}
	for _, c := range p.Components() {
		for controller, dir := range p.Cgroups() {
			if filepath.Dir(c.Cgroups[controller]) != dir {
				t.Errorf("%s of %s is held in %s, not in %s", controller, c.Name, c.Cgroups[controller], dir)
			}
		}
		if c.Limited != (c.Name == component.ControllerManager) {
			t.Errorf("%s: limits of its own: %v", c.Name, c.Limited)
		}
	}
}

func checkFacts(t *testing.T, p *plane.Plane) {
	f := p.Facts()
	if f.Kind != "embedded" || f.Durability != "memory" || f.Ready <= 0 || len(f.Components) != 4 {
		t.Errorf("facts %+v", f)
	}
	scheduler, _ := p.Component(component.Scheduler)
	if code, body := get(t, scheduler.Scrape, strings.TrimSuffix(scheduler.MetricsURL, "/metrics")+"/configz"); !strings.Contains(body, `"percentageOfNodesToScore":7`) {
		t.Errorf("the scheduler runs with another configuration: %d %s", code, body)
	}
	for _, c := range f.Components {
		if c.Name == component.ControllerManager && (!slices.Equal(c.Env, []string{"GOGC=90"}) || c.CPULimit != 1.5 || c.MemoryLimit != 1<<30) {
			t.Errorf("facts of %s: %+v", c.Name, c)
		}
	}
	if v := p.Versions(); !strings.HasPrefix(v["kubernetes"], "v1.") || strings.HasPrefix(v["kubernetes"], "v0") || v["etcd"] == "" || len(v) != 2 {
		t.Errorf("versions %v", v)
	}
}

// windtunnel makes exactly the accounts that the controllers want.
func checkAccounts(t *testing.T, p *plane.Plane) {
	code, body := get(t, p.Endpoint(plane.Admin), "/api/v1/namespaces/kube-system/serviceaccounts")
	var list struct {
		Items []struct {
			Metadata struct {
				Name          string
				ManagedFields []struct{ Manager string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	for _, i := range list.Items {
		for _, m := range i.Metadata.ManagedFields {
			if i.Metadata.Name != "default" && m.Manager == "kube-controller-manager" {
				t.Errorf("the controller-manager had to make %s itself", i.Metadata.Name)
			}
		}
	}
}

func checkKubectl(t *testing.T, p *plane.Plane) {
	kubectl := repotest.Kubectl(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, p.Endpoint(plane.Admin).WriteKubeconfig(file))
	for _, args := range [][]string{{"create", "namespace", "flight"}, {"get", "serviceaccounts", "-n", "default"}, {"auth", "can-i", "*", "*"}} {
		cmd := exec.Command(kubectl, append([]string{"--kubeconfig", file, "--cache-dir", t.TempDir()}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl %v: %v: %s", args, err, out)
		}
	}
}

func checkAttach(t *testing.T, p *plane.Plane) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, p.Endpoint(plane.Load).WriteKubeconfig(file))
	q := repotest.Must(plane.Attach(t.Context(), file, plane.Options{}))(t)
	if err := q.Close(); err != nil || q.Versions()["kubernetes"] != p.Versions()["kubernetes"] {
		t.Errorf("%v, versions %v", err, q.Versions())
	}
	scheduler := filepath.Join(filepath.Dir(flagValue(t, p, component.Scheduler, "kubeconfig")), "scheduler.conf")
	if _, err := plane.Attach(t.Context(), scheduler, plane.Options{Rights: creations()}); !errors.Is(err, plane.ErrUnauthorised) || !strings.Contains(err.Error(), "namespaces, nodes, pods") {
		t.Errorf("the scheduler's kubeconfig: %v", err)
	}
}

func flagValue(t *testing.T, p *plane.Plane, name, flag string) string {
	t.Helper()
	for _, c := range p.Facts().Components {
		for _, arg := range c.Args {
			if value, ok := strings.CutPrefix(arg, "--"+flag+"="); ok && c.Name == name {
				return value
			}
		}
	}
	t.Fatalf("%s has no flag %s", name, flag)
	return ""
}

func checkPause(t *testing.T, p *plane.Plane) {
	c, _ := p.Component(component.Scheduler)
	repotest.NoError(t, c.Pause())
	client, _, err := c.Scrape.Client()
	repotest.NoError(t, err)
	defer client.CloseIdleConnections()
	client.Timeout = 300 * time.Millisecond
	repotest.Eventually(t, "a paused component does not answer", func() bool { // its threads stop one by one
		resp, err := client.Get(c.MetricsURL)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err != nil
	})
	repotest.NoError(t, c.Continue())
	if code, _ := get(t, c.Scrape, c.MetricsURL); code != http.StatusOK {
		t.Errorf("after going on: %d", code)
	}
}

func checkClose(t *testing.T, p *plane.Plane) {
	pids, ports, paths := inventory(t, p)
	if len(remains(pids, ports, paths)) < len(pids)+len(ports)+1 {
		t.Error("the plane is not all there before the end: the test shows nothing")
	}
	begin := time.Now()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("Close took %v", took)
	}
	if left := remains(pids, ports, paths); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	select {
	case d := <-p.Died():
		t.Errorf("a death is reported of a plane that was closed: %v", d)
	default:
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
