// Package doctor looks at a machine and says what it can hold: nodes, pods and
// connections, what limits each, and the command that lifts the limit.
//
// It changes nothing but a small file that it writes to time the disk, and a
// control group that it makes to see whether it may; both are gone when it
// returns. It flies nothing: its estimates come from what objects cost in
// experiments/0010-what-a-machine-holds.
package doctor

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Limit is a limit of this process that it may raise itself (Soft) up to Hard.
type Limit struct {
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Timing is how long something took when it was tried a number of times.
type Timing struct {
	Tries int           `json:"tries"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
}

// Disk is a place where something is written.
type Disk struct {
	Path     string `json:"path"`
	InMemory bool   `json:"in_memory"`
	Free     uint64 `json:"free_bytes"`
	Sync     Timing `json:"sync"`            // of 4 kB that are appended and synced
	Fault    string `json:"fault,omitempty"` // why nothing can be written there
}

// Facts is what was found out of a machine. What could not be found out is zero.
type Facts struct {
	Machine     record.Machine    `json:"machine"`
	Versions    map[string]string `json:"versions"`
	UsableCores float64           `json:"usable_cores"`                 // after affinity and the own control group's quota
	Available   uint64            `json:"available_bytes"`              // memory that can be had without swapping
	MemoryLimit uint64            `json:"memory_limit_bytes,omitempty"` // of the own control group; 0: none
	SwapUsed    uint64            `json:"swap_used_bytes"`
	Load        float64           `json:"load"` // average of the last minute
	OpenFiles   Limit             `json:"open_files"`
	Processes   Limit             `json:"processes"`
	SystemFiles uint64            `json:"system_files"` // that the whole machine may have open
	Ports       int               `json:"ports"`        // for outgoing connections to one address
	Inotify     int               `json:"inotify_instances"`
	CPUGroup    string            `json:"cpu_group,omitempty"`    // why components cannot be given a CPU limit; empty: they can
	MemoryGroup string            `json:"memory_group,omitempty"` // likewise for memory
	Network     string            `json:"network,omitempty"`      // why networks of namespaces cannot be built; empty: they can
	Network6    string            `json:"network_ipv6,omitempty"` // likewise those of IPv6
	Clock       string            `json:"clock_source"`
	ClockRead   time.Duration     `json:"clock_read_ns"` // one reading
	Timer       Timing            `json:"timer"`         // by how much a sleep of 1 ms was too long
	Governor    string            `json:"cpu_governor,omitempty"`
	MayPrefer   bool              `json:"may_prefer"` // windtunnel may go before what it measures
	Records     Disk              `json:"records"`
	Data        Disk              `json:"data"` // of etcd with durability: memory
}
