package scenario

import "slices"

// What failed calls and waits that are not met do to a run: the values of
// failedCalls and wait.unmet.
const (
	FailRun    = "fail"
	Ignore     = "ignore"
	UnknownRun = "unknown"
)

// Which connections requests use: the values of requests.connection and probe.connection.
const (
	KeptConnections = "kept"
	NewConnections  = "new"
)

// Dialects returns the template languages of bodies; the first is windtunnel's.
func Dialects() []string { return []string{"windtunnel", "clusterloader2", "kube-burner"} }

// uniqueTexts returns the texts without those that come again.
func uniqueTexts(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// PreflightFindings returns what a gate looks at, as preflight.tolerate names it.
func PreflightFindings() []string {
	return []string{"leftover", "terminating", "queue", "retries", "cpu", "heap", "store", "probe-write", "host", "unread"}
}

// fieldWords returns the values that a field takes; the field is named as in
// messages. nil when it takes any.
func fieldWords(field string) []string {
	switch field {
	case "plane.durability":
		return []string{"memory", "fsync"}
	case "failedCalls":
		return []string{FailRun, Ignore}
	case "echo.protocol":
		return []string{"udp", "icmp"}
	case "step.onFailure":
		return []string{"stop", "continue"}
	case "fleet.taint":
		return []string{"fleet", TaintNone}
	case "fleet.traffic":
		return []string{"minimal", "kubelet"}
	case "body.exemplar":
		return Exemplars()
	case "body.dialect":
		return Dialects()
	case "update.method":
		return []string{"merge", "strategic", "json", "apply", "put"}
	case "requests.connection", "probe.connection":
		return []string{KeptConnections, NewConnections}
	case "clients.contentType":
		return []string{ProtobufClients, JSONClients}
	case "call.verb":
		return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	case "call.informer":
		return []string{ListInformer, WatchListInformer}
	case "as.method":
		return []string{ImpersonationMethod, CertificateMethod}
	case "call.pick":
		return []string{"turn", "random"}
	case "call.patch":
		return []string{"merge", "strategic", "json", "apply"}
	case "measure.better":
		return []string{"lower", "higher"}
	case "metrics.scheme":
		return []string{"http", "https"}
	case "fault.client":
		return []string{"load", "fleet", "observe", "kube-scheduler", "kube-controller-manager", "etcd"}
	case "fault.action":
		var out []string
		for _, f := range faultTargets() {
			out = append(out, f.actions...)
		}
		return uniqueTexts(out)
	case "delete.propagation", "scale.propagation", "call.propagation":
		return []string{"background", "foreground", "orphan"}
	case "wait.unmet":
		return []string{UnknownRun, FailRun}
	case "wait.are":
		return append(Phases(), "deleted")
	case "lifecycle.use":
		var out []string
		for _, l := range KnownLifecycles() {
			out = append(out, l.Name)
		}
		return append(out, PodLifecycle)
	case "members.kind":
		return []string{RealMember, HollowMember}
	case "members.etcd":
		return []string{"shared", "own"}
	case "members.onDeath":
		return []string{"continue", "stop"}
	case "link.by":
		return []string{"owner", "label", "name", "key"}
	case "preflight.dirty":
		return []string{"tag", "stop"}
	case "objective.slo":
		return []string{"kubernetes"}
	case "objective.sli":
		var out []string
		for _, s := range SLIs() {
			out = append(out, s.Name)
		}
		return out
	}
	return nil
}
