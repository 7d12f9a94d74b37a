// Package planes has the verbs of the reference planes: what windtunnel's command
// knows of them.
package planes

import "github.com/windtunnel/windtunnel/planes/internal/kit/process"

// Host is the program that the planes' processes are verbs of.
type Host = process.Host

// names returns those of the planes' processes.
func names() []string {
	return []string{
		"app-controller", "app-webhook", "app-gateway", "app-member",
		"vm-controller", "vm-agent", "vm-webhook",
		"edge-hub", "edge-fleet", "edge-direct",
		"tree-manager", "tree-members", "link", "network-manager", "network-agents",
	}
}
