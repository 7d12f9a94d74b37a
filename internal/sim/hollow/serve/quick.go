package serve

import (
	"net/http"
	"strings"
)

// quickBody is the length of the longest body of a request that counts as quick.
const quickBody = 64 << 10

// IsQuick reports whether a request is answered at once: it is about one object, and the
// cluster is not slow. Lists and watches wait for their clients, documents take long to
// make, and large bodies wait for their turn.
func (c *Cluster) IsQuick(r *http.Request, path string) bool {
	if c.faults.IsSlow() || r.ContentLength < 0 || r.ContentLength > quickBody {
		return false
	}
	rest, ok := strings.CutPrefix(path, "/api/v1/")
	if !ok {
		if rest, ok = strings.CutPrefix(path, "/apis/"); !ok {
			return false
		}
		group, below, _ := strings.Cut(rest, "/")
		if group == "apiextensions.k8s.io" { // each changes what there is
			return false
		}
		_, rest, _ = strings.Cut(below, "/")
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	case http.MethodGet, http.MethodDelete:
		return isOneObject(rest) && !strings.Contains(r.URL.RawQuery, "watch=")
	}
	return false
}

// isOneObject says whether a path, below that of its version, is of one object.
func isOneObject(path string) bool {
	n := strings.Count(path, "/")
	if strings.HasPrefix(path, "namespaces/") && n > 1 {
		return n > 2
	}
	return n > 0
}
