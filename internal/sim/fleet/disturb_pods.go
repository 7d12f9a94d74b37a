package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// The ways to disturb pods: Fail ends them with an error for good, Crash lets
// their containers end and start again, later each time.
const (
	Fail  = "fail"
	Crash = "crash"
)

// crashBackoff is that of a kubelet which starts a container again.
func crashBackoff() wire.Backoff { return wire.Backoff{First: 10 * time.Second, Last: 5 * time.Minute} }

const pageLimit = 500

// selectNodes asks the server for the names of the nodes that a label selector
// matches; nil when there is none.
func (d *disturber) selectNodes(ctx context.Context, selector string) (map[string]bool, error) {
	if selector == "" {
		return nil, nil
	}
	names := map[string]bool{}
	err := d.eachListed(ctx, nodesPath, url.Values{"labelSelector": {selector}}, func(o listed) { names[o.Metadata.Name] = true })
	return names, err
}

// listed is what is read of an object in a list.
type listed struct {
	Metadata struct{ Name, Namespace, UID string }
	Spec     struct {
		NodeName   string
		Containers []struct{ Name string }
	}
	Status struct {
		Phase             string
		ContainerStatuses []struct {
			Name, Image  string
			RestartCount int
		}
	}
}

// eachListed calls visit for each object of a list.
func (d *disturber) eachListed(ctx context.Context, path string, query url.Values, visit func(listed)) error {
	query.Set("limit", fmt.Sprint(pageLimit))
	for {
		r, err := d.driver.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path + "?" + query.Encode(), Timeout: listTimeout})
		if err != nil {
			return fmt.Errorf("fleet: choose what to disturb: %w", err)
		}
		if r.Code >= http.StatusBadRequest {
			return fmt.Errorf("fleet: choose what to disturb: %w", r.Refusal())
		}
		var list object.List[listed]
		if err := json.Unmarshal(r.Body, &list); err != nil {
			return fmt.Errorf("fleet: choose what to disturb: %w", err)
		}
		for _, o := range list.Items {
			visit(o)
		}
		if list.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

// podDisturber lets pods fail or crash until its context ends.
type podDisturber struct {
	*disturber
	want scenario.Disturbance
	rng  *rand.Rand
	wait guard.Group
	mu   sync.Mutex
	hit  map[string]int // by uid: how often

	struck, refused int   // pods: whose status was changed, and was not
	why             error // of the first refusal
}

// disturbPods chooses pods of the fleet that run, at once or one after another
// with exponential gaps of mean want.Between.
func (d *disturber) disturbPods(ctx context.Context, want scenario.Disturbance) (func() error, error) {
	if want.Action != Fail && want.Action != Crash {
		return nil, fmt.Errorf("fleet: %q is no way to disturb pods: want fail or crash", want.Action)
	}
	d.driver.mu.Lock()
	p := &podDisturber{disturber: d, want: want, rng: rand.New(rand.NewPCG(d.driver.rng.Uint64(), 0x6372617368)), hit: map[string]int{}}
	d.driver.mu.Unlock()
	pods, err := p.listRunning(ctx)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("fleet: %s: %w: no running pod of the fleet matches", want.Action, ErrVictims)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if want.Between > 0 {
		p.wait.Go(func() { p.strikeAtRate(ctx, pods) })
	} else {
		for _, o := range p.choosePods(pods) {
			p.strikePod(ctx, o)
		}
	}
	undo := sync.OnceValue(func() error {
		cancel()
		p.wait.Wait()
		return p.missed(len(pods))
	})
	d.driver.mu.Lock()
	d.ending = append(d.ending, func() { _ = undo() })
	d.driver.mu.Unlock()
	return undo, nil
}

// missed says what of a disturbance of pods did not come about, of so many that matched. It
// is asked when nobody strikes any more.
func (p *podDisturber) missed(matched int) error {
	nothing := fmt.Errorf("fleet: %s: %w", p.want.Action, ErrVictims)
	switch {
	case p.refused > 0:
		return fmt.Errorf("%w: %d of %d pods were not changed: %w", nothing, p.refused, p.refused+p.struck, p.why)
	case matched < p.want.Pods.Count:
		return fmt.Errorf("%w: of %s that were asked for, %d matched and ran", nothing, unit.Count(p.want.Pods.Count, "pods"), matched)
	case p.struck == 0:
		return fmt.Errorf("%w: no pod was hit; between is %v", nothing, p.want.Between)
	}
	return nil
}

// noteStrike takes note of what a strike came to, and says whether the pod was hit. One that
// is gone meanwhile is no refusal.
func (p *podDisturber) noteStrike(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var status *wire.StatusError
	switch {
	case err == nil:
		p.struck++
	case !errors.As(err, &status) || status.Code != http.StatusNotFound && status.Code != http.StatusConflict:
		p.refused++
		p.why = cmp.Or(p.why, err)
	}
	return err == nil
}

// listRunning lists the fleet's pods that run and match.
func (p *podDisturber) listRunning(ctx context.Context) (out []listed, err error) {
	query := url.Values{"fieldSelector": {"spec.nodeName!=,status.phase=Running"}}
	if p.want.Pods.Selector != "" {
		query.Set("labelSelector", p.want.Pods.Selector)
	}
	err = p.eachListed(ctx, "/api/v1/pods", query, func(o listed) {
		p.driver.mu.Lock()
		defer p.driver.mu.Unlock()
		if n := p.nodes.byName[o.Spec.NodeName]; n != nil && n.fault == nil {
			out = append(out, o)
		}
	})
	return out, err
}

