package rows

// Call is one API request, in the order in which they ended.
type Call struct {
	Due         int64  `parquet:"due_ns,delta" unit:"ns"`               // when the pace, or the stage, wanted it sent
	Sent        int64  `parquet:"sent_ns,delta" unit:"ns"`              // when its first byte was handed to the connection; a new connection: when it was begun
	Done        int64  `parquet:"done_ns,delta" unit:"ns"`              // when its answer was complete, or given up
	Source      string `parquet:"source,dict"`                          // who sent it: load, fleet or observe
	Step        string `parquet:"step,dict,optional"`                   // the scenario's step; empty: outside of one
	Verb        string `parquet:"verb,dict"`                            // API verb: create, get, list, update, patch, delete, deletecollection, watch
	Resource    string `parquet:"resource,dict"`                        // plural and group, as in deployments.apps; pods for the core group
	Subresource string `parquet:"subresource,dict,optional"`            // status, binding, scale ...; empty: the object itself
	Scope       string `parquet:"scope,dict,optional"`                  // resource (one object), namespace or cluster (lists); empty: it has none
	Outcome     string `parquet:"outcome,dict"`                         // ok (below 400), failed (400 and above, or never sent), unknown (no answer was seen)
	Code        int32  `parquet:"code,dict,optional" unit:"HTTP"`       // status of the answer; empty: there was none
	Attempt     int32  `parquet:"attempt,dict" unit:"count"`            // 0: the first; n: sent again for the n-th time
	Again       int32  `parquet:"again,dict" unit:"count"`              // 1: it did not end well and is sent again, the next attempt follows; 0: that was all
	RetryAfter  int64  `parquet:"retry_after_s,dict,optional" unit:"s"` // what the server asked for; empty: it did not
	SentBytes   int64  `parquet:"sent_bytes,delta" unit:"bytes"`        // body sent
	Received    int64  `parquet:"received_bytes,delta" unit:"bytes"`    // body received
	Cluster     string `parquet:"cluster,dict,optional"`                // the member that it was sent to; empty: the plane
	Connection  string `parquet:"connection,dict,optional"`             // new: it opened a connection of its own; empty: it used one that was open
	Clients     string `parquet:"clients,dict,optional"`                // the population of clients that sent it; empty: windtunnel's own client
	Throttled   int64  `parquet:"throttled_ns,delta" unit:"ns"`         // how long the rate limiter of its client held it back
}

// Phase is one phase of one object's lifecycle, in the order of receipt.
type Phase struct {
	Object    int64  `parquet:"object,delta" unit:"number"`   // the object's number in this run, from 0; its rows together are its lifecycle
	Resource  string `parquet:"resource,dict"`                // plural and group, as in deployments.apps; pods for the core group
	Namespace string `parquet:"namespace,dict,optional"`      // empty: the object is in none
	Name      string `parquet:"name"`                         // of the object
	UID       string `parquet:"uid,optional"`                 // empty: the object's was not seen
	Group     string `parquet:"group,dict,optional"`          // what the scenario calls the objects that it belongs to; empty: it belongs to none
	Lifecycle string `parquet:"lifecycle,dict,optional"`      // which of the scenario's lifecycles this is; empty: that of the pods that every run observes
	Phase     string `parquet:"phase,dict"`                   // created, bound, running, ready, finished, deleting, deleted, or the scenario's own; unknown: its watch was interrupted
	At        int64  `parquet:"at_ns,delta" unit:"ns"`        // receipt of the watch event that first showed it
	Within    *int64 `parquet:"within_ns,optional" unit:"ns"` // how long before at_ns it may have been reached, where the watch was interrupted or lagged: 0 nearly always; empty: nothing bounds it
	Cluster   string `parquet:"cluster,dict,optional"`        // the member that the object is in; empty: the plane
}

// Sample is one value of a series, or its end. A value equal to that of
// the previous scrape has no row: the table scrapes says when each target was read.
type Sample struct {
	Series int64    `parquet:"series,delta" unit:"number"`         // the series' number in this run, from 0
	Target string   `parquet:"target,dict"`                        // where it was read: kube-apiserver, etcd ..., windtunnel
	Name   string   `parquet:"name,dict"`                          // of the metric
	Labels string   `parquet:"labels,dict,optional"`               // its labels as a JSON object of texts; empty: it has none
	At     int64    `parquet:"at_ns,delta" unit:"ns"`              // when the request for it was sent
	Value  *float64 `parquet:"value,optional" unit:"the metric's"` // empty: from here on the series was not served any more
}

