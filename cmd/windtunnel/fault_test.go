package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestFaultOnARunningUp boots a plane with stages, a flag and a limit of its own,
// and breaks things in it from outside.
func TestFaultOnARunningUp(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	config, endUp := u.up("--nodes", "3", "--stages", "general", "--flag", "kube-apiserver.max-requests-inflight=50", "--limit", "etcd.cpu=1")
	if info, err := os.Stat(filepath.Join(filepath.Dir(config), flight.ControlSocket)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	for _, tt := range []struct {
		args, want string
		code       int
	}{
		{"pause etcd --for 100ms", "pause etcd: began pause etcd: over", exitPass},
		{"kill kube-scheduler --for 10ms", "kill kube-scheduler: began kill kube-scheduler: over", exitPass},
		{"slow kube-controller-manager --share 0.5 --for 100ms", "slow kube-controller-manager: over", exitPass},
		{"notready nodes --count 2 --for 100ms", "notready nodes: over", exitPass},
		{"crash pods --for 1s", "nothing to disturb: no running pod", exitFault},
		{"explode etcd", "fault.action", exitFault},
		{"slow etcd", "fault.share", exitFault},
		{"kill etcdd", `did you mean "etcd"`, exitFault},
	} {
		fault := exec.Command(u.bin, append([]string{"fault"}, strings.Fields(tt.args)...)...)
		fault.Env = append(os.Environ(), "KUBECONFIG="+config)
		raw, err := fault.CombinedOutput()
		if text := strings.Join(strings.Fields(string(raw)), " "); exitOf(err) != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: exit code %d: %s, want %d: %s", tt.args, exitOf(err), text, tt.code, tt.want)
		}
	}
	// One that has no end is taken back when the up ends.
	fault := exec.Command(u.bin, "fault", "pause", "kube-scheduler", "--folder", filepath.Dir(config))
	var told output
	fault.Stdout, fault.Stderr = &told, &told
	repotest.NoError(t, fault.Start())
	repotest.Eventually(t, "it holds", func() bool { return strings.Contains(told.String(), "began") })
	endUp()
	_ = fault.Wait()
	fault = exec.Command(u.bin, "fault", "kill", "etcd", "--folder", filepath.Dir(config))
	if raw, err := fault.CombinedOutput(); exitOf(err) != exitFault || !strings.Contains(string(raw), "no windtunnel up of yours is running") {
		t.Errorf("without an up: %v, %s", err, raw)
	}
}

func TestUpFlags(t *testing.T) {
	for want, f := range map[string]upFlags{
		`--flag etcdd.a=b: "etcdd" is no component: want one of etcd, kube-apiserver`: {flags: []string{"etcdd.a=b"}},
		"--flag etcd: want COMPONENT.NAME=VALUE":                                      {flags: []string{"etcd"}},
		"--limit etcd.disk=1: want etcd.cpu or etcd.memory":                           {limits: []string{"etcd.disk=1"}},
		"--limit plane.disk=1: want plane.cpu or plane.memory":                        {limits: []string{"plane.disk=1"}},
		"--flag plane.a=1: \"plane\" is no component":                                 {flags: []string{"plane.a=1"}},
		"the limit of etcd is above that of the plane as a whole":                     {limits: []string{"plane.cpu=1", "etcd.cpu=2"}},
		"--limit etcd.cpu=-1: want more than 0 cores":                                 {limits: []string{"etcd.cpu=-1"}},
		"--durability never: want memory or fsync":                                    {durability: "never"},
	} {
		if _, err := f.upOptions(nil, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f := upFlags{
		nodes: 7, stages: []string{"general"}, set: []string{"nodes=5"},
		flags: []string{"etcd.--quota-backend-bytes=1000", "etcd.a=b=c"}, limits: []string{"etcd.cpu=0.5", "etcd.memory=1Gi"},
	}
	o := repotest.Must(f.upOptions([]string{"../../examples/density.yaml"}, false))(t)
	c := o.Plane.Components["etcd"]
	if o.Fleet.Nodes != 5 || o.Fleet.Stages[0] != "general" || c.CPU != 0.5 || c.Memory != 1<<30 || c.Flags["quota-backend-bytes"] != "1000" || c.Flags["a"] != "b=c" {
		t.Errorf("%+v %+v", o.Fleet, c)
	}
}
