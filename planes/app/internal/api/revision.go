package api

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Revision is an ApplicationRevision: an application as it was published, with a
// copy of every definition that it uses.
type Revision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RevisionSpec   `json:"spec"`
	Status            RevisionStatus `json:"status,omitempty"`
}

// RevisionSpec is what is kept. On the wire and in etcd it may be compressed;
// decoded it never is.
type RevisionSpec struct {
	RevisionContent
	Compression Compression `json:"compression,omitzero"`
}

// RevisionContent is a revision's specification without its compression.
type RevisionContent struct {
	Application             Application            `json:"application,omitzero"`
	ComponentDefinitions    map[string]*Definition `json:"componentDefinitions,omitempty"`
	TraitDefinitions        map[string]*Definition `json:"traitDefinitions,omitempty"`
	WorkflowStepDefinitions map[string]*Definition `json:"workflowStepDefinitions,omitempty"`
	Policies                map[string]*Policy     `json:"policies,omitempty"`
	Workflow                *Workflow              `json:"workflow,omitempty"` // that the application refers to
}

// RevisionStatus is how the publishing of a revision ended.
type RevisionStatus struct {
	Succeeded bool            `json:"succeeded"`
	Workflow  *WorkflowStatus `json:"workflow,omitempty"`
}

// Tracker is a ResourceTracker: the objects that one generation of an application
// made. It has no owner, so that it outlives what it must clean up after.
type Tracker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TrackerSpec `json:"spec,omitempty"`
}

// TrackerVersioned is the type of a tracker of one generation.
const TrackerVersioned = "versioned"

// TrackerSpec lists the objects. On the wire they may be compressed.
type TrackerSpec struct {
	Type                  string            `json:"type,omitempty"`
	ApplicationGeneration int64             `json:"applicationGeneration"`
	ManagedResources      []ManagedResource `json:"managedResources,omitempty"`
	Compression           Compression       `json:"compression,omitzero"`
}

// ManagedResource is one object, with the manifest that it is kept to.
type ManagedResource struct {
	ResourceReference
	Component string          `json:"component,omitempty"`
	Trait     string          `json:"trait,omitempty"`
	Raw       json.RawMessage `json:"raw,omitempty"`
}

// Key names the object among those of all clusters.
func (m ManagedResource) Key() string {
	return m.Cluster + "/" + m.APIVersion + "/" + m.Kind + "/" + m.Namespace + "/" + m.Name
}

// The ways of compression.
const (
	Uncompressed = ""
	Gzip         = "gzip"
	Zstd         = "zstd"
)

// Compression says how a specification is stored, and holds it then.
type Compression struct {
	Type string `json:"type,omitempty"`
	Data string `json:"data,omitempty"` // base64
}

// MarshalJSON writes the specification as its compression says.
func (s RevisionSpec) MarshalJSON() ([]byte, error) {
	type plain RevisionSpec
	if s.Compression.Type == Uncompressed {
		return json.Marshal(plain(s))
	}
	c, err := packContent(s.Compression.Type, s.RevisionContent)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct { // the API server's schema asks for an application
		Application struct {
			Spec ApplicationSpec `json:"spec"`
		} `json:"application"`
		Compression Compression `json:"compression"`
	}{Compression: c})
}

// UnmarshalJSON reads either form.
func (s *RevisionSpec) UnmarshalJSON(raw []byte) error {
	type plain RevisionSpec
	var p plain
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	if p.Compression.Type != Uncompressed {
		content := RevisionContent{}
		if err := unpackContent(p.Compression, &content); err != nil {
			return fmt.Errorf("revision: %w", err)
		}
		p.RevisionContent, p.Compression.Data = content, ""
	}
	*s = RevisionSpec(p)
	return nil
}

// MarshalJSON writes the objects as the compression says.
func (s TrackerSpec) MarshalJSON() ([]byte, error) {
	type plain TrackerSpec
	if s.Compression.Type != Uncompressed {
		c, err := packContent(s.Compression.Type, s.ManagedResources)
		if err != nil {
			return nil, err
		}
		s.ManagedResources, s.Compression = nil, c
	}
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads either form.
func (s *TrackerSpec) UnmarshalJSON(raw []byte) error {
	type plain TrackerSpec
	var p plain
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	if p.Compression.Type != Uncompressed {
		if err := unpackContent(p.Compression, &p.ManagedResources); err != nil {
			return fmt.Errorf("resource tracker: %w", err)
		}
		p.Compression.Data = ""
	}
	*s = TrackerSpec(p)
	return nil
}

// unpacked is the most bytes that a compressed document may hold.
const unpacked = 64 << 20

// Encoders and decoders of zstd are used again: a new encoder takes 1.4 MB, twenty times
// what else it takes to write a revision. They have the small tables that documents of this
// size need, and no goroutines, so that the garbage collector may have them.
var (
	encoders = sync.Pool{New: func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
		return mustMake(w, err)
	}}
	decoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(unpacked))
		return mustMake(d, err)
	}}
)

// mustMake is for options that are constants: they are right, or no test passes.
func mustMake[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func packContent(kind string, content any) (Compression, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return Compression{}, err
	}
	switch kind {
	case Zstd:
		w := encoders.Get().(*zstd.Encoder)
		raw = w.EncodeAll(raw, nil)
		encoders.Put(w)
	case Gzip:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(raw); err != nil {
			return Compression{}, err
		}
		if err := w.Close(); err != nil {
			return Compression{}, err
		}
		raw = b.Bytes()
	default:
		return Compression{}, fmt.Errorf("compression %q: want %s or %s", kind, Zstd, Gzip)
	}
	return Compression{Type: kind, Data: base64.StdEncoding.EncodeToString(raw)}, nil
}

func unpackContent(c Compression, into any) error {
	raw, err := base64.StdEncoding.DecodeString(c.Data)
	if err != nil {
		return fmt.Errorf("compressed data: %w", err)
	}
	switch c.Type {
	case Zstd:
		d := decoders.Get().(*zstd.Decoder)
		raw, err = d.DecodeAll(raw, nil)
		decoders.Put(d)
	case Gzip:
		raw, err = gunzip(raw)
	default:
		return fmt.Errorf("compression %q: want %s or %s", c.Type, Zstd, Gzip)
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("compressed data: %w", err)
	}
	return nil
}

func gunzip(raw []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, unpacked))
}
