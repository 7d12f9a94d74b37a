package doctor

import (
	"fmt"
	"os"

	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// maxPort is the highest port that there is.
const maxPort = 65535

// CheckListeners says why this process cannot listen at n ports, from a first one on or,
// where that is 0, at any that are free; nil: nothing is known that is in the way.
func CheckListeners(n, first int) error {
	var f Facts
	f.readFiles(os.DirFS("/"))
	f.OpenFiles = Limit(kernel.OpenFiles())
	return f.checkListeners(n, first)
}

func (f Facts) checkListeners(n, first int) error {
	most := int64(f.OpenFiles.Hard) - spareFiles
	switch {
	case f.OpenFiles.Hard > 0 && int64(n) > most:
		return fmt.Errorf("each has a port of its own, which is an open file: this process may have %s, of which %d are for the rest (`ulimit -Hn` shows the limit)", unit.Count(f.OpenFiles.Hard, "open files"), spareFiles)
	case first > 0 && first+n-1 > maxPort:
		left := maxPort - first + 1
		return fmt.Errorf("from port %d on there %s %s", first, unit.Verb(left, "is", "are"), unit.Count(left, "ports"))
	case first == 0 && f.Ports > 0 && n > f.Ports:
		return fmt.Errorf("each has a port of its own, and this machine gives out %d (`sysctl net.ipv4.ip_local_port_range`)", f.Ports)
	}
	return nil
}
