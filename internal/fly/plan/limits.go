package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Limits are those of this machine and of the plane that is to be flown. 0 is
// a limit that is not known.
type Limits struct {
	OpenFiles  uint64 // of this process: the hard limit, which Go raises the soft one to
	Quota      uint64 // bytes that etcd may store, by windtunnel's own flags
	Data       uint64 // bytes free where etcd's data are going to be
	DataFolder string
	InMemory   bool   // that is a tmpfs
	Records    uint64 // bytes free where the run directory is going to be
	RecordsDir string
	Memory     uint64 // bytes that are available
	Cores      int
	Installed  uint64 // bytes of memory that the machine has
	Ports      int    // that this machine gives out
}

// DefaultQuota is what etcd may store when nothing says otherwise, in bytes.
const DefaultQuota = 8 << 30

// logBytes is what etcd keeps beside its data: write-ahead logs, five segments
// of 64 MiB, and a snapshot.
const logBytes = 400 << 20

// recordBytes is what one call is in the records, at most.
const recordBytes = 32

// Unmet says, one sentence for each, which limits a scenario does not fit in.
func (e Estimate) Unmet(s *scenario.Scenario, l Limits) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if quota, whose := etcdQuota(s, l); e.EtcdBytes > int64(quota) {
		add("etcd would hold about %s, and %s is %s: it would refuse every write from there on", formatSize(e.EtcdBytes), whose, formatSize(int64(quota)))
	}
	if need := e.EtcdBytes + logBytes; l.Data > 0 && need > int64(l.Data) {
		if l.InMemory {
			add("etcd's data would take about %s of memory, and %s has %s free: set plane.durability to fsync, or make the load smaller", formatSize(need), l.DataFolder, formatSize(int64(l.Data)))
		} else {
			add("etcd's data would take about %s, and %s has %s free", formatSize(need), l.DataFolder, formatSize(int64(l.Data)))
		}
	}
	if need := int64(e.Total) * recordBytes; l.Records > 0 && need > int64(l.Records) {
		add("the records of %d calls take about %s, and %s has %s free", e.Total, formatSize(need), l.RecordsDir, formatSize(int64(l.Records)))
	}
	out = append(out, e.Processes.unmetLimits(s, l)...)
	out = append(append(out, e.Members.unmetLimits(l)...), e.Subjects.unmetLimits(s, l)...)
	out = append(out, limitsBeyond(s, l)...)
	if l.OpenFiles > 0 && uint64(e.OpenFiles) > l.OpenFiles {
		add("about %s are needed, %s held and the connections of clients among them, and the limit is %d: raise it with ulimit -n", unit.Count(e.OpenFiles, "open files"), unit.Count(e.Watches, "watches"), l.OpenFiles)
	}
	return out
}

// limitsBeyond says which limits that a scenario asks for this machine cannot give: they would
// not be in force.
func limitsBeyond(s *scenario.Scenario, l Limits) (out []string) {
	check := func(whose string, cpu float64, memory unit.Bytes) {
		if l.Cores > 0 && cpu > float64(l.Cores) {
			out = append(out, fmt.Sprintf("%s is limited to %s cores, and this machine has %d: the verdict would be unknown", whose, unit.Number(cpu), l.Cores))
		}
		if l.Installed > 0 && uint64(memory) > l.Installed {
			out = append(out, fmt.Sprintf("%s is limited to %s of memory, and this machine has %s: the verdict would be unknown", whose, memory.Human(), unit.Bytes(l.Installed).Human()))
		}
	}
	check("the plane", s.Plane.Limits.CPU, s.Plane.Limits.Memory)
	for _, name := range slices.Sorted(maps.Keys(s.Plane.Components)) {
		c := s.Plane.Components[name]
		check(name, c.CPU, c.Memory)
	}
	for _, x := range s.Subjects {
		check(x.Name, x.Limits.CPU, x.Limits.Memory)
	}
	return out
}

// etcdQuota is what etcd may store, and who says so.
func etcdQuota(s *scenario.Scenario, l Limits) (uint64, string) {
	if text := s.Plane.Components["etcd"].Flags["quota-backend-bytes"]; text != "" {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
			return n, "the scenario's quota-backend-bytes"
		}
	}
	if l.Quota > 0 {
		return l.Quota, "its quota here"
	}
	return DefaultQuota, "its quota"
}

func formatSize(n int64) string { return unit.Bytes(max(0, n)).Human() }
