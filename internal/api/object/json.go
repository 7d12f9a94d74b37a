package object

import "encoding/json"

// Metadata is the part of an object's metadata that is read of JSON, whatever
// its kind.
type Metadata struct {
	Name              string `json:"name"`
	Namespace         string `json:"namespace"`
	UID               string `json:"uid"`
	ResourceVersion   string `json:"resourceVersion"`
	DeletionTimestamp string `json:"deletionTimestamp"`

	Labels     map[string]string `json:"labels"`
	Finalizers []string          `json:"finalizers"`
}

// ReadMetadata reads that of an object in JSON.
func ReadMetadata(body []byte) (Metadata, error) {
	var o struct {
		Metadata Metadata `json:"metadata"`
	}
	err := json.Unmarshal(body, &o)
	return o.Metadata, err
}

// List is a page of a list in JSON, of which T is read of each item.
type List[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"` // of the whole list
		Continue        string `json:"continue"`        // of the next page; empty on the last
	} `json:"metadata"`
	Items []T `json:"items"`
}
