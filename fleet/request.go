package fleet

import (
	"net/http"
	"strconv"

	"github.com/windtunnel/windtunnel/stage"
	"github.com/windtunnel/windtunnel/stage/object"
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
	if j.pod != nil {
		f.buildPod(j)
		return true
	}
	n := j.node
	if n.state == nodeGone || n.state == nodeLeaving && j.action != nodeDelete && j.action != nodeRead {
		return false
	}
	name := f.model.nodeName(n.index)
	now := f.clock.Wall(f.clock.Now())
	switch j.action {
	case nodeCreate:
		body, err := f.model.node(n.index, now)
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
	case leaseCreate:
		j.body = f.model.appendLease(j.body[:0], n, "", now)
		r.Method, r.Path, r.Body = http.MethodPost, leasesPath, j.body
	case leaseRead:
		r.Method, r.Path = http.MethodGet, leasesPath+"/"+name
	case leaseRenew:
		j.body = f.model.appendLease(j.body[:0], n, strconv.FormatUint(n.lease, 10), now)
		r.Method, r.Path, r.Body = http.MethodPut, leasesPath+"/"+name, j.body
	}
	return true
}

func (f *Fleet) buildPod(j *job) {
	r := &j.request
	r.Path = "/api/v1/namespaces/" + j.pod.namespace + "/pods/" + j.pod.name
	r.Method, r.Body = http.MethodDelete, j.body
	if j.action == podStatus {
		r.Method, r.ContentType = http.MethodPatch, patchType
		r.Path += "/status"
	}
}

func (f *Fleet) buildStatus(j *job, name string) {
	n := j.node
	view := object.Node{
		Meta:          object.Meta{Name: []byte(name), UID: []byte(n.uid), Created: n.view.created},
		HasInternalIP: n.view.hasIP, HasHostname: n.view.hasHost,
	}
	env := stage.Env{Now: f.clock.Wall(f.clock.Now()), Addresses: &book{fleet: f}}
	j.body = f.stages.RenderNode(j.body[:0], j.choice, &view, env).Body
	r := &j.request
	r.Method, r.Path, r.Body = http.MethodPatch, nodesPath+"/"+name+"/status", j.body
	r.ContentType = patchType
}

// refusal is the error that says what the server would not do, and why.
func (f *Fleet) refusal(j *job) error {
	return &RefusedError{Method: j.request.Method, Path: j.request.Path, Code: j.answer.code, Message: j.answer.message}
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
