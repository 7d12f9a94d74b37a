package plane

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestChooseFolder(t *testing.T) {
	shm := func(free uint64) dataFolder { return dataFolder{"/dev/shm", true, free} }
	disk := func(base string, free uint64) dataFolder { return dataFolder{base, false, free} }
	cases := []struct {
		name, durability string
		folders          []dataFolder
		base, warning    string
		fault            bool
	}{
		{"memory, roomy", "memory", []dataFolder{shm(4 * gib), disk("/tmp", 9*gib)}, "/dev/shm", "", false},
		{"memory, tight", "memory", []dataFolder{shm(gib), disk("/tmp", 9*gib)}, "/tmp", "on disk", false},
		{"memory, no tmpfs", "memory", []dataFolder{disk("/tmp", 9*gib)}, "/tmp", "on disk", false},
		{"fsync", "fsync", []dataFolder{shm(4 * gib), disk("/tmp", 9*gib)}, "/tmp", "", false},
		{"fsync, /tmp is a tmpfs", "fsync", []dataFolder{shm(4 * gib), {"/tmp", true, 9 * gib}, disk("/var/tmp", gib)}, "/var/tmp", "", false},
		{"fsync, first disk full", "fsync", []dataFolder{disk("/tmp", 1000), disk("/var/tmp", gib)}, "/var/tmp", "", false},
		{"fsync, no disk", "fsync", []dataFolder{shm(4 * gib), disk("/tmp", 1000)}, "/dev/shm", "costs nothing", false},
		{"all full", "memory", []dataFolder{shm(gib), disk("/tmp", 12<<20)}, "", "", true},
		{"none", "fsync", nil, "", "", true},
	}
	for _, c := range cases {
		got, warning, err := chooseFolder(c.durability, c.folders)
		if got.base != c.base || !strings.Contains(warning, c.warning) || (warning == "") != (c.warning == "") || errors.Is(err, ErrNoSpace) != c.fault {
			t.Errorf("%s: %q, warning %q, %v", c.name, got.base, warning, err)
		}
		if c.name == "all full" && !strings.Contains(err.Error(), "/tmp has 12 MiB free") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRoomOfThisMachine(t *testing.T) {
	if r, err := measureFolder(t.TempDir()); err != nil || r.free == 0 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := measureFolder("/no/such/folder"); err == nil {
		t.Error("room where nothing is")
	}
	if r, err := measureFolder(sharedMemory); err == nil && r.tmpfs && storageOf(sharedMemory+"/not/yet/there") != "tmpfs" {
		t.Error("a folder to be made on a tmpfs is not seen as such")
	}
	if q := quotaFor(dataFolder{free: 4 * gib}); q != 3*gib {
		t.Errorf("quota %d", q)
	}
	if q := quotaFor(dataFolder{free: 100 * gib}); q != 8*gib {
		t.Errorf("quota %d", q)
	}
}

func TestPortIn(t *testing.T) {
	for value, want := range map[string]int{
		"6443": 6443, "https://127.0.0.1:2379": 2379, "https://127.0.0.1:1,https://[::1]:2": 1, "65535": 65535,
		"0": 0, "-1": 0, "65536": 0, "": 0, "x": 0, "https://127.0.0.1": 0, "http://127.0.0.1:2379": 0, "https://%zz:1": 0,
	} {
		got, err := portIn(value)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", value, got, err)
		}
	}
}

func TestChoosePorts(t *testing.T) {
	several := scenario.Plane{EtcdMembers: 3, APIServers: 2, Components: map[string]scenario.Component{
		component.APIServer + "-1": {Flags: map[string]string{"secure-port": strconv.Itoa(freePort(t))}},
	}}
	if all, err := choosePorts(several); err != nil || len(all) != 3+3+2+1+1 || all[peerOf("etcd-2")] == all["etcd-2"] || strconv.Itoa(all["kube-apiserver-1"]) != several.SettingsOf("kube-apiserver-1").Flags["secure-port"] {
		t.Errorf("of several: %v, %v", all, err)
	}
	first := repotest.Must(choosePorts(scenario.Plane{}))(t)
	seen := map[int]bool{}
	for name, port := range first {
		if port < 1024 || seen[port] {
			t.Errorf("%s gets port %d", name, port)
		}
		if low := lowestEphemeral(); low > lowestPort+1000 && port >= low {
			t.Errorf("%s gets port %d, which an outgoing connection may have", name, port)
		}
		seen[port] = true
	}
	if len(first) != 5 {
		t.Errorf("ports %v", first)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	ports := repotest.Must(FreePorts(1))(t)
	return ports[0]
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"Kubernetes v1.37.1\n": "v1.37.1", "W0101 a warning\nKubernetes v1.30.0-rc.1+abc\n": "v1.30.0-rc.1+abc",
		"etcd Version: 3.5.12\nGit SHA: x\n": "3.5.12", "usage: something": "", "": "",
	} {
		if got, ok := versionIn(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q", text, got)
		}
	}
	for version, want := range map[string]bool{"3.6.0": true, "3.7": true, "v4.0.1": true, "3.5.12": false, "": false, "x.y": false} {
		if atLeast(version, 3, 6) != want {
			t.Errorf("atLeast(%q, 3, 6) = %v", version, !want)
		}
	}
}

func TestSchedulerConfigIsCompleted(t *testing.T) {
	base := t.TempDir()
	s := exampleSite()
	s.folder = t.TempDir()
	const given = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 7\nclientConnection: {qps: 99}\n"
	repotest.NoError(t, os.WriteFile(filepath.Join(base, "s.yaml"), []byte(given), 0o600))
	own := scenario.Component{Flags: map[string]string{"--config": "s.yaml", "v": "2"}}
	got := repotest.Must(withConnection(component.Scheduler, own, s, base))(t)
	if own.Flags["--config"] != "s.yaml" || got.Flags["v"] != "2" {
		t.Errorf("flags %v from %v", got.Flags, own.Flags)
	}
	raw := repotest.Must(os.ReadFile(got.Flags["--config"]))(t)
	var c struct {
		PercentageOfNodesToScore int
		ClientConnection         struct {
			Kubeconfig string
			QPS        float64
		}
		LeaderElection struct{ LeaderElect *bool }
	}
	repotest.NoError(t, yaml.Unmarshal(raw, &c))
	if c.PercentageOfNodesToScore != 7 || c.ClientConnection.QPS != 99 || c.ClientConnection.Kubeconfig != "/run/pki/scheduler.conf" || c.LeaderElection.LeaderElect == nil || *c.LeaderElection.LeaderElect {
		t.Errorf("completed to:\n%s", raw)
	}
	for name, text := range map[string]string{"empty.yaml": "", "broken.yaml": "a: [\n"} {
		repotest.NoError(t, os.WriteFile(filepath.Join(base, name), []byte(text), 0o600))
		if _, err := withConnection(component.Scheduler, scenario.Component{Flags: map[string]string{"config": name}}, s, base); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("GOGC", "17")
	t.Setenv("ETCD_NAME", "other")
	for _, e := range ownEnvironment() {
		if strings.HasPrefix(e, "GOGC") || strings.HasPrefix(e, "ETCD") {
			t.Errorf("%s is inherited", e)
		}
	}
}

func TestControllerAccountsStandOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range controllerAccounts() {
		if seen[name] || strings.TrimSpace(name) == "" {
			t.Errorf("%q stands twice", name)
		}
		seen[name] = true
	}
	if !seen["replicaset-controller"] || len(component.Names()) != 4 {
		t.Error("accounts are missing")
	}
}
