// Package lifecycle stamps the phases of objects by the receipt of watch events on
// watches of its own, so that neither the fleet nor the API's timestamps of
// whole seconds decide what a run measured (rule of measurement 3): those of
// pods in every run (Observer, typed and small), those of any resource where a
// scenario declares them (Declared). What happened while a watch was interrupted or
// held up is dated by the times between which it happened.
//
// It judges nothing: it writes record.Phase records, and keeps counts of pods
// by group for the steps that wait.
package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Group names the pods that a selector selects, for those without the label
// windtunnel.dev/group.
type Group struct {
	Name      string
	Namespace string // empty: all
	Selector  labels.Selector
}

// phase is a bit in a pod's set of phases seen.
type phase uint8

const (
	created phase = 1 << iota
	bound
	running
	ready
	finished
	deleting
	deleted
	unknown
)

// Counts are the pods of a group that have reached a phase, ever; Existing and
// the phases of those that exist now are what steps wait for.
type Counts struct {
	Created, Bound, Running, Ready, Deleted int // ever
	Existing                                int // not deleted
	RunningNow, ReadyNow                    int // running and not deleting; ready among them
}

// Observer watches all pods of a plane or of a member, or those with a label.
type Observer struct {
	records  *record.Writer
	selected []Group // a pod belongs to the first that selects it
	only     string  // selector of the pods that are watched; empty: all

	mu     sync.Mutex
	state  watchState
	pods   map[string]*pod // by UID
	groups map[string]*Counts
	view   object.Pod // of the event that is being read
}

type pod struct {
	id    record.ObjectID
	group *Counts
	seen  phase
}

// New returns an observer that writes to records. Pods without the label
// windtunnel.dev/group belong to the first of the groups that selects them.
func New(records *record.Writer, groups ...Group) *Observer {
	return &Observer{
		records: records, selected: groups, pods: map[string]*pod{}, groups: map[string]*Counts{}, state: newWatchState("pods", "", nil),
	}
}

// WithProbe lets the observer tell events that were held up; before Run.
func (o *Observer) WithProbe(p *Probe) *Observer {
	o.state.probe = p
	return o
}

// In has the pods of a member observed; before Run.
func (o *Observer) In(cluster string) *Observer {
	o.state.cluster = cluster
	return o
}

// WithLabel has only the pods with this label watched; before Run.
func (o *Observer) WithLabel(name, value string) *Observer {
	o.only = "labelSelector=" + url.QueryEscape(name+"="+value)
	return o
}

// Run follows the pods until ctx ends. It returns nil then, and an error when
// the server refuses the watch for good.
func (o *Observer) Run(ctx context.Context, client *wire.Client, c clock.Clock) error {
	err := watch.Follow(ctx, client, watch.Options{Path: "/api/v1/pods", Selector: o.only, Clock: c, Patience: retryInterval}, handler{o, c})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("observe pods: %w", err)
}

// Synced is closed when the first list was read: what is created from then on
// is seen being created.
func (o *Observer) Synced() <-chan struct{} { return o.state.synced }

// Counts returns the counts of a group; zero when nothing of it was seen.
func (o *Observer) Counts(group string) Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.groups[group]; c != nil {
		return *c
	}
	return Counts{}
}

// SawAny reports whether a pod was seen.
func (o *Observer) SawAny() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.groups) > 0
}

// handler is the observer's side that the watch calls, all from one goroutine.
type handler struct {
	o *Observer
	c clock.Clock
}

func (h handler) ListBegin(_ bool, why string) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	if now := h.c.Now(); h.o.state.listBegin() {
		h.o.records.Event(h.o.state.gapEvent(now, why))
	}
}

func (h handler) ListEnd() {
	o := h.o
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.state.dateListed(h.c.Now())
	for _, uid := range o.state.listed.End(maps.Keys(o.pods)) {
		o.endPod(uid, o.pods[uid], m)
	}
	o.state.listEnd()
}

// Bookmark notes that the watch is whole.
func (h handler) Bookmark(at clock.Time, version uint64) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	h.o.state.noteBookmark(at, version)
}

// ListAsked notes when a list was asked for.
func (h handler) ListAsked(at clock.Time) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	h.o.state.requestedAt = at
}

