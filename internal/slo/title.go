package slo

// Title names a result with its statistic and labels: "p99 of mutating calls
// (PATCH pods/status resource)". It is the same in every run of a scenario.
func Title(r Result) string { return title(r) }
