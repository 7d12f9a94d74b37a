package door

import (
	"net/http"
	"strings"
)

// target is what the path of a call names.
type target struct {
	group, namespace, resource, name, part string // namespace: empty also for a namespace itself
	path                                   string // of the object, or of the collection
}

// String is RESOURCE NAMESPACE/NAME.
func (t target) String() string {
	if t.namespace == "" {
		return t.resource + " " + t.name
	}
	return t.resource + " " + t.namespace + "/" + t.name
}

// apiPath returns a path from /api or /apis on: a server may have a prefix.
func apiPath(path string) string {
	for _, root := range []string{"/apis/", "/api/"} {
		if i := strings.Index(path, root); i >= 0 {
			return path[i:]
		}
	}
	return ""
}

// parsePath reads the path of a call; ok is false for what is no resource.
func parsePath(path string) (t target, ok bool) {
	full := apiPath(path)
	words := strings.Split(strings.Trim(full, "/"), "/")
	head := 2 // api/v1
	if words[0] == "apis" {
		head = 3 // apis/GROUP/VERSION
		if len(words) > 1 {
			t.group = words[1]
		}
	}
	if len(words) <= head {
		return t, false
	}
	rest := words[head:]
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		t.namespace, rest = rest[1], rest[2:]
		head += 2
	}
	t.resource = rest[0]
	if len(rest) > 1 {
		t.name, head = rest[1], head+1
	}
	if len(rest) > 2 {
		t.part = rest[2]
	}
	t.path = "/" + strings.Join(words[:head+1], "/")
	return t, true
}

// hasPods says whether the object is a pod, or of a kind of which Kubernetes makes pods.
// Objects of other kinds that contain templates, such as manifests for members, are not: who
// makes pods of them does so by these kinds.
func (t target) hasPods() bool {
	switch t.group {
	case "":
		return t.resource == "pods" || t.resource == "podtemplates" || t.resource == "replicationcontrollers"
	case "apps", "batch":
		return true
	}
	return false
}

// changesObject says whether a call of a method may change an object.
func (t target) changesObject(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	switch t.group {
	case "authentication.k8s.io", "authorization.k8s.io":
		return false // reviews are answered, not kept
	}
	switch t.part {
	case "token", "proxy", "exec", "attach", "portforward":
		return false // they speak to a program, or give a token
	}
	return true
}
