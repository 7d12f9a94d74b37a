package plane_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestClientLimitOf(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sched.yaml":   "kind: KubeSchedulerConfiguration\nclientConnection: {qps: 5, burst: 6}\n",
		"default.yaml": "kind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\n",
		"own.yaml":     "kind: OperatorConfiguration\nclientConnection: {qps: 7}\n",
		"silent.yaml":  "kind: OperatorConfiguration\n",
		"broken.yaml":  "kind: [\n",
	} {
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, c := range []struct {
		args []string
		want *record.ClientLimit
	}{
		{[]string{"--v=2", "--config=sched.yaml"}, &record.ClientLimit{QPS: 5, Burst: 6}},
		{[]string{"-config", filepath.Join(dir, "sched.yaml"), "--v=2"}, &record.ClientLimit{QPS: 5, Burst: 6}},
		{[]string{"--config=default.yaml"}, &record.ClientLimit{QPS: 50, Burst: 100}},
		{[]string{"--config=own.yaml"}, &record.ClientLimit{QPS: 7}},
		{[]string{"--config=silent.yaml"}, nil}, {[]string{"--config=broken.yaml"}, nil}, {[]string{"--config=missing.yaml"}, nil},
		{[]string{"config", "sched.yaml"}, nil}, {[]string{"--config"}, nil}, {nil, nil},
	} {
		got := plane.ClientLimitOf(c.args, dir)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%v: %v, want %v", c.args, got, c.want)
		}
	}
}