func (p *podDisturber) choosePods(pods []listed) []listed {
	p.rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods[:victimCount(p.want.Pods, len(pods))]
}

// listAgain is how often the pods that may be chosen are listed again.
const listAgain = 10 * time.Second

// strikeAtRate strikes one pod after another.
func (p *podDisturber) strikeAtRate(ctx context.Context, pods []listed) {
	clocked := p.driver.clock
	pods = p.choosePods(pods)
	listedAt := clocked.Now()
	for next := listedAt; ; {
		next = next.Add(randomExponential(p.rng, time.Duration(p.want.Between)))
		if clock.Sleep(ctx, clocked.Until(next)) != nil {
			return
		}
		if clocked.Now().Sub(listedAt) > listAgain {
			if now, err := p.listRunning(ctx); err == nil {
				pods, listedAt = p.choosePods(now), clocked.Now()
			}
		}
		if len(pods) > 0 {
			p.strikePod(ctx, pods[p.rng.IntN(len(pods))])
		}
	}
}

// strikePod lets one pod fail or crash; a crashed one comes back by itself.
func (p *podDisturber) strikePod(ctx context.Context, o listed) {
	whole := context.WithoutCancel(ctx) // an answer that nobody waited for would leave a pod crashed
	p.mu.Lock()
	times := p.hit[o.Metadata.UID]
	p.hit[o.Metadata.UID]++
	p.mu.Unlock()
	if p.want.Action == Fail {
		p.noteStrike(p.patchStatus(whole, o, p.statusPatch(o, times, failed)))
		return
	}
	if !p.noteStrike(p.patchStatus(whole, o, p.statusPatch(o, times, crashed))) {
		return
	}
	pause := crashBackoff().Pause(times)
	if p.want.Down > 0 {
		pause = time.Duration(p.want.Down)
	}
	p.wait.Go(func() {
		_ = clock.Sleep(ctx, pause)                                       // at the end of the disturbance they come back at once
		_ = p.patchStatus(whole, o, p.statusPatch(o, times+1, restarted)) // one that is gone needs none
	})
}

// containerState is what became of a pod's containers.
type containerState uint8

const (
	failed containerState = iota
	crashed
	restarted
)

// statusPatch is the patch of a pod's status: v1.PodStatus as a kubelet writes it.
func (p *podDisturber) statusPatch(o listed, restarts int, s containerState) map[string]any {
	now := p.driver.clock.Wall(p.driver.clock.Now()).UTC().Format(time.RFC3339)
	ended := map[string]any{"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}
	status := map[string]any{"phase": "Running"}
	ready, current := "False", map[string]any{}
	switch s {
	case failed:
		status["phase"], status["reason"] = "Failed", "Error"
		current["terminated"] = ended
	case crashed:
		current["waiting"] = map[string]any{"reason": "CrashLoopBackOff", "message": "made to crash by windtunnel"}
	case restarted:
		ready, current["running"] = "True", map[string]any{"startedAt": now}
	}
	for _, key := range []string{"terminated", "waiting", "running"} {
		if current[key] == nil {
			current[key] = nil // takes the old state away
		}
	}
	var containers []any
	for _, container := range o.Spec.Containers {
		one := map[string]any{"name": container.Name, "ready": ready == "True", "started": ready == "True", "restartCount": restarts, "state": current}
		for _, known := range o.Status.ContainerStatuses {
			if known.Name == container.Name {
				one["restartCount"] = known.RestartCount + restarts
			}
		}
		if s != failed {
			one["lastState"] = map[string]any{"terminated": ended}
		}
		containers = append(containers, one)
	}
	status["containerStatuses"] = containers
	status["conditions"] = []any{
		map[string]any{"type": "Ready", "status": ready, "lastTransitionTime": now},
		map[string]any{"type": "ContainersReady", "status": ready, "lastTransitionTime": now},
	}
	return map[string]any{"metadata": map[string]any{"uid": o.Metadata.UID}, "status": status}
}

// patchStatus sends a pod's status; the error is an answer without success, too.
func (p *podDisturber) patchStatus(ctx context.Context, o listed, body map[string]any) error {
	e := p.driver
	raw, _ := json.Marshal(body) // of texts and numbers: cannot fail
	due := e.clock.Now()
	r, err := e.client.Do(ctx, &wire.Request{
		Method: http.MethodPatch, ContentType: patchType, Body: raw, Timeout: callTimeout,
		Path: "/api/v1/namespaces/" + o.Metadata.Namespace + "/pods/" + o.Metadata.Name + "/status",
	})
	if r == nil {
		r = &wire.Response{Err: err, Done: e.clock.Now()}
	}
	if e.records != nil {
		e.records.Call(r.Call(e.ops[podStatus], due))
	}
	switch {
	case err != nil:
		return err
	case r.Outcome() != record.OK:
		return r.Refusal()
	}
	about, _ := object.ReadMetadata(r.Body)
	version, _ := strconv.ParseUint(about.ResourceVersion, 10, 64)
	e.mu.Lock()
	defer e.mu.Unlock()
	p.readiness.noteOwnPatch(o.Metadata.UID, version)
	return nil
}
