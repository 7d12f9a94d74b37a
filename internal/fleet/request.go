package fleet

import (
	"net/http"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
)

const (
	nodesPath  = "/api/v1/nodes"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + leaseNamespace + "/leases"
	patchType  = "application/strategic-merge-patch+json"
)

// build writes a job's request, as late as possible: bodies hold the time and
// the versions of now. False means that there is nothing to send any more.
func (f *Fleet) build(j *job) bool {
	r := &j.request
	r.Accept, r.ContentType, r.Body = object.ContentType, object.ContentType, nil
	if j.action == podEvent {
		r.Method, r.Path, r.ContentType, r.Body = http.MethodPost, j.path, "application/json", j.body
		return true
	}
	if j.pod != nil {
		f.buildPod(j)
		return true
	}
	n := j.node
	if n.state == nodeGone || n.state == nodeLeaving && j.action != nodeDelete && j.action != nodeRead {
		return false
	}
	name := n.name
	now := f.clock.Wall(f.clock.Now())
	switch j.action {
	case nodeCreate:
		body, err := f.model.node(n.index, n.host, now)
		if err != nil {
			f.fail(err)
			return false
		}
		r.Method, r.Path, r.Body = http.MethodPost, nodesPath, body
	case nodeRead:
		r.Method, r.Path = http.MethodGet, nodesPath+"/"+name
	case nodeDelete:
		j.body = appendDelete(j.body[:0], n.uid)
		r.Method, r.Path, r.Body = http.MethodDelete, nodesPath+"/"+name, j.body
	case nodeStatus:
		f.buildStatus(j, name)
	case nodeCondition:
		r.Method, r.Path, r.Body, r.ContentType = http.MethodPatch, nodesPath+"/"+name+"/status", j.body, patchType
	case leaseCreate:
		j.body = f.model.appendLease(j.body[:0], n, "", now.Add(n.fault.skew()))
		r.Method, r.Path, r.Body = http.MethodPost, leasesPath, j.body
	case leaseRead:
		r.Method, r.Path = http.MethodGet, leasesPath+"/"+name
	case leaseRenew:
		j.body = f.model.appendLease(j.body[:0], n, strconv.FormatUint(n.lease, 10), now.Add(n.fault.skew()))
		r.Method, r.Path, r.Body = http.MethodPut, leasesPath+"/"+name, j.body
	}
	return true
}

func (f *Fleet) buildPod(j *job) {
	r := &j.request
	r.Path = "/api/v1/namespaces/" + j.pod.namespace + "/pods/" + j.pod.name
	r.Method, r.Body = http.MethodDelete, j.body
	switch j.action {
	case podStatus:
		r.Method, r.ContentType = http.MethodPatch, patchType
		r.Path += "/status"
	case podDelete:
	default:
		f.buildTalk(j)
	}
}

func (f *Fleet) buildStatus(j *job, name string) {
	n := j.node
	view := object.Node{
		Meta:        object.Meta{Name: []byte(name), UID: []byte(n.uid), Created: n.view.created},
		HasHostname: n.view.hasHost, HasAddresses: n.view.hasAddresses,
		HasCapacity: n.view.hasCapacity, HasAllocation: n.view.allocates, Info: n.view.info,
	}
	if n.view.hasIP {
		view.InternalIP = []byte{0} // that there is one is all that counts
	}
	env := f.env(f.clock.Now(), nil)
	j.body = f.stages.RenderNode(j.body[:0], j.choice, &view, env).Body
	r := &j.request
	r.Method, r.Path, r.Body = http.MethodPatch, nodesPath+"/"+name+"/status", j.body
	r.ContentType = patchType
}

// env is what stages know besides their object.
func (f *Fleet) env(at clock.Time, p *pod) stage.Env {
	return stage.Env{
		Now: f.clock.Wall(at), Addresses: &book{fleet: f, pod: p},
		Version: f.model.program, KubeletPort: f.model.port,
	}
}

// refusal is the error that says what the server would not do, and why.
func (f *Fleet) refusal(j *job) error {
	return &RefusedError{Method: j.request.Method, Path: j.request.Path, Code: j.answer.Code, Message: j.answer.message}
}

// RefusedError is an answer that another try would not change.
type RefusedError struct {
	Method, Path string
	Code         int
	Message      string
}

// Error says what was asked and what was answered.
func (e *RefusedError) Error() string {
	return e.Method + " " + e.Path + ": " + strconv.Itoa(e.Code) + " " + e.Message
}
