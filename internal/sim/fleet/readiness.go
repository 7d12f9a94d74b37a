package fleet

import (
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/player"
)

// A kubelet compares the status of its pods with what the server holds every 10
// seconds (syncPeriod of its status manager) and writes its own word again where
// somebody else has changed it. The difference that occurs is the condition Ready:
// the node lifecycle controller sets it to False on all pods of a node that it
// does not hear of. The fleet is quicker than 2 seconds for none: an answer to a
// patch of its own may come later than the event that the patch causes.
const (
	firstRestore = 2 * time.Second
	lastRestore  = 10 * time.Second
)

// heldReady is what the kubelet of one pod knows of the pod's condition Ready.
type heldReady struct {
	ready  bool   // what the kubelet holds
	lostAt uint64 // version in which somebody else set it to False; 0: nobody did
	own    uint64 // version that the fleet's last patch made
	job    *job   // sets it to True again
}

// readiness keeps the pods of the fleet Ready that its stages have made Ready,
// whatever the stages are and whoever plays them. It owns the calls for that. Its
// methods are called in the driver's turn.
type readiness struct {
	driver *driver
	pods   *pods
	played map[string]*heldReady // of pods that players play, by uid
	schema *object.Schema        // of pods
}

func newReadiness(e *driver, p *pods) *readiness {
	return &readiness{driver: e, pods: p, played: map[string]*heldReady{}, schema: object.NewSchema[corev1.Pod]("v1", "Pod")}
}

// meetPod takes what the server says of a pod that is seen for the first time. A kubelet
// that starts works out a pod's condition from its containers: where nothing is said
// against them, and no reason is given why the pod is not ready, as a kubelet gives
// one, somebody else set it to False while the fleet was away.
func (h *heldReady) meetPod(o *object.Pod, whole func() object.Value) {
	if string(o.Ready) != "False" || o.Deleting || string(o.Phase) != "Running" {
		return
	}
	containers, reason := "", ""
	whole().Get("status").Get("conditions").Items(func(c object.Value) bool {
		switch kind := c.Get("type"); {
		case kind.Is("ContainersReady"):
			containers = c.Get("status").String()
		case kind.Is("Ready"):
			reason = c.Get("reason").String()
		}
		return true
	})
	h.ready = containers != "False" && reason == ""
}

// observeCondition takes what the server says of a pod.
func (r *readiness) observeCondition(h *heldReady, n *node, o *object.Pod) {
	switch {
	case o.Version < h.own: // overtaken by a patch of the fleet
	case string(o.Ready) == "True":
		h.ready, h.lostAt = true, 0
	case o.Version == h.own:
		h.ready, h.lostAt = false, 0
	case !h.ready || o.Deleting || string(o.Phase) != "Running":
		h.lostAt = 0
	case h.lostAt == 0:
		h.lostAt = o.Version
		if h.job == nil {
			h.job = r.driver.newJob(podReady, n, nil, 0)
			h.job.held, h.job.uid = h, string(o.UID)
			h.job.path = "/api/v1/namespaces/" + string(o.Namespace) + "/pods/" + string(o.Name) + "/status"
			r.armRestore(h.job)
		}
	}
}

// armRestore lets a job wait for its node's next comparison.
func (r *readiness) armRestore(j *job) {
	pause := firstRestore + time.Duration(r.driver.rng.Int64N(int64(lastRestore-firstRestore)))
	j.Due, j.Attempt = r.driver.clock.Now().Add(pause), 0
	r.driver.calls.Schedule(&j.Call, r.driver.clock.Now())
}

// noteOwnVersion notes which version a patch of the fleet itself made: whatever it says of
// the condition is the kubelet's word.
func (h *heldReady) noteOwnVersion(version uint64) {
	h.own = max(h.own, version)
	if h.lostAt != 0 && h.lostAt == version {
		h.ready, h.lostAt = false, 0
	}
}

// noteOwnPatch notes a patch of a pod that was not a stage's.
func (r *readiness) noteOwnPatch(uid string, version uint64) {
	if p := r.pods.byKey[podKeyOf([]byte(uid))]; p != nil {
		p.ready.noteOwnVersion(version)
	} else if h := r.played[uid]; h != nil {
		h.noteOwnVersion(version)
	}
}

// forgetPod ends what is kept of a pod that does not exist any more.
func (r *readiness) forgetPod(h *heldReady) {
	if j := h.job; j != nil {
		h.job, j.held = nil, nil
		r.driver.calls.Cancel(&j.Call)
	}
}

func (r *readiness) buildRequest(j *job) bool {
	if j.held.lostAt == 0 || j.node.hasEnded() {
		return false
	}
	now := r.driver.clock.Wall(r.driver.clock.Now()).UTC().Format(time.RFC3339)
	j.body = fmt.Appendf(j.body[:0], `{"metadata":{"uid":%q},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, j.uid, now)
	q := &j.request
	q.Method, q.Path, q.Body, q.ContentType, q.Accept = http.MethodPatch, j.path, j.body, patchType, object.ContentType
	return true
}

func (r *readiness) settleAnswer(j *job) {
	h := j.held
	switch missing := j.answer.Code == http.StatusNotFound; {
	case h == nil || missing || j.answer.otherUID:
		r.driver.freeJob(j)
	case j.succeeded() && h.lostAt > j.answer.version: // and taken back again meanwhile
		r.driver.countLag(j)
		r.armRestore(j)
	case j.succeeded():
		r.driver.countLag(j)
		r.driver.freeJob(j)
	case j.answer.Retriable() || j.answer.Code == http.StatusConflict:
		r.driver.retryJob(j)
	default:
		r.driver.dropJob(j)
	}
}

// observePlayed is observe for a pod that a player plays.
func (p *players) observePlayed(o player.Object) {
	meta, _ := o["metadata"].(map[string]any)
	uid, _ := meta["uid"].(string)
	pod := podOf(o)
	p.driver.mu.Lock()
	defer p.driver.mu.Unlock()
	n := p.nodes.byName[string(pod.NodeName)]
	if n == nil {
		n = &p.nodes.elsewhere
	}
	h := p.readiness.played[uid]
	if h == nil {
		h = &heldReady{}
		h.meetPod(&pod, func() object.Value { return object.Of(o) })
		p.readiness.played[uid] = h
	}
	p.readiness.observeCondition(h, n, &pod)
	if h.job != nil {
		p.driver.wake()
	}
}

// changedPlayed notes a patch of a stage on a pod that a player plays.
func (p *players) changedPlayed(o player.Object) {
	meta, _ := o["metadata"].(map[string]any)
	uid, _ := meta["uid"].(string)
	p.driver.mu.Lock()
	defer p.driver.mu.Unlock()
	p.readiness.noteOwnPatch(uid, podOf(o).Version)
}

// podOf is the view of a decoded pod, as far as readiness needs it.
func podOf(o player.Object) (out object.Pod) {
	meta, _ := o["metadata"].(map[string]any)
	status, _ := o["status"].(map[string]any)
	word := func(of map[string]any, field string) []byte {
		s, _ := of[field].(string)
		return []byte(s)
	}
	out.Name, out.Namespace, out.UID = word(meta, "name"), word(meta, "namespace"), word(meta, "uid")
	out.Version = player.Version(o)
	out.Deleting = meta["deletionTimestamp"] != nil
	out.NodeName, out.Phase = []byte(nodeNameOf(podKind(), o)), word(status, "phase")
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c, _ := c.(map[string]any); c["type"] == "Ready" {
			out.Ready = word(c, "status")
		}
	}
	return out
}
