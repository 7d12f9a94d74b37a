// Package door is the way by which processes of windtunnel write to a cluster that is
// not the run's own. It is a transport, so that whoever uses its configuration cannot
// forget what it does:
//
//   - what is created or written whole gets the run's label, nodes a taint as well, which
//     keeps the pods of others off them; no patch takes the label away;
//   - pods, and the templates of pods in the kinds of Kubernetes itself, go to the run's
//     simulated nodes, as those of the load do;
//   - what exists without that label, outside of the run's namespaces, is not changed and
//     not deleted: the call is answered with 403 and the reason Foreign.
//
// It is not for the load, whose objects package object stamps before a run begins.
package door

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// ReasonForeign is the reason of a call that is refused because its object is not the run's.
const ReasonForeign metav1.StatusReason = "Foreign"

// Manager begins the name of every field manager of windtunnel's processes.
const Manager = "windtunnel"

// Guard has the clients that are made of a configuration go through the door of a run;
// without a run's id in the stamp nothing changes.
func Guard(config *rest.Config, s object.Stamp) *rest.Config {
	if s.Run != "" {
		s.Nodes = true // the nodes that processes of the run make are for these pods, too
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &door{next: next, run: s.Run, stamp: s, seed: maphash.MakeSeed(), known: map[uint64]bool{}}
		})
	}
	return config
}

// door is the transport.
type door struct {
	next  http.RoundTripper
	run   string
	stamp object.Stamp // of pods
	seed  maphash.Seed

	mu    sync.Mutex
	known map[uint64]bool // by the hash of a path: whether the object there is the run's
}

// RoundTrip marks, looks, and sends.
func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	t, ok := parsePath(req.URL.Path)
	if !ok || !t.changesObject(req.Method) {
		return d.next.RoundTrip(req)
	}
	switch {
	case req.Method == http.MethodPost && t.name == "":
		return d.sendCreate(req, t)
	case req.Method == http.MethodDelete && t.name == "":
		return d.next.RoundTrip(d.narrowToRun(req))
	}
	if answer, err := d.refuseForeign(req, t); answer != nil || err != nil {
		return answer, err
	}
	var err error
	switch {
	case t.part != "":
	case req.Method == http.MethodPut, req.Header.Get("Content-Type") == applyPatch:
		req, _, err = d.markRequest(req, t)
	case req.Method == http.MethodPatch:
		req, err = d.patchKeepingMark(req, t)
	}
	if err != nil {
		return nil, err
	}
	answer, err := d.next.RoundTrip(req)
	if err == nil && req.Method == http.MethodDelete {
		d.forgetPath(t.path)
	}
	return answer, err
}

// sendCreate sends a creation. Where an object of that name is there already the answer says
// whether it is the run's: callers take an AlreadyExists for "an earlier self has made it".
func (d *door) sendCreate(req *http.Request, t target) (*http.Response, error) {
	marked, about, err := d.markRequest(req, t)
	if err != nil {
		return nil, err
	}
	answer, err := d.next.RoundTrip(marked)
	if err != nil || about.Name == "" {
		return answer, err
	}
	t.name, t.path = about.Name, t.path+"/"+about.Name
	switch {
	case answer.StatusCode < 300:
		d.setKnown(t.path, true)
	case answer.StatusCode == http.StatusConflict && t.resource != "namespaces": // whose a namespace is does not matter: what lies in it is marked
		refusal, err := d.refuseForeign(req, t)
		if refusal != nil || err != nil {
			answer.Body.Close()
			return refusal, err
		}
	}
	return answer, nil
}

// patchKeepingMark returns a patch with which the object keeps its mark.
func (d *door) patchKeepingMark(req *http.Request, t target) (*http.Request, error) {
	raw, err := readBody(req, t)
	if err == nil {
		raw, err = keepLabel(raw, req.Header.Get("Content-Type"), d.run)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the mark in %s %s: %w", req.Method, t.path, err)
	}
	return withBody(req, raw), nil
}

// readBody reads that of a request.
func readBody(req *http.Request, t target) ([]byte, error) {
	raw, err := io.ReadAll(req.Body)
	if err == nil {
		err = req.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("read the body of %s %s: %w", req.Method, t.path, err)
	}
	return raw, nil
}

