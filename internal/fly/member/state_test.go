package member

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
)

// TestWhatIsStoredComesBack changes, deletes and adds keys after a copy, more than one
// transaction may have, and restores what was there, beside the keys of another member.
func TestWhatIsStoredComesBack(t *testing.T) {
	stored, transactions := map[string]string{"/members/ab/x": "another's"}, 0
	for i := range 250 {
		stored[fmt.Sprintf("/members/a/%03d", i)] = "before"
	}
	before := fmt.Sprint(stored)
	etcd := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var in struct {
			Key     []byte `json:"key"`
			To      []byte `json:"range_end"`
			Limit   int    `json:"limit"`
			Success []struct {
				Put    *keyValue `json:"request_put"`
				Delete *keyValue `json:"request_delete_range"`
			} `json:"success"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Success) > 128 {
			http.Error(out, fmt.Sprintf("%d operations, %v", len(in.Success), err), http.StatusBadRequest)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/txn") {
			transactions++
		}
		for _, one := range in.Success {
			if one.Put != nil {
				stored[string(one.Put.Key)] = string(one.Put.Value)
			} else {
				delete(stored, string(one.Delete.Key))
			}
		}
		page := struct {
			KVs  []keyValue `json:"kvs"`
			More bool       `json:"more"`
		}{}
		var keys []string
		for key := range stored {
			if key >= string(in.Key) && key < string(in.To) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys[:min(len(keys), in.Limit)] {
			page.KVs = append(page.KVs, keyValue{[]byte(key), []byte(stored[key])})
		}
		page.More = len(keys) > in.Limit
		_ = json.NewEncoder(out).Encode(page)
	}))
	defer etcd.Close()
	r := realServer{&plane.Server{Store: endpoint.New(etcd.URL, nil, endpoint.Identity{}), Prefix: "/members/a"}}
	then, err := r.copyState(t.Context())
	if err != nil || len(then) != 250 {
		t.Fatalf("copied %d, %v", len(then), err)
	}
	if err := r.restoreState(t.Context(), then); err != nil || transactions != 0 {
		t.Errorf("nothing has changed, and there were %d transactions, %v", transactions, err)
	}
	for i := range 120 {
		stored[fmt.Sprintf("/members/a/%03d", i)] = "after"
		delete(stored, fmt.Sprintf("/members/a/%03d", i+120))
		stored[fmt.Sprintf("/members/a/new-%d", i)] = "new"
	}
	if err := r.restoreState(t.Context(), then); err != nil || fmt.Sprint(stored) != before {
		t.Errorf("%v: %v", err, stored)
	}
	if transactions != 4 {
		t.Errorf("%d transactions, want 4 of 100 operations at most", transactions)
	}
}
