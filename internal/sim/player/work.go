package player

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// result is what became of a play.
type result struct {
	job        *job
	kind       resultKind
	step       int    // retry: where to go on
	raw        []byte // retry: with what object
	code       int
	err        error
	retryAfter time.Duration
	version    uint64     // that our last patch made
	firstSent  clock.Time // 0 when nothing was sent
	again      *note      // what the stages say of the answer, if that is asked for at once
}

type resultKind uint8

const (
	played resultKind = iota
	retry             // the server could not take it now
	failed            // the server will not have it
	faulty            // the stage or the object is at fault
	held              // not now
)

// runWorker plays what is due until ctx ends.
func (p *Player) runWorker(ctx context.Context, rng *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-p.jobs:
			r := p.playJob(ctx, j, rng)
			select {
			case p.results <- r:
			case <-ctx.Done():
				return
			}
		}
	}
}

// play is one stage under way.
type play struct {
	*Player
	job    *job
	env    *machine.Env
	object Object
	raw    []byte // of object
	result result
	due    clock.Time // of the next request
}

// playJob carries out the rest of a job's stage.
func (p *Player) playJob(ctx context.Context, j *job, rng *rand.Rand) result {
	raw := j.raw
	if raw == nil {
		var missing *result
		if raw, missing = p.rereadObject(ctx, j); missing != nil {
			return *missing
		}
	}
	object, err := machine.Decode(raw)
	if err != nil {
		return result{job: j, kind: faulty, err: err}
	}
	p.nameKind(object)
	if p.options.Held != nil && p.options.Held(object) {
		return result{job: j, kind: held}
	}
	env := &machine.Env{Now: p.options.Clock.Wall(p.options.Clock.Now()), Start: p.options.Clock.Epoch(), Version: p.options.Version, Rand: rng}
	if p.options.Functions != nil {
		env.Functions = p.options.Functions(object)
	}
	a := &play{Player: p, job: j, env: env, object: object, raw: raw, result: result{job: j}, due: j.Due}
	for a.result.step = j.step; a.result.step < j.stage.Steps(); a.result.step++ {
		if done := a.playStep(ctx); !done {
			a.result.raw = a.raw
			return a.result
		}
	}
	if j.stage.Immediate() && a.result.version != 0 {
		n := &note{at: p.options.Clock.Now(), key: j.entry.key, uid: j.entry.uid, version: a.result.version, raw: a.raw}
		p.matchStages(n, a.object, rng)
		a.result.again = n
	}
	return a.result
}

// rereadObject reads an object that was not kept; not when it cannot be had now.
func (p *Player) rereadObject(ctx context.Context, j *job) ([]byte, *result) {
	namespace, name, _ := strings.Cut(j.entry.key, "/")
	a := &play{Player: p, job: j, result: result{job: j}, due: j.Due}
	r := a.sendRequest(ctx, &wire.Request{Method: http.MethodGet, Path: p.served.Object(namespace, name)}, opKey{verb: "get", resource: p.served.Name})
	switch {
	case p.succeeded(r):
		return r.Body, nil
	case r.Retriable():
		return nil, &result{job: j, kind: retry, step: j.step, retryAfter: r.RetryAfter, firstSent: a.result.firstSent}
	}
	return nil, &result{job: j, kind: played} // it is gone; the watch will say so
}

// playStep carries out one step; false when the stage goes no further for now.
func (a *play) playStep(ctx context.Context) bool {
	effects, err := a.job.stage.Play(a.result.step, a.object, a.env)
	if err != nil {
		a.result.kind, a.result.err = faulty, fmt.Errorf("%w (object %s)", err, a.job.entry.key)
		return false
	}
	for _, e := range effects {
		if !a.playEffect(ctx, e) {
			return false
		}
	}
	return true
}

// playEffect carries out one effect; false when the stage goes no further for now.
func (a *play) playEffect(ctx context.Context, e machine.Effect) bool {
	if e.Kind == machine.Apply {
		return a.applyObject(ctx, e)
	}
	req, verb := a.requestFor(e)
	r := a.sendRequest(ctx, req, opKey{verb: verb, resource: a.resourceOf(e), subresource: e.Subresource})
	switch {
	case a.succeeded(r) && e.Kind == machine.Patch:
		a.takeChanged(r.Body)
		return true
	case a.succeeded(r), e.Kind == machine.Event && !r.Retriable():
		return true // an event that the server does not want is no reason to stop
	case e.Kind == machine.Delete && r.Err == nil && r.Code == http.StatusNotFound:
		return true // somebody was faster
	}
	return a.settleRefusal(ctx, req, r)
}

