package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

// Metadata is what a list without the objects' contents tells of one.
type Metadata struct {
	object.Metadata
	Created         time.Time `json:"creationTimestamp"`
	OwnerReferences []struct {
		UID string `json:"uid"`
	} `json:"ownerReferences"`
	ManagedFields []struct {
		Manager string          `json:"manager"`
		Time    time.Time       `json:"time"`
		Fields  json.RawMessage `json:"fieldsV1"`
	} `json:"managedFields"`
}

// metadataOnly asks for objects without what is in them.
const metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

// ListMetadata reads all pages of a list, of the objects that a label selector
// (empty: all) selects. A status that is not 200 is a *wire.StatusError.
func ListMetadata(ctx context.Context, client Doer, path, selector string, each func(Metadata)) error {
	query := url.Values{"limit": {"1000"}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	for {
		answer, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path + "?" + query.Encode(), Accept: metadataOnly})
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		if answer.Code != http.StatusOK {
			return fmt.Errorf("list %s: %w", path, answer.Refusal())
		}
		var page object.List[struct {
			Metadata Metadata `json:"metadata"`
		}]
		if err := json.Unmarshal(answer.Body, &page); err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		for _, o := range page.Items {
			each(o.Metadata)
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}
