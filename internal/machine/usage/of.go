package usage

import "github.com/windtunnel/windtunnel/internal/clock"

// Usage is what a process has used until now.
type Usage struct {
	CPUSeconds     float64 // user and system, of all threads, to 10 ms
	Resident, Peak uint64  // bytes
}

// Of reads what a process has used until now, once; Sampler does so again and
// again. The error is ErrGone, wrapped, when the process has ended.
func Of(pid int) (Usage, error) {
	u, err := readUsage(pid, func() clock.Time { return 0 })
	return Usage{CPUSeconds: u.cpu, Resident: u.resident, Peak: u.peak}, err
}

// Busy returns the seconds for which the machine's cores have worked for anybody
// until now, those stolen by other machines among them; 0 where it cannot be read.
func Busy() float64 {
	sum := 0.0
	for mode, v := range hostSeconds() {
		if mode != "idle" && mode != "iowait" {
			sum += v
		}
	}
	return sum
}

// IsWork tells whether cores in a mode of HostTimes work for this machine: they neither
// rest nor are stolen by others.
func IsWork(mode string) bool { return mode != "idle" && mode != "iowait" && mode != "steal" }

// HostTimes returns the seconds of all cores until now by what they did: user,
// nice, system, idle, iowait, irq, softirq, steal; nothing where it cannot be
// read.
func HostTimes() map[string]float64 { return hostSeconds() }
