package skew

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
)

func version(t *testing.T, text string) Version {
	t.Helper()
	v, ok := Parse(text)
	if !ok {
		t.Fatalf("%q is no version", text)
	}
	return v
}

func always(string) bool { return true }

// The examples of the policy's own page, moved to these releases: API servers of 1.37 and
// 1.36 with each release of the others.
func TestMeetingsOfThePolicy(t *testing.T) {
	both := []Version{{1, 37, 1}, {1, 36, 3}}
	for _, c := range []struct {
		part    string
		servers []Version
		allowed []int // minor releases of the part
	}{
		{Nodes, both[:1], []int{34, 35, 36, 37}},
		{Nodes, both, []int{34, 35, 36}},
		{component.Scheduler, both[:1], []int{36, 37}},
		{component.Scheduler, both, []int{36}},
		{component.ControllerManager, both[:1], []int{36, 37}},
		{component.ControllerManager, both, []int{36}},
		{component.APIServer, both[:1], []int{36, 37, 38}},
	} {
		for minor := 30; minor < 41; minor++ {
			all := map[string][]Version{component.APIServer: c.servers}
			all[c.part] = append(slices.Clone(all[c.part]), Version{1, minor, 9})
			if got := checkMeeting(all); (len(got) == 0) != slices.Contains(c.allowed, minor) {
				t.Errorf("%s 1.%d with API servers %v: %v", c.part, minor, c.servers, got)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	now := State{component.Etcd: version(t, "v3.6.12"), component.APIServer: version(t, "v1.36.3"), component.ControllerManager: version(t, "v1.36.3"), component.Scheduler: version(t, "v1.36.3"), Nodes: version(t, "v1.36.3")}
	for _, c := range []struct{ to, etcd, parts, want, breaks string }{
		{"v1.37.1", "v3.7.0", "all", "etcd kube-apiserver kube-controller-manager kube-scheduler nodes", ""},
		{"v1.36.4", "v3.6.12", "all", "etcd kube-apiserver kube-controller-manager kube-scheduler nodes", ""},
		{"v1.36.3", "v3.6.12", "all", "etcd kube-apiserver kube-controller-manager kube-scheduler nodes", ""},
		{"v1.35.4", "v3.6.8", "all", "nodes kube-scheduler kube-controller-manager kube-apiserver etcd", ""},
		{"v1.36.2", "v3.7.0", "all", "nodes kube-scheduler kube-controller-manager kube-apiserver etcd", ""},
		{"v1.37.1", "", "nodes kube-apiserver", "kube-apiserver nodes", ""},
		{"v1.35.4", "", "kube-scheduler nodes", "nodes kube-scheduler", ""},
		{"v1.37.1", "", "nodes", "nodes", "kubelets must not be newer than any API server"},
		{"v1.37.1", "", "kube-scheduler", "kube-scheduler", "schedulers must not be newer than any API server"},
		{"v1.32.3", "", "nodes", "nodes", "kubelets may be at most three minor releases older than any API server"},
		{"v1.34.3", "", "kube-controller-manager", "kube-controller-manager", "controller managers may be at most one minor release older than any API server"},
		{"v1.38.0", "", "kube-apiserver", "kube-apiserver", "API servers must not skip a minor release; API servers must be within one minor release; controller managers may be at most one minor release older than any API server; schedulers may be at most one minor release older than any API server"},
		{"v1.36.3", "v3.8.0", "etcd", "etcd", "etcd must not skip a minor release"},
		{"v2.36.3", "", "kube-apiserver", "kube-apiserver", "API servers must not skip a minor release; API servers must be within one minor release; controller managers may be at most one minor release older than any API server; schedulers may be at most one minor release older than any API server; kubelets may be at most three minor releases older than any API server"},
	} {
		change := Change{To: version(t, c.to), Parts: strings.Fields(c.parts)}
		change.Etcd, _ = Parse(c.etcd)
		if c.parts == "all" {
			change.Parts = Parts()
		}
		if got := strings.Join(change.Order(now), " "); got != c.want {
			t.Errorf("%+v: order %s, want %s", c, got, c.want)
		}
		var rules []string
		for _, v := range change.Check(now, always) {
			rules = append(rules, v.Rule)
			if !strings.HasPrefix(v.URL, "https://") || !strings.Contains(v.String(), v.Meets) {
				t.Errorf("%+v: %v", c, v)
			}
		}
		if got := strings.Join(rules, "; "); got != c.breaks {
			t.Errorf("%+v breaks %q, want %q", c, got, c.breaks)
		}
	}
}

// bounds decides by intervals what checkMeeting decides by pairs.
func bounds(all map[string][]Version) bool {
	minors := func(part string) (low, high int, some bool) {
		for _, v := range all[part] {
			if !some {
				low, high = v.Minor, v.Minor
			}
			low, high, some = min(low, v.Minor), max(high, v.Minor), true
		}
		return
	}
	low, high, some := minors(component.APIServer)
	if !some {
		return true
	}
	good := high-low <= 1
	for part, older := range map[string]int{component.Scheduler: 1, component.ControllerManager: 1, Nodes: 3} {
		if l, h, ok := minors(part); ok {
			good = good && h <= low && l >= high-older
		}
	}
	return good
}

func TestRulesOverRandomReleases(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	release := func(from, n int) Version { return Version{1, from + rng.IntN(n), rng.IntN(5)} }
	refused := 0
	for range 20_000 {
		all := map[string][]Version{}
		for _, part := range Parts()[1:] {
			for range rng.IntN(3) {
				all[part] = append(all[part], release(33, 5))
			}
		}
		broken := checkMeeting(all)
		if (len(broken) == 0) != bounds(all) {
			t.Fatalf("seed %d: %v: %v", seed, all, broken)
		}
		if len(broken) > 0 {
			refused++
		}
	}
	if refused < 1000 || refused > 19_900 {
		t.Errorf("%d of 20,000 are refused: the test tries too little", refused)
	}
}

// From one release of everything, to the next or previous minor release and to any patch,
// the order never breaks a rule, whatever runs in several processes. Any other order of the
// components' steps does, if the minor release changes.
func TestOrderKeepsEveryRule(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 5000 {
		from := Version{1, 30 + rng.IntN(8), rng.IntN(5)}
		to := Version{1, from.Minor + rng.IntN(3) - 1, rng.IntN(5)}
		now := State{}
		for _, part := range Parts() {
			if part == component.APIServer || rng.IntN(4) > 0 {
				now[part] = from
			}
		}
		change := Change{To: to, Etcd: to, Parts: Parts()}
		lot := map[string]bool{}
		for _, part := range Parts() {
			lot[part] = rng.IntN(2) == 0
		}
		several := func(part string) bool { return lot[part] }
		if got := change.Check(now, several); len(got) > 0 {
			t.Fatalf("seed %d: %v to %v: %v", seed, now, to, got)
		}
		for part, v := range change.After(now) {
			if v != to {
				t.Fatalf("seed %d: %s is %v after a change to %v", seed, part, v, to)
			}
		}
		clients := slices.DeleteFunc(Parts()[2:], func(part string) bool { _, ok := now[part]; return !ok })
		if to.Minor == from.Minor || len(clients) == 0 {
			continue
		}
		// Up, a client before the servers; down, the servers before a client.
		first := Change{To: to, Parts: []string{clients[rng.IntN(len(clients))]}}
		if to.Minor < from.Minor {
			first.Parts = []string{component.APIServer}
		}
		if got := first.Check(now, several); len(got) == 0 {
			t.Fatalf("seed %d: %v to %v, %v first: no rule is broken", seed, now, to, first.Parts)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{"v1.36.3": "v1.36.3", "3.6.12": "v3.6.12", "v1.36": "", "v1.36.3-rc.0": "", "": "", "v1.36.99999999999999999999": ""} {
		v, ok := Parse(text)
		if got := fmt.Sprint(v); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %s, %v", text, got, ok)
		}
	}
}
