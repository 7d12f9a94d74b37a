package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// rolledScenario is an upgrade to the same release amid writes.
const rolledScenario = `scenario: rolled
failedCalls: ignore
preflight: {wait: 100ms, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread]}
plane: {release: RELEASE, etcdMembers: 3, apiservers: 2}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Name }}'}}"}
steps:
- parallel:
  - {name: writes, beside: true, create: {body: map, count: 100000, pace: {constant: 20}}}
  - sequence:
    - {name: up, upgrade: {to: RELEASE, parts: [etcd, kube-apiserver], between: 1s}}
`

// TestUpgradeCutShort kills windtunnel in an upgrade, when another process has the
// release. Nothing of the run is left, every call that was recorded before is there, and the
// verdict says where the upgrade stood.
func TestUpgradeCutShort(t *testing.T) {
	t.Parallel()
	cutUpgrade(t, syscall.SIGKILL, 4)
}

// TestProofUpgradeInterrupted is the same by Ctrl-C at the second part. It is no matter of times, but
// takes three etcd members and two API servers once more.
func TestProofUpgradeInterrupted(t *testing.T) {
	repotest.Proof(t)
	cutUpgrade(t, os.Interrupt, 2)
}

// cutUpgrade sends a signal when so many parts have begun.
func cutUpgrade(t *testing.T, signal os.Signal, parts int) {
	t.Helper()
	u := newTunnel(t)
	have, ok := release.Beside(u.bin)
	if !ok || have.Err != nil {
		t.Fatal(have.Err)
	}
	u.write(map[string]string{"rolled.yaml": strings.ReplaceAll(rolledScenario, "RELEASE", have.Kubernetes)})
	cmd, out := u.start("run", "rolled.yaml", "--out", "run")
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	var before roll
	repotest.Eventually(t, "parts have begun", func() bool {
		before = u.rollOf("run")
		select {
		case <-ended:
			t.Fatalf("the run has ended by itself:\n%s", out)
		default:
		}
		return before.begun >= parts
	})
	repotest.NoError(t, cmd.Process.Signal(signal))
	<-ended
	u.nothingLeft()
	if signal == os.Interrupt {
		if code := cmd.ProcessState.ExitCode(); code != exitUnknown {
			t.Errorf("exit code %d, want %d", code, exitUnknown)
		}
	} else if judge, text := u.start("judge", "run"); exitOf(judge.Wait()) != exitUnknown {
		t.Errorf("judge: %s", text)
	}
	after := u.rollOf("run")
	if before.calls == 0 || after.calls < before.calls || after.err != nil {
		t.Errorf("%d calls are recorded, %d were before: %v", after.calls, before.calls, after.err)
	}
	want := "The upgrade was not completed: step up was between two processes; " + after.upgradedBefore()
	if after.open != "" {
		want = "The upgrade was not completed: step up was changing " + after.open + " from " + after.from + " to " + after.to + "; " + after.upgradedBefore()
	}
	j := u.verdict()
	if j.Verdict != slo.Unknown || !strings.Contains(strings.Join(j.Reasons, " "), want) {
		t.Errorf("verdict %s: %q, want %q", j.Verdict, j.Reasons, want)
	}
}

// roll is what the records of a run say of its upgrade.
type roll struct {
	calls, begun   int
	done           []string
	open, from, to string // the process that was changing
	err            error
}

func (r roll) upgradedBefore() string {
	if len(r.done) == 0 {
		return "nothing had been upgraded before."
	}
	return "upgraded before: " + strings.Join(r.done, ", ") + "."
}

func (u *tunnel) rollOf(run string) (out roll) {
	_, out.err = record.Read(filepath.Join(u.dir, run, record.StreamFile), func(*record.Stream) record.Visitor {
		return record.Visitor{
			Call: func(record.Call) { out.calls++ },
			Event: func(e record.Event) {
				switch e.Type {
				case record.EventPartBegan:
					out.begun++
					out.open, out.from, out.to = e.Name, e.From, e.To
				case record.EventPartEnded:
					if e.Text == "" {
						out.done, out.open = append(out.done, e.Name), ""
					}
				}
			},
		}
	})
	return out
}
