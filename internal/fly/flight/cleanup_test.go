package flight

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// TestMain is a reaper, too: what looks after the programs that these tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.ReaperArg {
		os.Exit(process.ReaperMain(os.Stdin))
	}
	os.Exit(m.Run())
}

// ofOthers makes the server a cluster of somebody else.
func (b *bench) ofOthers() {
	b.options.Kubeconfig, b.visit.client = "somebody else's", b.client
	b.namespaces.stamp = b.newStamp()
}

// TestLeaveNeedsNoRecords deletes a run's namespaces when its disk is full.
func TestLeaveNeedsNoRecords(t *testing.T) {
	b := newBench(t, head(2)+"- {pause: 1ms}\n")
	b.ofOthers()
	for i := range 2 {
		b.server.Add("/api/v1/namespaces/"+b.workload.Namespace(i), map[string]any{"metadata": map[string]any{"labels": map[string]any{object.RunLabel: b.id}}})
	}
	repotest.NoError(t, b.dir.records.Close())
	tries := 0
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodDelete {
			if tries++; tries == 1 {
				return &apitest.Injection{Code: http.StatusTooManyRequests}
			}
		}
		return nil
	})
	b.cleanUp(t.Context())
	if left := b.server.Names("/api/v1/namespaces"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeaveKeepsForgedLabels leaves a cluster in which somebody has put the run's label on an
// object while the run was under way: by hand, or by copying a manifest out of it.
func TestLeaveKeepsForgedLabels(t *testing.T) {
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.ofOthers()
	labeledBy := func(path, manager string) {
		b.server.Add(path, map[string]any{"metadata": map[string]any{
			"labels": map[string]any{object.RunLabel: b.id},
			"managedFields": []any{map[string]any{"manager": manager, "apiVersion": "v1",
				"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + object.RunLabel: map[string]any{}}}}}},
		}})
	}
	labeledBy("/api/v1/namespaces/forged", "kubectl-label")
	labeledBy("/api/v1/namespaces/"+b.workload.Namespace(0), "windtunnel-load")
	b.cleanUp(t.Context())
	if left := b.server.Names("/api/v1/namespaces"); !slices.Equal(left, []string{"forged"}) {
		t.Errorf("left %v, want the forged one alone", left)
	}
}

// TestLeaveAfterLostAnswers leaves a cluster on which one namespace was made
// although the server gave up, and others were there before.
func TestLeaveAfterLostAnswers(t *testing.T) {
	b := newBench(t, head(3)+"- {pause: 1ms}\n")
	b.ofOthers()
	for _, i := range []int{1, 2} {
		b.server.Add("/api/v1/namespaces/"+b.workload.Namespace(i), map[string]any{})
	}
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		var made map[string]any
		if err := json.NewDecoder(r.Body).Decode(&made); r.Method != http.MethodPost || err != nil {
			return nil
		}
		switch made["metadata"].(map[string]any)["name"] {
		case b.workload.Namespace(0): // it is stored, and the answer lost
			return &apitest.Injection{Code: http.StatusGatewayTimeout, Done: true}
		case b.workload.Namespace(1):
			return &apitest.Injection{Code: http.StatusInternalServerError}
		}
		return &apitest.Injection{Code: http.StatusConflict}
	})
	if err := b.namespaces.createAll(t.Context(), b.generator, b.client); err == nil {
		t.Fatal("a run that has not got its namespaces goes on")
	}
	b.cleanUp(t.Context())
	if left, want := b.server.Names("/api/v1/namespaces"), []string{b.workload.Namespace(1), b.workload.Namespace(2)}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

// leave makes an object of the run's, as a subject does whose lease was taken from it.
func (b *bench) leave() {
	b.server.Add("/api/v1/namespaces/left", map[string]any{"metadata": map[string]any{"labels": map[string]any{object.RunLabel: b.id}}})
}

// checkNoneLeft asks that nothing of the run is there any more.
func (b *bench) checkNoneLeft(t *testing.T) {
	t.Helper()
	if left := b.server.Names("/api/v1/namespaces"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestTheLastLookIsAfterTheEndOfPrograms leaves a cluster on which a program has made an
// object just before it ended, after the clean-up had looked.
func TestTheLastLookIsAfterTheEndOfPrograms(t *testing.T) {
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.ofOthers()
	var err error
	if b.plane, err = plane.Beside("somebody else's", nil, plane.Options{Log: b.log, Clock: b.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.plane.Close() })
	started, err := b.plane.Launch(t.Context(), plane.Program{Name: "operator", Path: "/bin/sleep", Args: []string{"1h"}, LogFile: b.dir.File("operator.log")})
	repotest.NoError(t, err)
	program := repotest.Must(process.Of(started.PID))(t)
	remade := false // requests are asked about one at a time
	b.server.Inject(func(*http.Request) *apitest.Injection {
		if program.Alive() || remade {
			return nil
		}
		remade = true
		b.leave()
		return nil
	})
	b.leave()
	b.cleanUp(t.Context())
	if !remade {
		t.Error("nobody has looked after the program's end")
	}
	b.checkNoneLeft(t)
}

// TestTheLastLookIsAfterTheEndOfTheCaller: the same of the subject in the process that started
// windtunnel, such as a Go test.
func TestTheLastLookIsAfterTheEndOfTheCaller(t *testing.T) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	b := newBenchOf(t, "subjects: [{name: operator, external: true}]\n"+head(1)+"- {pause: 1ms}\n", external.New(ours))
	b.ofOthers()
	var looked atomic.Bool
	go func() {
		_ = external.Serve(context.WithoutCancel(t.Context()), theirs, os.Getpid(), func(ctx context.Context, _ external.Start, ready func()) error {
			ready()
			<-ctx.Done()
			looked.Store(len(b.server.Names("/api/v1/namespaces")) == 0)
			b.leave()
			return nil
		})
	}()
	repotest.NoError(t, b.subjects.startAll(t.Context(), b.plane, &installation{}, b.dir))
	b.leave()
	b.cleanUp(t.Context())
	if !looked.Load() {
		t.Error("it was not ended after the clean-up had looked for the first time")
	}
	b.checkNoneLeft(t)
}
