package member

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
)

// state is what a real member stored at some time: values by key.
type state map[string][]byte

// keyValue is a key of etcd's JSON gateway, with its value.
type keyValue struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

// pageOf is how many keys are read or written at once: etcd takes 128 operations in
// a transaction.
const pageOf = 100

// copyState returns what a member stores now.
func (r realServer) copyState(ctx context.Context) (state, error) {
	store, err := r.askStore()
	if err != nil {
		return nil, err
	}
	out := state{}
	from, to := []byte(r.Prefix+"/"), []byte(r.Prefix+"0") // 0 follows /
	for {
		var page struct {
			KVs  []keyValue `json:"kvs"`
			More bool       `json:"more"`
		}
		err := store.Ask(ctx, "/v3/kv/range", map[string]any{"key": from, "range_end": to, "limit": pageOf}, &page)
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			out[string(kv.Key)] = kv.Value
		}
		if !page.More || len(page.KVs) == 0 {
			return out, nil
		}
		from = append(page.KVs[len(page.KVs)-1].Key, 0)
	}
}

// restoreState gives a member, which is down, what it had stored. Revisions go on, as they
// do after a restored snapshot whose revision was bumped.
func (r realServer) restoreState(ctx context.Context, then state) error {
	store, err := r.askStore()
	if err != nil {
		return err
	}
	now, err := r.copyState(ctx)
	if err != nil {
		return err
	}
	operations := now.operationsTo(then)
	for len(operations) > 0 {
		n := min(pageOf, len(operations))
		if err := store.Ask(ctx, "/v3/kv/txn", map[string]any{"success": operations[:n]}, nil); err != nil {
			return err
		}
		operations = operations[n:]
	}
	return nil
}

// maxStored bounds an answer of etcd, in bytes: a page of the largest objects.
const maxStored = pageOf * 4 << 20

// operationsTo are etcd's operations by which what is stored becomes what it was then.
func (now state) operationsTo(then state) (out []map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, stays := then[key]; !stays {
			out = append(out, map[string]any{"request_delete_range": map[string]any{"key": []byte(key)}})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(then)) {
		if value, there := now[key]; !there || !bytes.Equal(value, then[key]) {
			out = append(out, map[string]any{"request_put": keyValue{[]byte(key), then[key]}})
		}
	}
	return out
}

// askStore speaks to etcd's JSON gateway: few calls that no run measures are not worth a
// client of gRPC.
func (r realServer) askStore() (*plane.Asker, error) { return plane.NewAsker(r.Store, maxStored) }
