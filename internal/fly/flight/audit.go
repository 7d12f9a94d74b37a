package flight

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/fly/observe/audit"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/record"
)

// askedAudit is what a run was asked for that counts requests by client.
const askedAudit = "plane.audit"

// startAudit begins to count the requests of each client, where the scenario asks for it.
func (r *run) startAudit() error {
	logs := auditLogs(r.plane, r.options.AuditLog)
	switch {
	case !r.scenario.Plane.Audit && r.options.AuditLog == "":
		return nil
	case len(logs) == 0:
		r.dir.recordUnmet(askedAudit, record.NotMeasured, "the API server belongs to others: name its audit log with --audit-log, if this machine can read it")
		return nil
	}
	reader, err := audit.New(r.dir.records, r.clock, logs, func(server string, err error) {
		r.dir.recordUnmet(askedAudit, record.NotMeasured, fmt.Sprintf("%s: %v", server, err))
	})
	if err != nil {
		return bootError{err}
	}
	r.instruments.audit = reader
	r.atEnd(reader.Close)
	return nil
}

// auditLogs are the audit logs of the plane's own API servers, or that of a cluster of others.
func auditLogs(p *plane.Plane, others string) (out []audit.Log) {
	for _, c := range p.Components() {
		if c.AuditLog != "" {
			out = append(out, audit.Log{Server: c.Name, Path: c.AuditLog})
		}
	}
	if others != "" {
		out = append(out, audit.Log{Server: "kube-apiserver", Path: others, Grown: true})
	}
	return out
}
