package record

// Status is where a run stands: the content of status.json, which is there only
// while the run is under way. Times are seconds, rates per second.
type Status struct {
	Step      string  `json:"step"`
	Index     int     `json:"index"` // of the step, from 1
	Of        int     `json:"of"`    // steps
	Elapsed   float64 `json:"elapsed"`
	Done      int     `json:"done,omitempty"`  // of the step: calls ended, pods waited for, nodes
	Total     int     `json:"total,omitempty"` // 0: it cannot be said
	Requested float64 `json:"requested,omitempty"`
	Achieved  float64 `json:"achieved,omitempty"`
	P99       float64 `json:"p99,omitempty"` // of the step's calls so far, from due to done
	Failed    int     `json:"failed,omitempty"`
	Late      int     `json:"late,omitempty"`
	For       string  `json:"for,omitempty"` // what the step waits for that cannot be counted
	Left      float64 `json:"left"`          // until the step's end as things go; negative: unknown
}