// Event takes one pod as it is now.
func (h handler) Event(e watch.Event) {
	o := h.o
	o.mu.Lock()
	defer o.mu.Unlock()
	view := &o.view
	if object.DecodePod(e.Object, view) != nil || len(view.UID) == 0 {
		return // a later event or list shows it again
	}
	p, m := o.pods[string(view.UID)], o.state.dateEvent(e, string(view.UID))
	switch {
	case p == nil && e.Kind == watch.Deleted:
		return
	case p == nil:
		p = o.addPod(view, o.groupOf(view, e.Object))
		if e.Kind == watch.Added {
			o.notePhase(p, created, m)
		} else {
			o.notePhase(p, unknown, m) // it was there before we looked
			p.seen |= created
		}
	}
	o.advancePod(p, phasesOf(view), m)
	if e.Kind == watch.Deleted {
		o.endPod(string(view.UID), p, m)
	}
}

// phasesOf says which phases a pod's state shows.
func phasesOf(v *object.Pod) (seen phase) {
	if len(v.NodeName) > 0 {
		seen |= bound
	}
	switch string(v.Phase) {
	case "Running":
		seen |= running
	case "Succeeded", "Failed":
		seen |= finished
	}
	if string(v.Ready) == "True" {
		seen |= ready
	}
	if v.Deleting {
		seen |= deleting
	}
	return seen
}

// groupOf says which group a new pod belongs to: what its label says, or the
// first that selects it; empty when there is none.
func (o *Observer) groupOf(v *object.Pod, raw []byte) string {
	if len(v.Group) > 0 || len(o.selected) == 0 {
		return string(v.Group)
	}
	set := labels.Set{}
	object.Pairs(raw, false, func(name, value []byte) { set[string(name)] = string(value) })
	for _, g := range o.selected {
		if (g.Namespace == "" || g.Namespace == string(v.Namespace)) && g.Selector.Matches(set) {
			return g.Name
		}
	}
	return ""
}

func (o *Observer) addPod(v *object.Pod, group string) *pod {
	counts := o.groups[group]
	if counts == nil {
		counts = &Counts{}
		o.groups[group] = counts
	}
	p := &pod{group: counts, id: o.records.Object(record.Object{
		Resource: "pods", Namespace: string(v.Namespace), Name: string(v.Name), UID: string(v.UID), Group: group, Cluster: o.state.cluster,
	})}
	o.pods[string(v.UID)] = p
	counts.Created++
	counts.Existing++
	return p
}

// advancePod records the phases that are new, and keeps the counts.
func (o *Observer) advancePod(p *pod, now phase, m bounded) {
	before := p.seen
	for _, step := range [...]phase{bound, running, ready, finished, deleting} {
		if now&step != 0 {
			o.notePhase(p, step, m)
		}
	}
	fresh := p.seen &^ before
	c := p.group
	c.Bound += hasPhase(fresh, bound)
	c.Running += hasPhase(fresh, running)
	c.Ready += hasPhase(fresh, ready)
	c.RunningNow += countActive(p.seen, running) - countActive(before, running)
	c.ReadyNow += countActive(p.seen, ready) - countActive(before, ready)
}

func hasPhase(set, one phase) int {
	if set&one != 0 {
		return 1
	}
	return 0
}

// countActive counts a pod that is in a phase and is not on its way out.
func countActive(set, one phase) int {
	if set&(deleting|finished|deleted) != 0 {
		return 0
	}
	return hasPhase(set, one)
}

// notePhase records that a pod is in a phase, the first time. Where nobody knows
// exactly when, unknown comes before it.
func (o *Observer) notePhase(p *pod, step phase, m bounded) {
	if p.seen&step != 0 {
		return
	}
	if m.within > 0 && step != unknown {
		o.notePhase(p, unknown, m)
	}
	p.seen |= step
	o.records.Phase(record.Phase{Object: p.id, Phase: phaseName(step), At: m.at, Within: m.within})
}

func (o *Observer) endPod(uid string, p *pod, m bounded) {
	before := p.seen
	o.notePhase(p, deleted, m)
	p.group.RunningNow += countActive(p.seen, running) - countActive(before, running)
	p.group.ReadyNow += countActive(p.seen, ready) - countActive(before, ready)
	p.group.Deleted++
	p.group.Existing--
	delete(o.pods, uid)
}

func phaseName(p phase) string {
	switch p {
	case created:
		return record.PhaseCreated
	case bound:
		return record.PhaseBound
	case running:
		return record.PhaseRunning
	case ready:
		return record.PhaseReady
	case finished:
		return record.PhaseFinished
	case deleting:
		return record.PhaseDeleting
	case deleted:
		return record.PhaseDeleted
	}
	return record.PhaseUnknown
}