func (a *play) resourceOf(e machine.Effect) string {
	if e.Kind == machine.Event {
		return "events"
	}
	return a.served.Name
}

// requestFor returns the request of an effect on the object itself, and its verb.
func (a *play) requestFor(e machine.Effect) (*wire.Request, string) {
	path := a.served.Object(metadataText(a.object, "namespace"), metadataText(a.object, "name"))
	switch e.Kind {
	case machine.Event:
		return a.eventRequest(e), "create"
	case machine.Delete:
		body := `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0`
		if a.job.entry.uid != "" {
			body += `,"preconditions":{"uid":` + quoteJSON(a.job.entry.uid) + `}`
		}
		return &wire.Request{Method: http.MethodDelete, Path: path, ContentType: "application/json", Body: []byte(body + "}")}, "delete"
	}
	if e.Subresource != "" {
		path += "/" + e.Subresource
	}
	verb := "patch"
	if e.Type == machine.ApplyPatch {
		path, verb = path+"?fieldManager="+manager+"&force=true", "apply"
	}
	return &wire.Request{Method: http.MethodPatch, Path: path, ContentType: string(e.Type), Body: e.Body, Impersonate: e.User}, verb
}

// takeChanged takes the object as the server answered it.
func (a *play) takeChanged(body []byte) {
	object, err := machine.Decode(body)
	if err != nil || metadataText(object, "uid") != a.job.entry.uid {
		return
	}
	a.nameKind(object)
	a.object, a.raw = object, append([]byte(nil), body...)
	a.result.version = Version(object)
	if a.options.Changed != nil {
		a.options.Changed(object)
	}
}

// settleRefusal decides what follows a request that did not succeed.
func (a *play) settleRefusal(ctx context.Context, req *wire.Request, r *wire.Response) bool {
	switch {
	case ctx.Err() != nil || r.Retriable():
		a.result.kind, a.result.retryAfter = retry, r.RetryAfter
		return false
	case r.Code == http.StatusNotFound:
		return false // played: its end is on the way
	case r.Code == http.StatusConflict || object.ReadStatus(r.Body).OtherUID:
		a.refreshObject(ctx)
		a.result.kind = retry
		return false
	}
	a.result.kind, a.result.code = failed, r.Code
	a.result.err = fmt.Errorf("stage %s: %s %s: %d %s", a.job.stage.Name(), req.Method, req.Path, r.Code, object.ReadStatus(r.Body).Message)
	return false
}

// refreshObject reads the object again after a conflict.
func (a *play) refreshObject(ctx context.Context) {
	req := &wire.Request{Method: http.MethodGet, Path: a.served.Object(metadataText(a.object, "namespace"), metadataText(a.object, "name"))}
	if r := a.sendRequest(ctx, req, opKey{verb: "get", resource: a.served.Name}); a.succeeded(r) {
		a.takeChanged(r.Body)
	}
}

// opKey is what calls of one kind have in common.
type opKey struct{ verb, resource, subresource string }

// sendRequest sends a request and records the call. It is due when the stage was, or
// when the request before it was answered.
func (a *play) sendRequest(ctx context.Context, req *wire.Request, key opKey) *wire.Response {
	req.Timeout = callTimeout
	r, err := a.options.Client.Do(ctx, req)
	if r == nil {
		r = &wire.Response{Err: err, Done: a.options.Clock.Now()}
	}
	if a.result.firstSent == 0 {
		a.result.firstSent = r.Sent
	}
	if a.options.Records != nil {
		a.options.Records.Call(r.Call(a.opOf(key), a.due))
	}
	a.due = r.Done
	return r
}

// opOf numbers calls of one kind in the records.
func (p *Player) opOf(key opKey) record.OpID {
	p.opsMu.Lock()
	defer p.opsMu.Unlock()
	id, ok := p.ops[key]
	if !ok {
		id = p.options.Records.Op(record.Op{Source: "fleet", Verb: key.verb, Resource: key.resource, Subresource: key.subresource, Scope: "resource", Cluster: p.options.Cluster})
		p.ops[key] = id
	}
	return id
}

func (p *Player) succeeded(r *wire.Response) bool {
	return r.Err == nil && r.Code < http.StatusBadRequest
}