// Histogram is one value of a native histogram (Prometheus' sparse form):
// bucket i of schema s ends at 2^(i/2^s), its end included.
type Histogram struct {
	Series        int64   `parquet:"series,delta" unit:"number"`              // the series' number in this run, from 0
	Target        string  `parquet:"target,dict"`                             // where it was read
	Name          string  `parquet:"name,dict"`                               // of the metric
	Labels        string  `parquet:"labels,dict,optional"`                    // its labels as a JSON object of texts; empty: it has none
	At            int64   `parquet:"at_ns,delta" unit:"ns"`                   // when the request for it was sent
	Count         int64   `parquet:"count,delta" unit:"count"`                // values so far
	Sum           float64 `parquet:"sum" unit:"the metric's"`                 // of the values so far
	Schema        int32   `parquet:"schema,dict" unit:"number"`               // resolution
	ZeroThreshold float64 `parquet:"zero_threshold,dict" unit:"the metric's"` // values up to this far from 0 are in zero_count
	ZeroCount     int64   `parquet:"zero_count,delta" unit:"count"`           // values about 0
	PositiveIndex []int32 `parquet:"positive_index,list" unit:"number"`       // the buckets above 0 that have values
	PositiveCount []int64 `parquet:"positive_count,list" unit:"count"`        // how many each of them has
	NegativeIndex []int32 `parquet:"negative_index,list" unit:"number"`       // the buckets below 0 that have values
	NegativeCount []int64 `parquet:"negative_count,list" unit:"count"`        // how many each of them has
}

// Scrape is one complete reading of a target's metrics.
type Scrape struct {
	Target string `parquet:"target,dict"`               // what was read
	At     int64  `parquet:"at_ns,delta" unit:"ns"`     // when the request was sent
	Took   int64  `parquet:"took_ns,delta" unit:"ns"`   // until the answer was complete and read
	Points int64  `parquet:"points,delta" unit:"count"` // values that the target served, of those that are kept
}

// Event is one moment of the run.
type Event struct {
	At           int64   `parquet:"at_ns,delta" unit:"ns"`              // when
	Type         string  `parquet:"type,dict"`                          // see the list of types
	Name         string  `parquet:"name,dict,optional"`                 // the step, target or component; empty: it is of none
	Text         string  `parquet:"text,optional"`                      // for people: why, or the evidence; empty: the other columns say all
	Reason       string  `parquet:"reason,dict,optional"`               // of run-end: done, interrupted, aborted, failed; empty: another type
	Step         string  `parquet:"step,dict,optional"`                 // of run-end: the step that failed; empty: it was none
	Count        int64   `parquet:"count,optional" unit:"count"`        // of requested, offered, achieved: calls; of calls-failed: calls that failed for good; of fleet-ready: nodes; empty: another type
	Rate         float64 `parquet:"rate_per_s,optional" unit:"calls/s"` // of requested, offered, achieved; empty: none was asked for
	Parallel     int64   `parquet:"parallel,optional" unit:"count"`     // of requested: so many calls at a time (a closed loop); empty: an open loop
	For          int64   `parquet:"for_ns,optional" unit:"ns"`          // of watch-gap: since the last event; of plane-ready: from start to ready; empty: another type, or not known
	Verb         string  `parquet:"verb,dict,optional"`                 // of calls-failed: of the calls; empty: another type
	Resource     string  `parquet:"resource,dict,optional"`             // of calls-failed, plural and group; empty: another type
	Subresource  string  `parquet:"subresource,dict,optional"`          // of calls-failed; empty: the object itself
	Code         int32   `parquet:"code,optional" unit:"HTTP"`          // of calls-failed: status of the answers; empty: there was none
	StatusReason string  `parquet:"status_reason,dict,optional"`        // of calls-failed: the server's word, such as Invalid; empty: it gave none
	Object       string  `parquet:"object,optional"`                    // of calls-failed: what the first one was about, NAMESPACE/NAME; empty: another type
	Retried      int64   `parquet:"retried,optional" unit:"count"`      // of calls-failed: attempts that were sent again; empty: none
}
