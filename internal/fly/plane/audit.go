package plane

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/component"
)

// auditPolicy asks for one event a request, with who asked for what and no bodies, and for
// another at the start of a request that lasts.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// Sizes of an audit log: the API server begins a new file when one has reached auditMegabytes,
// and keeps auditBackups. Whoever reads the log twice a second loses nothing below
// 90,000 requests a second, and both files take little of a tmpfs.
const (
	auditMegabytes = "32"
	auditBackups   = "1"
)

func (s site) auditPolicyFile() string { return filepath.Join(s.folder, "audit-policy.yaml") }

// auditLog returns where an API server writes its audit log; empty where it writes none.
func (s site) auditLog(process string) string {
	if name, _ := component.Of(process); !s.counts.Audit || name != component.APIServer {
		return ""
	}
	return filepath.Join(s.folder, process+"-audit.log")
}

func (s site) writeAuditPolicy() error {
	if !s.counts.Audit {
		return nil
	}
	if err := os.WriteFile(s.auditPolicyFile(), []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("audit policy: %w", err)
	}
	return nil
}

// auditFlags let an API server write its audit log. In its mode "blocking" an event is in the
// file before its request is answered; "batch" copies events, which costs more, and drops
// what does not fit into its buffer.
func auditFlags(s site, process string) []flagValue {
	log := s.auditLog(process)
	if log == "" {
		return nil
	}
	return []flagValue{
		{"audit-policy-file", s.auditPolicyFile()},
		{"audit-log-path", log},
		{"audit-log-mode", "blocking"},
		{"audit-log-maxsize", auditMegabytes},
		{"audit-log-maxbackup", auditBackups},
	}
}
