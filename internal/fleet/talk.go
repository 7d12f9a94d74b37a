package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/fleet/traffic"
	"github.com/windtunnel/windtunnel/scenario"
)

// The traffic profiles. Minimal sends what it takes to move objects on and
// nothing else. Kubelet sends what the kubelet of Kubernetes 1.37 does with its
// defaults: its watches (package fleet/traffic), its Node's status every 5
// minutes, a GET before each PATCH of a pod's status, a token and a first status
// for each pod, its events, and the last status of a pod that is deleted.
const (
	MinimalTraffic = "minimal"
	KubeletTraffic = "kubelet"
)

// kubelets returns the watches of the traffic profile; nil for minimal.
func kubelets(cfg scenario.Fleet, o Options) (*traffic.Kubelets, error) {
	switch cfg.Traffic {
	case "", MinimalTraffic:
		return nil, nil
	case KubeletTraffic:
		nodes := cfg.Nodes
		if o.Manage != nil {
			nodes = 5000 // not known yet: connections are dialled when they are needed
		}
		const namespaces = 5 // that a node has pods of, roughly
		return traffic.New(traffic.Options{
			Endpoint: o.Endpoint, Records: o.Records, Clock: o.Clock, Seed: o.Seed, Watches: nodes * (traffic.PerNode + namespaces),
		})
	}
	return nil, fmt.Errorf("fleet: traffic %q: want %s or %s", cfg.Traffic, MinimalTraffic, KubeletTraffic)
}

// chain is what a kubelet asks before an action.
func chain(a action) []action {
	switch a {
	case podStatus:
		return []action{podToken, podLook, podWaiting, podLook}
	case podDelete:
		return []action{podLook, podKilling}
	}
	return nil
}

// lead puts the first call of a chain before a job that leads one.
func (f *Fleet) lead(j *job) {
	if f.kubelets == nil || j.link > 0 || j.cancelled {
		return
	}
	if c := chain(j.action); len(c) > 0 {
		if j.action == podDelete {
			f.event(j, "Killing", "Stopping container")
		}
		j.then, j.action, j.link = j.action, c[0], 1
	}
}

// follows goes on with a chain, whatever became of the call before: only the
// last one counts for the object. It is due now.
func (f *Fleet) follows(j *job) {
	if j.cancelled || j.pod == nil {
		f.dropJob(j)
		return
	}
	j.asked, j.attempt = j.answer.Done, 0
	if c := chain(j.then); j.link < len(c) {
		j.action = c[j.link]
		j.link++
	} else {
		j.action = j.then
	}
	f.enqueue(j)
}

// buildTalk writes a call of a pod's chain.
func (f *Fleet) buildTalk(j *job) {
	r, p := &j.request, j.pod
	uid := uidText(p.key)
	now := f.clock.Wall(f.clock.Now()).UTC().Format(time.RFC3339)
	r.ContentType = "application/json"
	switch j.action {
	case podToken:
		r.Method, r.Path = http.MethodPost, "/api/v1/namespaces/"+p.namespace+"/serviceaccounts/default/token"
		r.Body = fmt.Appendf(nil, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":3607,`+
			`"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":%q,"uid":%q}}}`, p.name, uid)
	case podLook:
		r.Method, r.Body = http.MethodGet, nil
	case podWaiting:
		r.Method, r.ContentType = http.MethodPatch, patchType
		r.Path += "/status"
		r.Body = fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"startTime":%q,"conditions":[`+
			`{"type":"PodReadyToStartContainers","status":"False","lastTransitionTime":%[2]q},`+
			`{"type":"Initialized","status":"True","lastTransitionTime":%[2]q},`+
			`{"type":"Ready","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q},`+
			`{"type":"ContainersReady","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q}]}}`, uid, now)
	case podKilling:
		r.Method, r.ContentType = http.MethodPatch, patchType
		r.Path += "/status"
		r.Body = fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"conditions":[`+
			`{"type":"Ready","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q},`+
			`{"type":"ContainersReady","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q}]}}`, uid, now)
	}
}

// uidText writes a pod's key as the UUID that it was.
func uidText(k [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", k[0:4], k[4:6], k[6:8], k[8:10], k[10:16])
}

// report sends the events of a pod that began to run.
func (f *Fleet) report(j *job) {
	if f.kubelets != nil && j.pod != nil && j.action == podStatus {
		f.event(j, "Pulled", "Container image already present on machine")
		f.event(j, "Created", "Container created")
		f.event(j, "Started", "Container started")
	}
}

// kubeletBeat is how often a kubelet reports the status of a node that did not
// change (nodeStatusReportFrequency), give or take a half.
const kubeletBeat = 5 * time.Minute

// beatAfter is when a node's next status is due.
func (f *Fleet) beatAfter(delay time.Duration) time.Duration {
	if f.kubelets != nil && delay > kubeletBeat {
		return kubeletBeat/2 + time.Duration(f.rng.Int64N(int64(kubeletBeat)))
	}
	return delay
}

func (f *Fleet) event(of *job, reason, message string) {
	p := of.pod
	now := f.clock.Wall(f.clock.Now()).UTC()
	at := now.Format(time.RFC3339)
	body, _ := json.Marshal(map[string]any{ // of texts and numbers: cannot fail
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"name": fmt.Sprintf("%s.%x", p.name, f.rng.Uint64()), "namespace": p.namespace},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": p.name, "namespace": p.namespace, "uid": uidText(p.key)},
		"source":         map[string]any{"component": "kubelet", "host": p.node.name},
		"type":           "Normal", "reason": reason, "message": message, "count": 1, "firstTimestamp": at, "lastTimestamp": at,
	})
	j := f.newJob(podEvent, p.node, nil, f.clock.Now())
	j.path, j.body = "/api/v1/namespaces/"+p.namespace+"/events", append(j.body[:0], body...)
	f.enqueue(j)
}
