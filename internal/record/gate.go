package record

// GateFacts says whether the plane was clean when the run began, and what it was
// like, so that a later run on the same cluster can be held against it.
type GateFacts struct {
	Clean  bool        `json:"clean"`
	Waited float64     `json:"waited_seconds"`
	Faults []GateFault `json:"faults,omitempty"`

	Cluster  string             `json:"cluster,omitempty"`            // UID of the namespace kube-system; empty for a plane of the run's own
	First    string             `json:"first_run,omitempty"`          // the run that this one was held against
	Heap     map[string]float64 `json:"heap_bytes,omitempty"`         // at which the garbage collector starts next, by component
	Store    float64            `json:"store_bytes,omitempty"`        // in use of etcd's database
	Canaries []float64          `json:"canary_seconds,omitempty"`     // creations, one after another
	Retries  map[string]float64 `json:"retries_per_second,omitempty"` // by queue, above 0
}

// GateFault is one thing that was not clean.
type GateFault struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}
