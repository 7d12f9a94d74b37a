// Package probe writes and reads ConfigMaps of its own, and records what each answer, watch
// and final list says of them. It judges nothing: package consistency does, from the records.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Options say what a probe writes, and with what.
type Options struct {
	Step      string
	Spec      *scenario.Probe
	Namespace string
	Stamp     object.Stamp // of what it makes in a cluster that is not the run's own; else zero
	Pace      load.Pacer
	Servers   []Server
	Client    *wire.Client // for the last write
	Records   *record.Writer
	Clock     clock.Clock
	Send      func(context.Context, load.Plan) error // sends the load
	// Over returns what a context is replaced by that has ended because the steps beside
	// the probe have: what was written until then is checked all the same. nil: it goes on,
	// or ended otherwise.
	Over func(context.Context) context.Context
}

// label selects the objects of a probe; its value is the step's name.
const label = "windtunnel.dev/probe"

// patience is how long the last write, a watch that is behind and a final list may take.
const patience = 30 * time.Second

// pollEvery is how often what did not answer is asked again.
const pollEvery = 250 * time.Millisecond

// The operations of a probe's plan.
const (
	opCreate = iota
	opUpdate
	opDelete
	opGet
)

// probed is an object of a probe, as answers have it.
type probed struct {
	Metadata object.Metadata   `json:"metadata"`
	Data     map[string]string `json:"data"`
	Details  struct {
		UID string `json:"uid"` // of a deleted object
	} `json:"details"`
}

// probing is a probe under way.
type probing struct {
	Options
	prefix    string // of names
	path      string // of the collection
	selector  string
	list, see record.OpID // of lists and watches
	ops       []record.OpID
}

// Run writes, and then looks at what there is through each API server.
func Run(ctx context.Context, o Options) error {
	p := newProbing(o)
	watches, err := p.startWatches(ctx)
	if err != nil {
		return err
	}
	defer watches.close()
	err = p.Send(ctx, p.planWrites())
	if over := p.Over(ctx); over != nil {
		ctx, err = over, nil
	}
	if err != nil {
		return err
	}
	last, err := p.writeLast(ctx)
	if err != nil {
		return err
	}
	watches.end(ctx, last)
	return p.listAll(ctx)
}

func newProbing(o Options) *probing {
	p := &probing{Options: o, prefix: o.Step + "-", path: "/api/v1/namespaces/" + o.Namespace + "/configmaps",
		selector: "labelSelector=" + url.QueryEscape(label+"="+o.Step)}
	if o.Stamp.Run != "" { // no object of others has such a name
		p.prefix += o.Stamp.Run + "-"
	}
	for _, op := range p.operations() {
		p.ops = append(p.ops, o.Records.Op(op))
	}
	op := record.Op{Source: "observe", Step: o.Step, Resource: "configmaps", Scope: "namespace", Verb: "list"}
	p.list = o.Records.Op(op)
	op.Verb = "watch"
	p.see = o.Records.Op(op)
	return p
}

func (p *probing) operations() (out []record.Op) {
	connection := ""
	if p.Spec.Connection == scenario.NewConnections {
		connection = record.NewConnection
	}
	for _, verb := range []string{"create", "update", "delete", "get"} {
		out = append(out, record.Op{Source: load.Source, Step: p.Step, Verb: verb, Resource: "configmaps", Scope: "resource", Connection: connection})
	}
	return out
}

// planWrites creates each object, updates it twice, deletes it and begins again. The objects
// take turns, so that there is time between two writes of one.
func (p *probing) planWrites() load.Plan {
	verbs := []int{opCreate, opUpdate, opUpdate, opDelete}
	plan := load.Plan{Step: p.Step, Ops: p.operations(), Count: p.Spec.Count, Pace: p.Pace, Anew: p.Spec.Connection == scenario.NewConnections}
	key := func(i int) string { return p.prefix + strconv.Itoa(i%p.Spec.Keys) }
	plan.Object = key
	plan.Build = func(i int, req *load.Request) (bool, error) {
		return true, p.fill(req, verbs[i/p.Spec.Keys%len(verbs)], key(i), p.value(i))
	}
	plan.Then = func(a load.Result, req *load.Request) (bool, error) {
		if a.Op == opDelete || a.Op == opGet {
			return false, nil
		}
		return true, p.fill(req, opGet, key(a.Index), "")
	}
	plan.Done = func(a load.Result) {
		value := p.value(a.Index)
		if a.Op == opDelete || a.Op == opGet {
			value = ""
		}
		p.recordCall(a.Op, key(a.Index), value, a.Outcome, a.Response)
	}
	return plan
}