// withBody returns a request with another body.
func withBody(req *http.Request, raw []byte) *http.Request {
	out := req.Clone(req.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	out.Header.Del("Content-Length")
	return out
}

// markRequest returns the request with its object marked, and what the object says of itself.
func (d *door) markRequest(req *http.Request, t target) (*http.Request, *metav1.PartialObjectMetadata, error) {
	raw, err := readBody(req, t)
	if err != nil {
		return nil, nil, err
	}
	raw, about, err := markObject(raw, req.Header.Get("Content-Type"), d.stamp, t)
	if err != nil {
		return nil, nil, fmt.Errorf("mark the object of %s %s: %w", req.Method, t.path, err)
	}
	out := withBody(req, raw)
	if q := out.URL.Query(); !strings.HasPrefix(req.UserAgent(), Manager) && q.Get("fieldManager") == "" {
		q.Set("fieldManager", Manager)
		out.URL.RawQuery = q.Encode()
	}
	return out, about, nil
}

// narrowToRun returns the deletion of a collection, of what is the run's there.
func (d *door) narrowToRun(req *http.Request) *http.Request {
	out := req.Clone(req.Context())
	q := out.URL.Query()
	own := object.RunLabel + "=" + d.run
	if before := q.Get("labelSelector"); before != "" {
		own = before + "," + own
	}
	q.Set("labelSelector", own)
	out.URL.RawQuery = q.Encode()
	return out
}

// refuseForeign answers a call about an object that is not the run's. It returns nil where the
// object is, lies in a namespace that is, or is not there. One that could not be looked at
// is answered as the look was.
func (d *door) refuseForeign(req *http.Request, t target) (*http.Response, error) {
	if t.namespace != "" {
		run, there, answer, err := d.lookUpOwner(req, "/api/v1/namespaces/"+t.namespace)
		if run == d.run || err != nil {
			return nil, err
		}
		if answer != nil && answer.StatusCode != http.StatusForbidden {
			return answer, nil
		}
		if answer != nil { // namespaces are not for this user to read: the object's own label decides
			answer.Body.Close()
		}
		if there {
			d.setKnown("/api/v1/namespaces/"+t.namespace, false)
		}
	}
	run, there, answer, err := d.lookUpOwner(req, t.path)
	if run == d.run || err != nil || answer != nil || !there {
		return answer, err
	}
	return refusalResponse(req, t, run), nil
}

// lookUpOwner says which run has made the object at a path. answer is why that is not known.
func (d *door) lookUpOwner(req *http.Request, path string) (run string, there bool, answer *http.Response, err error) {
	d.mu.Lock()
	mine, known := d.known[maphash.String(d.seed, path)]
	d.mu.Unlock()
	switch {
	case known && mine:
		return d.run, true, nil, nil
	case known:
		return "", true, nil, nil
	}
	get := req.Clone(req.Context())
	get.Method, get.Body, get.GetBody, get.ContentLength = http.MethodGet, nil, nil, 0
	get.URL = &url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: strings.TrimSuffix(req.URL.Path, apiPath(req.URL.Path)) + path}
	get.Header.Del("Content-Type")
	get.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	answer, err = d.next.RoundTrip(get)
	if err != nil {
		return "", false, nil, err
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		return "", false, answer, nil
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode == http.StatusNotFound {
		return "", false, nil, err
	}
	var about metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &about); err != nil {
		return "", false, nil, fmt.Errorf("look whose %s is: %w", path, err)
	}
	if run = about.Labels[object.RunLabel]; run == d.run {
		d.setKnown(path, true)
	}
	return run, true, nil, nil
}

func (d *door) setKnown(path string, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[maphash.String(d.seed, path)] = mine
}

func (d *door) forgetPath(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, maphash.String(d.seed, path))
}

// refusalResponse is the answer to a call about what is somebody else's; run is that which has made
// it, if one has.
func refusalResponse(req *http.Request, t target, run string) *http.Response {
	whose := " exists already and was not made by this run: it is left alone"
	if run != "" {
		whose = " exists already and was made by run " + run + "; if that run was killed, windtunnel clean --kubeconfig FILE --run " + run + " deletes what it left"
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: ReasonForeign,
		Message: t.String() + whose,
		Details: &metav1.StatusDetails{Name: t.name, Group: t.group, Kind: t.resource},
	}
	raw, err := json.Marshal(status)
	if err != nil {
		raw = []byte("{}") // no field of it can fail
	}
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)),
	}
}
