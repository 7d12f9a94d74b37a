// Package audit attributes the requests at an API server to its clients. It reads the
// server's audit log, one JSON object a line of level Metadata, while the log grows, and
// keeps counts by client, verb and resource in the record stream.
//
// It starts no server and judges nothing. What a log holds comes from clients: a user
// agent, a resource and a line of any length are ordinary input, and the number of
// clients and of counts is bounded.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Client is who sent a request.
type Client struct {
	Name    string // first product of the user agent, such as "kube-scheduler"; the user where there is no user agent
	Version string // of that product, such as "v1.37.1"; may be empty
	User    string // who was authenticated, such as "system:serviceaccount:default:operator"
}

// Request is what a client asked for, in the words of record.Op.
type Request struct {
	Verb        string // one of the API verbs, "connect" for streams to pods, nodes and services, or "other"
	Resource    string // plural and group; empty for paths that are no resources, such as /readyz
	Subresource string
	Code        int // HTTP status; 0: none was given, or none that HTTP knows
}

// Stage is how far a request had come when the event was written.
type Stage uint8

// The stages. A request has one event of Ended; a long-running one, such as a watch, has one
// of Started before.
const (
	Ended   Stage = iota // ResponseComplete or Panic
	Started              // ResponseStarted
)

// Event is what is read of one line of an audit log.
type Event struct {
	Client  Client
	Request Request
	Stage   Stage
	Took    time.Duration // from the receipt of the request to the stage; 0 where the server's clock went back in between
	// LongRunning says that the request lasts as long as its client likes, such as a watch or
	// a CPU profile of ten seconds: Took is then not what it cost the server.
	LongRunning bool
}

// ErrNoEvent says that a line is not an audit event with a stage that counts.
var ErrNoEvent = errors.New("not an audit event")

// errReceipt is of the stage that a policy of others may ask for besides.
var errReceipt = errors.New("a request that was received")

// maxName bounds the names of clients, users and resources, in bytes.
const maxName = 100

// line is the part of an event that is read, of audit.k8s.io/v1.
type line struct {
	Kind      string `json:"kind"`
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	URI       string `json:"requestURI"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time `json:"stageTimestamp"`
}

// ParseEvent reads a line of an audit log. An error wraps ErrNoEvent. Events of the stage
// RequestReceived are none: each of their requests has another.
func ParseEvent(text []byte) (Event, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrNoEvent, err)
	}
	e := Event{Client: clientOf(l.UserAgent, l.User.Username), Request: l.request()}
	switch l.Stage {
	case "ResponseStarted":
		e.Stage = Started
	case "ResponseComplete", "Panic":
		e.Stage = Ended
	case "RequestReceived":
		return Event{}, fmt.Errorf("%w: %w", ErrNoEvent, errReceipt)
	default:
		return Event{}, fmt.Errorf("%w: kind %q, stage %q", ErrNoEvent, clip(l.Kind), clip(l.Stage))
	}
	e.Took = max(0, l.StageTimestamp.Sub(l.RequestReceivedTimestamp))
	e.LongRunning = isLongRunning(e.Request, l.URI)
	return e, nil
}

// clientOf reads a user agent, such as "manager/v1.2 (linux/amd64) kubernetes/abc".
func clientOf(agent, user string) Client {
	product, _, _ := strings.Cut(strings.TrimSpace(agent), " ")
	name, version, _ := strings.Cut(product, "/")
	c := Client{Name: clip(name), Version: clip(version), User: clip(user)}
	if c.Name == "" {
		c.Name = c.User
	}
	if c.Name == "" {
		c.Name = "unknown"
	}
	return c
}

// request maps what an audit event says of a request to the words of the records and of
// the server's own metrics.
func (l *line) request() Request {
	out := Request{Verb: l.Verb}
	if r := l.ObjectRef; r != nil && r.Resource != "" {
		out.Resource, out.Subresource = clip(r.Resource), clip(r.Subresource)
		if r.APIGroup != "" {
			out.Resource = clip(out.Resource + "." + r.APIGroup)
		}
	}
	switch {
	case isStream(out.Subresource):
		out.Verb = connectVerb
	case !slices.Contains(verbs(), out.Verb):
		out.Verb = otherVerb
	}
	if r := l.ResponseStatus; r != nil && r.Code >= 100 && r.Code < 600 {
		out.Code = r.Code
	}
	return out
}

const (
	otherVerb   = "other"
	watchVerb   = "watch"
	connectVerb = "connect"
)

func verbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", watchVerb}
}

// isStream tells subresources whose requests the server's metrics count as CONNECT.
func isStream(subresource string) bool {
	return slices.Contains([]string{"attach", "exec", "portforward", "proxy"}, subresource)
}

// profilesPath is below which an API server serves profiles and traces of itself.
const profilesPath = "/debug/pprof/"

// isLongRunning tells requests that an API server has for long-running, and neither counts
// among its requests in flight nor times out: watches, streams to pods, nodes and services,
// logs, and profiles.
func isLongRunning(r Request, uri string) bool {
	if r.Resource == "" {
		return strings.HasPrefix(uri, profilesPath)
	}
	return isOpenEnded(r.Verb) || r.Subresource == "log"
}

// isOpenEnded tells verbs all of whose requests are long-running.
func isOpenEnded(verb string) bool { return verb == watchVerb || verb == connectVerb }

// clip bounds a name that others chose, and takes out what no label should have.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s)
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "")
	}
	return s
}
