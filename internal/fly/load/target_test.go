package load_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// Each call goes to the member that it names, retries too, and a member that is not
// there takes nothing from the others.
func TestCallsGoToTheirMembers(t *testing.T) {
	var got [3]atomic.Int64
	serve := func(i int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if got[i].Add(1) == 1 {
				w.WriteHeader(http.StatusInternalServerError) // and is asked again
			}
		}
	}
	b := newBench(t, serve(0), load.Options{})
	for i := 1; i < 3; i++ {
		member, err := b.AddMember(apitest.Serve(t, serve(i)), min(1, i-1))
		if err != nil || member != i {
			t.Fatalf("member %d, %v", member, err)
		}
	}
	if b.MemberResources(1) != b.MemberResources(2) || b.MemberResources(0) != b.Resources() {
		t.Error("a member that serves the same is asked again, or as the plane")
	}
	p := plan(30, time.Millisecond)
	p.Retry = load.Retry{Times: 1, Delay: time.Millisecond}
	build := p.Build
	p.Build = func(i int, req *load.Request) (bool, error) {
		req.Member = i % 3
		return build(i, req)
	}
	repotest.NoError(t, b.Run(t.Context(), p))
	for i := range got {
		if n := got[i].Load(); n != 11 {
			t.Errorf("server %d got %d calls, want 10 and one again", i, n)
		}
	}
	failed := 0
	for _, c := range b.calls(t) {
		if c.Outcome == record.Failed {
			failed++
		}
	}
	if failed != 3 {
		t.Errorf("%d calls failed, want the first of each", failed)
	}
	p.Build = func(_ int, req *load.Request) (bool, error) { req.Member = 3; return true, nil }
	if err := b.Run(t.Context(), p); err == nil {
		t.Error("a call to a member that is not known is no error")
	}
}
