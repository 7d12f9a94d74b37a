package usage

import (
	"bytes"
	"os"
	"runtime"
	"strings"

	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Machine says what machine this is. What cannot be found out is empty.
func Machine() record.Machine {
	m := record.Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Cgroup: cgroupVersion("/")}
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(raw)
	}
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.MemoryBytes = parseKilobytes(raw, "MemTotal:")
	}
	if raw, err := os.ReadFile("/etc/os-release"); err == nil {
		if name := osName(raw); name != "" {
			m.OS = name
		}
	}
	m.Kernel = kernel.Release()
	return m
}

// cpuModel takes the first processor's model from /proc/cpuinfo, under the
// names that x86, arm and others have for it.
func cpuModel(raw []byte) string {
	for _, name := range []string{"model name", "Model", "Processor", "cpu model", "uarch"} {
		for line := range strings.Lines(string(raw)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				return strings.TrimSpace(value)
			}
		}
	}
	return ""
}

// osName takes PRETTY_NAME from /etc/os-release.
func osName(raw []byte) string {
	_, rest, ok := bytes.Cut(raw, []byte("PRETTY_NAME="))
	if !ok {
		return ""
	}
	line, _, _ := strings.Cut(string(rest), "\n")
	return strings.Trim(line, `"' `)
}

// cgroupVersion looks at what is mounted below root: the unified hierarchy has
// cgroup.controllers in its root, the old one a folder for each controller.
func cgroupVersion(root string) string {
	base := strings.TrimSuffix(root, "/") + "/sys/fs/cgroup"
	if _, err := os.Stat(base + "/cgroup.controllers"); err == nil {
		return "v2"
	}
	for _, controller := range []string{"cpu", "memory", "cpu,cpuacct"} {
		if _, err := os.Stat(base + "/" + controller); err == nil {
			return "v1"
		}
	}
	return "none"
}
