package serve

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
)

// TestLargeBodies holds how many bytes of large bodies there are at once, and how many
// requests with one are decoded.
func TestLargeBodies(t *testing.T) {
	b := newBodies()
	var all []*room
	for range bodiesLimit / codec.Limit {
		r := &room{of: &b}
		repotest.NoError(t, r.reserveBytes(-1))
		all = append(all, r)
	}
	one := &room{of: &b}
	if err := one.reserveBytes(codec.Limit); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a body beyond the limit: %v", err)
	}
	if err := one.reserveBytes(largeFrom); err != nil || one.bytes != 0 {
		t.Errorf("a small body: %v", err)
	}
	for range cap(b.turns) {
		b.turns <- struct{}{}
	}
	gone := make(chan struct{})
	close(gone)
	if err := all[0].waitTurn(gone); !apierrors.IsTimeout(err) {
		t.Errorf("no turn is free: %v", err)
	}
	if err := one.waitTurn(gone); err != nil {
		t.Errorf("a small body needs no turn: %v", err)
	}
	<-b.turns
	if err := all[0].waitTurn(nil); err != nil || len(b.turns) != cap(b.turns) {
		t.Errorf("a turn is free: %v", err)
	}
	for _, r := range all {
		r.releaseAll()
	}
	if n := b.bytes.Load(); n != 0 || len(b.turns) != cap(b.turns)-1 {
		t.Errorf("%d bytes are held after all requests, %d turns", n, len(b.turns))
	}
}
