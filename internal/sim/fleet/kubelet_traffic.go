package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/sim/fleet/traffic"
	"github.com/windtunnel/windtunnel/scenario"
)

// The traffic profiles. Minimal sends what it takes to move objects on and
// nothing else. Kubelet sends what the kubelet of Kubernetes 1.37 does with its
// defaults: its watches (package traffic), its Node's status every 5
// minutes, a GET before each PATCH of a pod's status, a token and a first status
// for each pod, its events, and the last status of a pod that is deleted.
const (
	MinimalTraffic = "minimal"
	KubeletTraffic = "kubelet"
)

const jsonType = "application/json"

// newKubeletWatches returns the watches of the traffic profile; nil for minimal.
func newKubeletWatches(cfg scenario.Fleet, o Options) (*traffic.Kubelets, error) {
	switch cfg.Traffic {
	case "", MinimalTraffic:
		return nil, nil
	case KubeletTraffic:
		nodes := o.Share.Count(cfg.Nodes)
		if o.Manage != nil {
			nodes = 5000 // not known yet: connections are dialled when they are needed
		}
		const namespaces = 5 // that a node has pods of, roughly
		return traffic.New(traffic.Options{
			Endpoint: o.Endpoint, Records: o.Records, Cluster: o.Cluster, Clock: o.Clock, Seed: o.Seed, Watches: nodes * (traffic.PerNode + namespaces),
		})
	}
	return nil, fmt.Errorf("fleet: traffic %q: want %s or %s", cfg.Traffic, MinimalTraffic, KubeletTraffic)
}

// kubeletTraffic is what real kubelets ask of the server besides what moves
// objects on. A nil one, with minimal traffic, asks nothing.
type kubeletTraffic struct {
	driver  *driver
	watches *traffic.Kubelets
}

// callsBefore is what a kubelet asks before an action.
func callsBefore(a action) []action {
	switch a {
	case podStatus:
		return []action{podToken, podRead, podPending, podRead}
	case podDelete:
		return []action{podRead, podTerminating}
	}
	return nil
}

// leadChain puts the first call of a chain before a job that leads one.
func (k *kubeletTraffic) leadChain(j *job) {
	if k == nil || j.chained > 0 {
		return
	}
	if c := callsBefore(j.action); len(c) > 0 {
		if j.action == podDelete {
			k.postEvent(j, "Killing", "Stopping container")
		}
		j.goal, j.action, j.chained = j.action, c[0], 1
	}
}

// turnToNext turns a job of a chain into the next one.
func (j *job) turnToNext() {
	if c := callsBefore(j.goal); j.chained < len(c) {
		j.action = c[j.chained]
		j.chained++
		return
	}
	j.action = j.goal
}

// buildCall writes a call of a pod's chain; its path is the pod's.
func (k *kubeletTraffic) buildCall(j *job) {
	r, p := &j.request, j.pod
	uid := p.key.String()
	now := k.driver.clock.Wall(k.driver.clock.Now()).UTC().Format(time.RFC3339)
	r.ContentType = jsonType
	switch j.action {
	case podToken:
		r.Method, r.Path = http.MethodPost, "/api/v1/namespaces/"+p.namespace+"/serviceaccounts/default/token"
		r.Body = fmt.Appendf(nil, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":3607,`+
			`"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":%q,"uid":%q}}}`, p.name, uid)
	case podRead:
		r.Method, r.Body = http.MethodGet, nil
	case podPending:
		r.Method, r.ContentType = http.MethodPatch, patchType
		r.Path += "/status"
		r.Body = fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"startTime":%q,"conditions":[`+
			`{"type":"PodReadyToStartContainers","status":"False","lastTransitionTime":%[2]q},`+
			`{"type":"Initialized","status":"True","lastTransitionTime":%[2]q},`+
			`{"type":"Ready","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q},`+
			`{"type":"ContainersReady","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q}]}}`, uid, now)
	case podTerminating:
		r.Method, r.ContentType = http.MethodPatch, patchType
		r.Path += "/status"
		r.Body = fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"conditions":[`+
			`{"type":"Ready","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q},`+
			`{"type":"ContainersReady","status":"False","reason":"ContainersNotReady","lastTransitionTime":%[2]q}]}}`, uid, now)
	}
}

// String writes a pod's key as the UUID that it was.
func (k podKey) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", k[0:4], k[4:6], k[6:8], k[8:10], k[10:16])
}

// reportStarted sends the events of a pod that began to run.
func (k *kubeletTraffic) reportStarted(j *job) {
	if k != nil && !j.Cancelled() && j.action == podStatus {
		k.postEvent(j, "Pulled", "Container image already present on machine")
		k.postEvent(j, "Created", "Container created")
		k.postEvent(j, "Started", "Container started")
	}
}

// statusInterval is how often a kubelet reports the status of a node that did not
// change (nodeStatusReportFrequency), give or take a half.
const statusInterval = 5 * time.Minute

// untilStatus is how long after a node's status the next one is due.
func (k *kubeletTraffic) untilStatus(delay time.Duration) time.Duration {
	if k != nil && delay > statusInterval {
		return statusInterval/2 + time.Duration(k.driver.rng.Int64N(int64(statusInterval)))
	}
	return delay
}

// postEvent posts an event about the pod of a job.
func (k *kubeletTraffic) postEvent(of *job, reason, message string) {
	p := of.pod
	now := k.driver.clock.Wall(k.driver.clock.Now()).UTC()
	at := now.Format(time.RFC3339)
	body, _ := json.Marshal(map[string]any{ // of texts and numbers: cannot fail
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"name": fmt.Sprintf("%s.%x", p.name, k.driver.rng.Uint64()), "namespace": p.namespace},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": p.name, "namespace": p.namespace, "uid": p.key.String()},
		"source":         map[string]any{"component": "kubelet", "host": p.node.name},
		"type":           "Normal", "reason": reason, "message": message, "count": 1, "firstTimestamp": at, "lastTimestamp": at,
	})
	j := k.driver.newJob(podEvent, p.node, nil, k.driver.clock.Now())
	j.path, j.body = "/api/v1/namespaces/"+p.namespace+"/events", append(j.body[:0], body...)
	k.driver.calls.Enqueue(&j.Call)
}

func (k *kubeletTraffic) addNode(node string) {
	if k != nil {
		k.watches.AddNode(node)
	}
}

func (k *kubeletTraffic) removeNode(node string) {
	if k != nil {
		k.watches.RemoveNode(node)
	}
}

// useNamespace tells that a node has a pod of a namespace.
func (k *kubeletTraffic) useNamespace(node, namespace string) {
	if k != nil {
		k.watches.UseNamespace(node, namespace)
	}
}

// breakConnections breaks all connections; they come back by themselves.
func (k *kubeletTraffic) breakConnections() {
	if k != nil {
		k.watches.Break()
	}
}

func (k *kubeletTraffic) close() error {
	if k == nil {
		return nil
	}
	return k.watches.Close()
}
