package controller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
)

// rollout is what is known of the components of a deploy step, each in each of its places. Which
// is to be applied, and what the step says, is decided here, without a cluster.
type rollout []*delivered

// delivered is what came of one component in one place.
type delivered struct {
	plan.Target
	healthy bool
	message string // why it is not
	err     error
}

func newRollout(targets []plan.Target) (out rollout) {
	for _, t := range targets {
		out = append(out, &delivered{Target: t})
	}
	return out
}

// isDue says whether a component is to be applied: it is not healthy, and what it depends on is
// in the same place.
func (r rollout) isDue(t *delivered) bool {
	return !t.healthy && !slices.ContainsFunc(r, func(o *delivered) bool {
		return o.At == t.At && !o.healthy && slices.Contains(t.Component.DependsOn, o.Component.Name)
	})
}

// result says whether all are healthy, and names the first that failed or are waited for.
func (r rollout) result() (ok bool, message string, err error) {
	var errs []error
	var waiting []string
	for _, t := range r {
		if t.err != nil {
			errs = append(errs, t.err)
		} else if !t.healthy {
			waiting = append(waiting, strings.TrimSpace(fmt.Sprintf("%s in %s is not healthy %s", t.Component.Name, nameOf(t.At), t.message)))
		}
	}
	return len(errs)+len(waiting) == 0, fewWords(waiting), fewErrors(errs)
}

func nameOf(at plan.Place) string { return cmp.Or(at.Cluster, cluster.Local) }

// maxNamed is how many of what is wrong a step's message names: an application may
// go to hundreds of clusters.
const maxNamed = 3

func fewWords(all []string) string {
	if len(all) > maxNamed {
		return strings.Join(all[:maxNamed], "; ") + fmt.Sprintf("; and %d more", len(all)-maxNamed)
	}
	return strings.Join(all, "; ")
}

func fewErrors(all []error) error {
	if len(all) > maxNamed {
		return fmt.Errorf("%w\nand %d more", errors.Join(all[:maxNamed]...), len(all)-maxNamed)
	}
	return errors.Join(all...)
}
