package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// repairs are what was found to be other than it was rendered, and was put right, while
// an application was kept.
type repairs struct {
	mu  sync.Mutex
	all []string
}

type repairsKey struct{}

// withRepairs returns a context whose requests on objects note here what they put right.
func (r *repairs) withRepairs(ctx context.Context) context.Context {
	return context.WithValue(ctx, repairsKey{}, r)
}

// repairsOf returns what a context's requests note repairs in; nil while objects are
// published, for then they are meant to change.
func repairsOf(ctx context.Context) *repairs {
	r, _ := ctx.Value(repairsKey{}).(*repairs)
	return r
}

// add notes one object; a nil repairs notes nothing.
func (r *repairs) add(ctx context.Context, o *unstructured.Unstructured, what string) {
	if r == nil {
		return
	}
	where := ""
	if name := cluster.Of(ctx); name != "" {
		where = " in cluster " + name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%s %s%s %s", o.GetKind(), o.GetName(), where, what))
}

// sentence names the first of them; it is empty where there were none.
func (r *repairs) sentence() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.all)
	return fewWords(r.all)
}

// isDrift says whether a patch puts something right. That of a Secret with stringData,
// which no read returns, is never empty: it does where data is not what the server
// makes of that.
func isDrift(is, want *unstructured.Unstructured, patch []byte) bool {
	if string(patch) == "{}" {
		return false
	}
	plain, found, err := unstructured.NestedStringMap(want.Object, "stringData")
	if !found || err != nil {
		return true
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(patch, &fields) != nil || len(fields) > 1 {
		return true
	}
	data, _, err := unstructured.NestedStringMap(is.Object, "data")
	if err != nil {
		return true
	}
	for k, v := range plain {
		if data[k] != encodeBase64(v) {
			return true
		}
	}
	return false
}
