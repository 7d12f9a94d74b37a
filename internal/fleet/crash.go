package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// The ways to disturb pods: Fail ends them with an error for good, Crash lets
// their containers end and start again, later each time.
const (
	Fail  = "fail"
	Crash = "crash"
)

const (
	firstBackoff = 10 * time.Second // of a kubelet that starts a container again; doubling
	lastBackoff  = 5 * time.Minute
	pageLimit    = 500
)

// selected asks the server for the names and namespaces (name -> namespace for
// pods that is "namespace/name" -> node) of what a label selector matches; nil
// when there is none.
func (f *Fleet) selected(ctx context.Context, path, selector string) (map[string]string, error) {
	if selector == "" {
		return nil, nil
	}
	out := map[string]string{}
	err := f.pages(ctx, path, url.Values{"labelSelector": {selector}}, func(o listed) { out[o.Metadata.Name] = o.Metadata.Namespace })
	return out, err
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

// pages calls take for each object of a list.
func (f *Fleet) pages(ctx context.Context, path string, query url.Values, take func(listed)) error {
	query.Set("limit", fmt.Sprint(pageLimit))
	for {
		r, err := f.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path + "?" + query.Encode(), Timeout: listTimeout})
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
			take(o)
		}
		if list.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

// crasher disturbs pods until its context ends.
type crasher struct {
	*Fleet
	d    scenario.Disturbance
	rng  *rand.Rand
	wait sync.WaitGroup
	mu   sync.Mutex
	hit  map[string]int // by uid: how often
}

// disturbPods chooses pods of the fleet that run, at once or one after another
// with exponential gaps of mean d.Between.
func (f *Fleet) disturbPods(ctx context.Context, d scenario.Disturbance) (func(), error) {
	if d.Action != Fail && d.Action != Crash {
		return nil, fmt.Errorf("fleet: %q is no way to disturb pods: want fail or crash", d.Action)
	}
	f.mu.Lock()
	c := &crasher{Fleet: f, d: d, rng: rand.New(rand.NewPCG(f.rng.Uint64(), 0x6372617368)), hit: map[string]int{}}
	f.mu.Unlock()
	pods, err := c.running(ctx)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("fleet: %s: %w: no running pod of the fleet matches", d.Action, ErrVictims)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if d.Between > 0 {
		c.wait.Go(func() { c.rate(ctx, pods) })
	} else {
		for _, p := range c.chosen(pods) {
			c.strike(ctx, p)
		}
	}
	var once sync.Once
	undo := func() { once.Do(func() { cancel(); c.wait.Wait() }) }
	f.atClose(undo)
	return undo, nil
}

// running lists the fleet's pods that run and match.
func (c *crasher) running(ctx context.Context) ([]listed, error) {
	query := url.Values{"fieldSelector": {"spec.nodeName!=,status.phase=Running"}}
	if c.d.Pods.Selector != "" {
		query.Set("labelSelector", c.d.Pods.Selector)
	}
	var out []listed
	err := c.pages(ctx, "/api/v1/pods", query, func(o listed) {
		if c.has(o.Spec.NodeName) {
			out = append(out, o)
		}
	})
	return out, err
}

func (f *Fleet) has(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.byName[node]
	return n != nil && n.fault == nil
}

func (c *crasher) chosen(pods []listed) []listed {
	c.rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods[:wanted(c.d.Pods, len(pods))]
}

// relook is how often the pods that may be chosen are listed again.
const relook = 10 * time.Second

// rate strikes one pod after another.
func (c *crasher) rate(ctx context.Context, pods []listed) {
	pods = c.chosen(pods)
	looked := c.clock.Now()
	for next := looked; ; {
		next = next.Add(exponential(c.rng, time.Duration(c.d.Between)))
		if clock.Sleep(ctx, c.clock.Until(next)) != nil {
			return
		}
		if c.clock.Now().Sub(looked) > relook {
			if again, err := c.running(ctx); err == nil {
				pods, looked = c.chosen(again), c.clock.Now()
			}
		}
		if len(pods) > 0 {
			c.strike(ctx, pods[c.rng.IntN(len(pods))])
		}
	}
}

// strike lets one pod fail or crash; a crashed one comes back by itself.
func (c *crasher) strike(ctx context.Context, p listed) {
	c.mu.Lock()
	times := c.hit[p.Metadata.UID]
	c.hit[p.Metadata.UID]++
	c.mu.Unlock()
	if c.d.Action == Fail {
		c.patch(ctx, p, c.statuses(p, times, failed))
		return
	}
	if !c.patch(ctx, p, c.statuses(p, times, crashed)) {
		return
	}
	pause := min(firstBackoff<<min(times, 6), lastBackoff)
	if c.d.Down > 0 {
		pause = time.Duration(c.d.Down)
	}
	c.wait.Go(func() {
		_ = clock.Sleep(ctx, pause) // at the end of the disturbance they come back at once
		c.patch(context.WithoutCancel(ctx), p, c.statuses(p, times+1, restarted))
	})
}

// state is what became of a pod's containers.
type state uint8

const (
	failed state = iota
	crashed
	restarted
)

// statuses is the patch of a pod's status: v1.PodStatus as a kubelet writes it.
func (c *crasher) statuses(p listed, restarts int, s state) map[string]any {
	now := c.clock.Wall(c.clock.Now()).UTC().Format(time.RFC3339)
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
	for _, container := range p.Spec.Containers {
		one := map[string]any{"name": container.Name, "ready": ready == "True", "started": ready == "True", "restartCount": restarts, "state": current}
		for _, known := range p.Status.ContainerStatuses {
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
	return map[string]any{"metadata": map[string]any{"uid": p.Metadata.UID}, "status": status}
}

// patch sends a pod's status; false when the pod is not there any more.
func (c *crasher) patch(ctx context.Context, p listed, body map[string]any) bool {
	raw, _ := json.Marshal(body) // of texts and numbers: cannot fail
	due := c.clock.Now()
	r, err := c.client.Do(ctx, &wire.Request{
		Method: http.MethodPatch, ContentType: patchType, Body: raw, Timeout: callTimeout, Discard: true,
		Path: "/api/v1/namespaces/" + p.Metadata.Namespace + "/pods/" + p.Metadata.Name + "/status",
	})
	if r == nil {
		r = &wire.Response{Err: err, Done: c.clock.Now()}
	}
	if c.records != nil {
		c.records.Call(r.Call(c.ops[podStatus], due))
	}
	return r.Outcome() == record.OK
}
