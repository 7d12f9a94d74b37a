package plane

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/observe/leaders"
)

// How often a process is asked whether it leads: etcd answers from memory, the others write all
// their metrics.
const (
	askMember  = 100 * time.Millisecond
	askElector = time.Second
)

// Candidates returns the processes that elect a leader among several, for package leaders.
func Candidates(p *Plane) (out []leaders.Candidate, err error) {
	members := &electorate{views: map[string]view{}}
	for _, name := range component.Names() {
		all := processesOf(p, name)
		if len(all) == 1 || name == component.APIServer {
			continue
		}
		for _, c := range all {
			ask, err := newAsker(c.Scrape)
			if err != nil {
				return nil, err
			}
			one := leaders.Candidate{Process: c.Name, Every: askElector, Leads: func(ctx context.Context) (bool, error) {
				if !c.runs() {
					return false, nil
				}
				text, err := ask.readText(ctx, c.MetricsURL)
				return saysLeader(text), err
			}}
			if name == component.Etcd {
				one.Every, one.Leads = askMember, func(ctx context.Context) (bool, error) {
					v, err := ask.memberView(ctx)
					return members.leads(c.Name, v, err == nil, c.runs())
				}
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// runs tells whether a process lives and is not paused.
func (c Component) runs() bool {
	p := c.supervisor.currentProcess()
	return !hasEnded(p) && !p.Paused()
}

// view is whom an etcd member takes for the leader; IDs are etcd's own.
type view struct {
	id, leader string // leader is 0 where the member knows none
	answered   bool
}

// memberView asks an etcd member.
func (a *Asker) memberView(ctx context.Context) (view, error) {
	var status struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
		Leader string
	}
	err := a.Ask(ctx, "/v3/maintenance/status", struct{}{}, &status)
	return view{status.Header.MemberID, status.Leader, err == nil}, err
}

// electorate has the last view of each etcd member.
type electorate struct {
	mu    sync.Mutex
	views map[string]view
}

// errNoView says that nobody knows whether a member leads.
var errNoView = errors.New("no member says who leads")

// leads takes note of a member's answer, and tells whether the member leads. A leader that ends
// by SIGTERM answers no client for some seconds before it hands its place over: while it runs,
// the other members say whether it leads. Of one that was killed or paused they do not know yet.
func (e *electorate) leads(member string, v view, answered, runs bool) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if answered {
		e.views[member] = v
		return v.leader != "" && v.leader == v.id, nil
	}
	v = e.views[member]
	v.answered = false
	e.views[member] = v
	if !runs {
		return false, nil
	}
	others := 0
	for name, other := range e.views {
		if name == member || !other.answered {
			continue
		}
		if others++; v.id != "" && other.leader == v.id {
			return true, nil
		}
	}
	if others == 0 {
		return false, errNoView
	}
	return false, nil
}
