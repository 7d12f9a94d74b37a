package plane

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func exampleSite() site {
	return site{
		folder: "/run", pki: "/run/pki", quota: 8 * gib, etcd36: true,
		ports: map[string]int{component.Etcd: 1, peerOf(component.Etcd): 2, component.APIServer: 3, component.Scheduler: 4, component.ControllerManager: 5},
	}
}

func TestCommandLines(t *testing.T) {
	older := exampleSite()
	older.fsync, older.etcd36 = true, false
	var b strings.Builder
	for _, name := range component.Names() {
		fmt.Fprintf(&b, "%s\n  %s\n", name, strings.Join(commandLine(flagsOf(name, exampleSite()), nil), "\n  "))
	}
	fmt.Fprintf(&b, "etcd, fsync, older than 3.6\n  %s\n", strings.Join(commandLine(flagsOf(component.Etcd, older), nil), "\n  "))
	s := exampleSite()
	s.counts = scenario.Plane{EtcdMembers: 3, APIServers: 2, Schedulers: 2, ControllerManagers: 2}
	s.front, s.ports = "https://127.0.0.1:9", map[string]int{}
	for i, name := range s.counts.Processes() {
		s.ports[name], s.ports[peerOf(name)] = 10+i, 20+i
	}
	for _, name := range []string{"etcd-2", "kube-apiserver-1", "kube-scheduler-1"} {
		fmt.Fprintf(&b, "%s of several\n  %s\n", name, strings.Join(commandLine(flagsOf(name, s), nil), "\n  "))
	}
	s.folder, s.counts.Audit = "/run", true
	fmt.Fprintf(&b, "kube-apiserver-1 with an audit log\n  %s\n", strings.Join(commandLine(auditFlags(s, "kube-apiserver-1"), nil), "\n  "))
	if other := auditFlags(s, "kube-scheduler-1"); other != nil {
		t.Errorf("the scheduler has no audit log, and gets %v", other)
	}
	repotest.Golden(t, "testdata/flags.golden", b.String())
}

func TestArgumentsOfTheUserWin(t *testing.T) {
	own := []struct{ name, value string }{{"secure-port", "1"}, {"v", "0"}}
	cases := []struct {
		name  string
		users map[string]string
		want  []string
	}{
		{"none", nil, []string{"--secure-port=1", "--v=0"}},
		{"in place", map[string]string{"v": "4"}, []string{"--secure-port=1", "--v=4"}},
		{"added in order", map[string]string{"z": "1", "a": "b=c d"}, []string{"--secure-port=1", "--v=0", "--a=b=c d", "--z=1"}},
		{"dashes and underscores", map[string]string{"--secure_port": "9"}, []string{"--secure-port=9", "--v=0"}},
		{"empty value", map[string]string{"secure-port": ""}, []string{"--secure-port=", "--v=0"}},
	}
	for _, c := range cases {
		var flags []flagValue
		for _, f := range own {
			flags = append(flags, flagValue(f))
		}
		if got := commandLine(flags, c.users); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What Differences says is what the command lines hold.
func TestDifferencesAreTrue(t *testing.T) {
	for _, durability := range []string{durabilityMemory, durabilityFsync} {
		s := exampleSite()
		s.fsync = durability == durabilityFsync
		for _, d := range Differences(durability) {
			if d.Flag == "" {
				continue
			}
			line := strings.Join(commandLine(flagsOf(d.Component, s), nil), " ")
			isSet := strings.Contains(line, "--"+d.Flag+"=")
			if says := d.Ours != "not set"; isSet != says {
				t.Errorf("%s --%s: set %v, said %q", d.Component, d.Flag, isSet, d.Ours)
			}
		}
	}
	if len(Differences(durabilityMemory)) != len(Differences(durabilityFsync))+1 {
		t.Error("durability memory is no difference")
	}
}

func TestCommandLinesHoldNoSecrets(t *testing.T) {
	for _, name := range component.Names() {
		for _, arg := range commandLine(flagsOf(name, exampleSite()), nil) {
			if strings.Contains(arg, "BEGIN") || strings.Contains(arg, "token=") || strings.Contains(arg, "password") {
				t.Errorf("%s: %s", name, arg)
			}
		}
	}
}
