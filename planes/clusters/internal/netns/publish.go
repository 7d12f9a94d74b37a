package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/machine/network"
)

// ErrTaken says that a name stands for something else already.
var ErrTaken = errors.New("name of a namespace is taken")

// Publish gives the namespaces names that ip netns and steps of scenarios know them by: a
// prefix, a hyphen and the name here. A name is a link to this process's descriptor: it
// leads nowhere when the process has ended, however it did; the next process that publishes
// anything there removes it. It returns what takes the names away.
func (t *Topology) Publish(folder, prefix string) (withdraw func() error, err error) {
	made := []string{}
	withdraw = func() error {
		var errs []error
		for _, path := range made {
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { // as ip netns makes it
		return nil, fmt.Errorf("folder of namespaces: %w", err)
	}
	if err := removeStaleLinks(folder); err != nil {
		return nil, err
	}
	for _, name := range t.Names() {
		path := filepath.Join(folder, prefix+"-"+name)
		if err := makeLink(path, string(t.At(name))); err != nil {
			return nil, errors.Join(err, withdraw())
		}
		made = append(made, path)
	}
	return withdraw, nil
}

// removeStaleLinks removes the names of processes that were killed, under whichever prefix. Only links
// to descriptors of processes are ours: nobody else makes names of that form.
func removeStaleLinks(folder string) error {
	all, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("folder of namespaces: %w", err)
	}
	for _, e := range all {
		path := filepath.Join(folder, e.Name())
		target, err := os.Readlink(path)
		if err != nil {
			continue // no link, or gone meanwhile
		}
		if ours, _ := filepath.Match("/proc/*/fd/*", target); !ours || isNamespace(path) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what a process that was killed has left: %w", err)
		}
	}
	return nil
}

// isNamespace says that a name leads to a namespace.
func isNamespace(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Type == unix.NSFS_MAGIC
}

// makeLink makes a link where there is nothing.
func makeLink(path, target string) error {
	err := os.Symlink(target, path)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if old, err := os.Readlink(path); err == nil {
		return fmt.Errorf("%w: %s is %s; end that process, or choose another --prefix", ErrTaken, path, old)
	}
	return fmt.Errorf("%w: %s is no link of ours", ErrTaken, path)
}

// Collector counts what the devices of all namespaces have sent and dropped: packets of
// VXLAN devices are encapsulations.
func (t *Topology) Collector() prometheus.Collector {
	desc := func(what, help string) *prometheus.Desc {
		return prometheus.NewDesc("link_device_"+what+"_total", help, []string{"node", "device", "kind"}, nil)
	}
	return collector{t, desc("sent_packets", "Packets that a device has sent."), desc("sent_bytes", "Bytes that a device has sent."),
		desc("dropped_packets", "Packets that a device has dropped, on their way in or out.")}
}

type collector struct {
	topology                *Topology
	packets, bytes, dropped *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.packets
	ch <- c.bytes
	ch <- c.dropped
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, name := range c.topology.Names() {
		devices, err := network.Devices(c.topology.At(name))
		if err != nil {
			ch <- prometheus.NewInvalidMetric(c.packets, err)
			continue
		}
		for _, d := range devices {
			ch <- prometheus.MustNewConstMetric(c.packets, prometheus.CounterValue, float64(d.SentPackets), name, d.Name, d.Kind)
			ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.CounterValue, float64(d.SentBytes), name, d.Name, d.Kind)
			ch <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(d.SentDropped+d.ReceivedDropped), name, d.Name, d.Kind)
		}
	}
}
