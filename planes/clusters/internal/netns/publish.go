package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/network"
)

// ErrTaken says that a name stands for something else already.
var ErrTaken = errors.New("name of a namespace is taken")

// Publish gives the namespaces names that ip netns and steps of scenarios know them by: a
// prefix, a hyphen and the name here. A name is a link to this process's descriptor: it
// leads nowhere when the process has ended, however it did, and is then replaced by the
// next that wants it. It returns what takes the names away.
func (t *Topology) Publish(folder, prefix string) (withdraw func() error, err error) {
	made := []string{}
	withdraw = func() error {
		var errs []error
		for _, path := range made {
			errs = append(errs, os.Remove(path))
		}
		return errors.Join(errs...)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { // as ip netns makes it
		return nil, fmt.Errorf("folder of namespaces: %w", err)
	}
	for _, name := range t.Names() {
		path := filepath.Join(folder, prefix+"-"+name)
		if err := publish(path, string(t.At(name))); err != nil {
			return nil, errors.Join(err, withdraw())
		}
		made = append(made, path)
	}
	return withdraw, nil
}

// publish makes a link, in place of one that leads to no namespace any more.
func publish(path, target string) error {
	err := os.Symlink(target, path)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	old, err := os.Readlink(path)
	if err != nil {
		return fmt.Errorf("%w: %s is no link of ours", ErrTaken, path)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err == nil && s.Type == unix.NSFS_MAGIC {
		return fmt.Errorf("%w: %s is %s; end that process, or choose another --prefix", ErrTaken, path, old)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove what a process that was killed has left: %w", err)
	}
	return os.Symlink(target, path)
}

// Collector counts what the devices of all namespaces have sent: packets of VXLAN devices
// are encapsulations.
func (t *Topology) Collector() prometheus.Collector {
	return collector{t, prometheus.NewDesc("link_device_sent_packets_total", "Packets that a device has sent.", []string{"node", "device", "kind"}, nil),
		prometheus.NewDesc("link_device_sent_bytes_total", "Bytes that a device has sent.", []string{"node", "device", "kind"}, nil)}
}

type collector struct {
	topology       *Topology
	packets, bytes *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.packets
	ch <- c.bytes
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
		}
	}
}
