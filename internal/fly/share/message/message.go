package message

import (
	"errors"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/share"
)

// ErrWorkers says that a run cannot be shared as was asked for.
var ErrWorkers = errors.New("workers")

// Order is what those who send are told of a part of the load, or one of them of the end of
// a path.
type Order struct {
	Part   steps.Part        `json:"part"`
	Known  inventory.Changes `json:"known,omitempty"`
	Answer *Answer           `json:"answer,omitempty"`
}

// Answer has a worker be the answering end of a step's path, or ends that.
type Answer struct {
	Step string `json:"step"`
	End  bool   `json:"end,omitempty"`
}

// Prepared is what a worker says of a part of the load that it has planned.
type Prepared struct {
	Digest string `json:"digest"`
}

// Sent is what it says of the part's end.
type Sent struct {
	Seen inventory.Changes `json:"seen,omitempty"`
}

// Keep is what a worker that keeps nodes alive is told to do: one of these, which lasts
// until it leaves, unless it is the end of what has begun.
type Keep struct {
	Nodes       bool     `json:"nodes,omitempty"` // its share of the plane's
	Members     *Members `json:"members,omitempty"`
	Subject     *Subject `json:"subject,omitempty"`
	EndSubjects bool     `json:"endSubjects,omitempty"` // all that it has
}

// Members is a group of hollow members, of which a worker is its share.
type Members struct {
	Group member.HollowGroup `json:"group"`
	From  int                `json:"from"` // number of the first among all of the run
}

// Subject is a subject that a worker starts.
type Subject struct {
	Name       string `json:"name"`
	Folder     string `json:"folder"`             // of the scenario
	Logs       string `json:"logs"`               // folder that gets NAME.log
	Self       string `json:"self,omitempty"`     // version of windtunnel
	Kubeconfig string `json:"kubeconfig"`         // path, which the subject is given where Identity is empty
	Identity   []byte `json:"identity,omitempty"` // a kubeconfig of the subject's own
}

// Nodes is what a worker says of its share before it makes the nodes.
type Nodes struct {
	Share share.Share `json:"share"`
	Nodes int         `json:"nodes"`
}

// Progress is where a worker stands.
type Progress struct {
	Load       load.Tally `json:"load"`
	Unexpected int        `json:"unexpected,omitempty"` // calls that failed for good though nobody expects it
	Nodes      int        `json:"nodes,omitempty"`      // of its share of the fleet that are schedulable
	Died       *Death     `json:"died,omitempty"`       // the first of its subjects that ended by itself
}

// Death is a subject of a worker that ended by itself.
type Death struct {
	Subject string `json:"subject"`
	Why     string `json:"why"`
}
