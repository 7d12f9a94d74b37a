package apitest

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// callLog keeps the requests that a server got.
type callLog struct {
	counting sync.Mutex
	calls    []call
	packed   int // requests whose body was protobuf
}

type call struct{ text, kind, body string } // METHOD PATH, METHOD RESOURCE

// Calls returns how many requests of a kind, such as "PATCH pods/status", came.
func (l *callLog) Calls(kind string) int {
	return l.countCalls(func(c call) bool { return c.kind == kind })
}

// Count returns how many requests, such as "GET /api/v1/pods", began with a text.
// Those of discovery do not count, and a watch is a WATCH.
func (l *callLog) Count(prefix string) int {
	return l.countCalls(func(c call) bool { return strings.HasPrefix(c.text, prefix) })
}

func (l *callLog) countCalls(which func(call) bool) (n int) {
	l.counting.Lock()
	defer l.counting.Unlock()
	for _, c := range l.calls {
		if which(c) {
			n++
		}
	}
	return n
}

// Body returns the body, in JSON, of the last request, such as "POST /api/v1/pods".
func (l *callLog) Body(request string) string {
	l.counting.Lock()
	defer l.counting.Unlock()
	for _, c := range slices.Backward(l.calls) {
		if c.text == request {
			return c.body
		}
	}
	return ""
}

// Packed returns how many requests had a body in protobuf.
func (l *callLog) Packed() int {
	l.counting.Lock()
	defer l.counting.Unlock()
	return l.packed
}

// noteCall counts a request.
func (l *callLog) noteCall(r *http.Request, t target, body []byte, packed bool) {
	method := r.Method
	if isWatch(r) {
		method = "WATCH"
	}
	kind := method + " " + t.resource
	if t.part != "" {
		kind += "/" + t.part
	}
	l.counting.Lock()
	defer l.counting.Unlock()
	l.calls = append(l.calls, call{method + " " + r.URL.Path, kind, string(body)})
	if packed {
		l.packed++
	}
}