// value is what write i writes: no other write has it.
func (p *probing) value(i int) string { return p.prefix + "value-" + strconv.Itoa(i) }

// fill makes a request of a verb.
func (p *probing) fill(req *load.Request, op int, key, value string) error {
	req.Op, req.Discard, req.Timeout = op, false, time.Duration(p.Spec.Timeout)
	req.Method = []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodGet}[op]
	req.Path, req.Accept = p.path, load.JSON
	if op != opCreate {
		req.Path += "/" + key
	}
	if op != opCreate && op != opUpdate {
		return nil
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{"value": value},
		"metadata": map[string]any{"name": key, "labels": map[string]string{label: p.Step}}})
	if err == nil {
		body, err = p.Stamp.MarkJSON(body)
	}
	req.Body, req.ContentType = append(req.Body, body...), load.JSON
	return err
}

// recordCall records what an answer says; value is what was to be written.
func (p *probing) recordCall(op int, key, value string, outcome record.Outcome, r *wire.Response) {
	a := record.Access{Op: p.ops[op], Key: key, Value: value, Sent: r.Sent, Done: r.Done, Code: uint16(r.Code), Outcome: outcome}
	if r.Sent == 0 {
		a.Sent = r.Done // it never left
	}
	if outcome == record.OK {
		if err := p.readAnswer(&a, op, r.Body); err != nil {
			a.Outcome = record.Unknown // what was done cannot be read
		}
	}
	p.Records.Access(a)
}

func (p *probing) readAnswer(a *record.Access, op int, body []byte) error {
	var o probed
	if err := json.Unmarshal(body, &o); err != nil {
		return err
	}
	if op == opDelete {
		a.UID = o.Details.UID
		return nil
	}
	a.UID, a.Version = o.Metadata.UID, versionOf(o)
	if op == opGet {
		a.Value = o.Data["value"]
	}
	return nil
}

func versionOf(o probed) uint64 {
	version, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// errNoLast says that the last write of a probe was not answered.
var errNoLast = errors.New("the last write was not acknowledged")

// writeLast creates an object after all others, by whose version it is known that a watch has
// brought all before it. It returns that version.
func (p *probing) writeLast(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := p.Spec.Count; ; i++ {
		key := p.prefix + "last-" + strconv.Itoa(i)
		req := load.Request{}
		if err := p.fill(&req, opCreate, key, p.value(i)); err != nil {
			return 0, err
		}
		r, err := p.Client.Do(ctx, &req.Request)
		if r != nil {
			p.recordCall(opCreate, key, p.value(i), r.Outcome(), r)
			var o probed
			if r.Success() && json.Unmarshal(r.Body, &o) == nil {
				return versionOf(o), nil
			}
		}
		if sleep := clock.Sleep(ctx, pollEvery); sleep != nil {
			return 0, fmt.Errorf("%w within %v: %w", errNoLast, patience, errors.Join(err, sleep))
		}
	}
}

// listAll lists the objects through each API server.
func (p *probing) listAll(ctx context.Context) error {
	for _, server := range p.Servers {
		if err := p.listThrough(ctx, server); err != nil {
			return err
		}
	}
	return nil
}

// listThrough lists through a server. One that does not answer in time has no list: the
// verdict is unknown.
func (p *probing) listThrough(ctx context.Context, server Server) error {
	client, err := server.newClient(p.Options)
	if err != nil {
		return err
	}
	defer server.close(client)
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	end := record.Access{Op: p.list, Event: record.AccessList, Server: server.Name, Outcome: record.Unknown}
	for {
		r, err := client.Do(within, &wire.Request{Method: http.MethodGet, Path: p.path + "?" + p.selector})
		var page object.List[probed]
		if err == nil && r.Success() && json.Unmarshal(r.Body, &page) == nil {
			for _, o := range page.Items {
				p.Records.Access(record.Access{Op: p.list, Event: record.AccessListed, Server: server.Name, Key: o.Metadata.Name,
					UID: o.Metadata.UID, Value: o.Data["value"], Version: versionOf(o), Sent: r.Sent, Done: r.Done})
			}
			end.Sent, end.Done, end.Code, end.Outcome = r.Sent, r.Done, uint16(r.Code), record.OK
			end.Version, _ = strconv.ParseUint(strings.TrimSpace(page.Metadata.ResourceVersion), 10, 64)
			break
		}
		if clock.Sleep(within, pollEvery) != nil {
			end.Sent, end.Done = p.Clock.Now(), p.Clock.Now()
			break
		}
	}
	p.Records.Access(end)
	return context.Cause(ctx)
}
