package door

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// jsonPatch is the type of a list of operations; the other patches have the object's form.
const jsonPatch = "application/json-patch+json"

// labelsPath is where a JSON patch names the labels.
const labelsPath = "/metadata/labels"

// keepLabel returns a patch that leaves the run's label where it is: one that replaces or removes
// the labels would take it away. A patch that says nothing of labels stays as it is.
func keepLabel(raw []byte, contentType, run string) ([]byte, error) {
	switch {
	case !bytes.Contains(raw, []byte("labels")):
		return raw, nil
	case contentType == jsonPatch:
		return keepOperations(raw, run)
	}
	patch := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	metadata := map[string]json.RawMessage{}
	if err := json.Unmarshal(patch["metadata"], &metadata); len(patch["metadata"]) > 0 && err != nil {
		return nil, err
	}
	labels, there := metadata["labels"]
	if !there {
		return raw, nil // those of a template, or of a selector
	}
	var err error
	if metadata["labels"], err = addRunLabel(labels, run); err == nil {
		patch["metadata"], err = json.Marshal(metadata)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(patch)
}

// addRunLabel returns labels with the run's. A merge patch that removes all labels, null, becomes
// one that removes none: it does not name those that are there.
func addRunLabel(labels json.RawMessage, run string) (json.RawMessage, error) {
	all := map[string]any{}
	if err := json.Unmarshal(labels, &all); err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	if all == nil {
		all = map[string]any{}
	}
	all[object.RunLabel] = run
	return json.Marshal(all)
}

// keepOperations is keep for a JSON patch.
func keepOperations(raw []byte, run string) ([]byte, error) {
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	own := labelsPath + "/" + strings.ReplaceAll(object.RunLabel, "/", "~1")
	for _, o := range all {
		var op, path string
		if json.Unmarshal(o["op"], &op) != nil || json.Unmarshal(o["path"], &path) != nil {
			continue // the server says what is wrong with it
		}
		if op == "test" || path != labelsPath && path != own {
			continue
		}
		value, err := json.Marshal(run)
		if path == labelsPath {
			value = o["value"]
			if op == "remove" || len(value) == 0 {
				value = json.RawMessage("{}")
			}
			value, err = addRunLabel(value, run)
		}
		if err != nil {
			return nil, err
		}
		if op == "remove" {
			o["op"] = json.RawMessage(`"replace"`)
		}
		o["value"] = value
	}
	return json.Marshal(all)
}
