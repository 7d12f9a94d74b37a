package member

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
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
	store, err := newStoreClient(r.Store)
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
		err := store.callStore(ctx, "/v3/kv/range", map[string]any{"key": from, "range_end": to, "limit": pageOf}, &page)
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
	store, err := newStoreClient(r.Store)
	if err != nil {
		return err
	}
	now, err := r.copyState(ctx)
	if err != nil {
		return err
	}
	var operations []map[string]any
	for key := range now {
		if _, stays := then[key]; !stays {
			operations = append(operations, map[string]any{"request_delete_range": map[string]any{"key": []byte(key)}})
		}
	}
	for key, value := range then {
		if !bytes.Equal(now[key], value) {
			operations = append(operations, map[string]any{"request_put": keyValue{[]byte(key), value}})
		}
	}
	for len(operations) > 0 {
		n := min(pageOf, len(operations))
		if err := store.callStore(ctx, "/v3/kv/txn", map[string]any{"success": operations[:n]}, nil); err != nil {
			return err
		}
		operations = operations[n:]
	}
	return nil
}

// storeClient speaks to etcd's JSON gateway: few calls that no run measures are not
// worth a client of gRPC.
type storeClient struct {
	client *http.Client
	base   *url.URL
}

func newStoreClient(e endpoint.Endpoint) (*storeClient, error) {
	client, base, err := e.Client()
	if err != nil {
		return nil, err
	}
	return &storeClient{client, base}, nil
}

// maxStored bounds an answer of etcd, in bytes: a page of the largest objects.
const maxStored = pageOf * 4 << 20

func (c *storeClient) callStore(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode a call of etcd: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call etcd: %w", err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err // names method and URL
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxStored))
	if err != nil {
		return fmt.Errorf("call etcd: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refused(path, resp.StatusCode, raw)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("call etcd: %w", err)
	}
	return nil
}
