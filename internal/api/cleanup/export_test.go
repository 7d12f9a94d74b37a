package cleanup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
)

// Drawn returns objects with the label, by chance: some labeled by windtunnel, some by
// others, in namespaces some of which are among them, with owners some of which are.
func Drawn(dice *rand.Rand, most int) (out []Found) {
	managers := []string{"windtunnel-load", "kubectl-label", "kube-controller-manager", ""}
	n := 1 + dice.IntN(most)
	for i := range n {
		f := Found{Object: Object{UID: fmt.Sprint(i)}, Resource: "configmaps", Namespace: fmt.Sprint("ns-", dice.IntN(3)), Name: fmt.Sprint("o-", i), managed: true}
		if dice.IntN(5) == 0 {
			f.Resource, f.Namespace, f.Name = "namespaces", "", fmt.Sprint("ns-", dice.IntN(3))
		}
		if by := managers[dice.IntN(len(managers))]; by != "" {
			f.by = []string{by}
		}
		for dice.IntN(2) == 0 {
			f.owners = append(f.owners, fmt.Sprint(dice.IntN(n+2)))
		}
		out = append(out, f)
	}
	return out
}

// LeadsToOurs walks owners and namespaces up to what windtunnel has labeled, in the
// plainest way there is.
func (f Found) LeadsToOurs(all []Found) bool {
	seen, next := map[string]bool{}, []Found{f}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if seen[at.UID] {
			continue
		}
		seen[at.UID] = true
		if at.isMarked() {
			return true
		}
		for _, p := range all {
			for _, uid := range at.owners {
				if p.UID == uid {
					next = append(next, p)
				}
			}
			if p.Resource == "namespaces" && p.Name == at.Namespace {
				next = append(next, p)
			}
		}
	}
	return false
}

// Delete deletes objects as a clean-up does.
func Delete(ctx context.Context, client discovery.Doer, objects []Object) error {
	return errors.Join(deleteEach(ctx, client, objects)...)
}

// RemoveWithin deletes what was found as a sweep with this deadline does.
func RemoveWithin(ctx context.Context, client discovery.Doer, within time.Duration, found []Found) error {
	return Sweeper{Client: client}.remove(ctx, newDeadline(within), found)
}
