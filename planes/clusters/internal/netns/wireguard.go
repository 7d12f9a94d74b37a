package netns

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// The device of what is encrypted between gateways, in place of link.Bridge.
const (
	secret         = "wg0"
	secretPort     = 51820
	secretOverhead = 80 // bytes, as wg-quick counts: 40 of IPv6, 8 of UDP, 32 of WireGuard
	secretSettle   = 25 // seconds between packets that keep a way open
)

// end is one end of a tunnel.
type end struct {
	at     network.Namespace
	ip     netip.Addr     // of the machine, that its packets go to
	inner  netip.Addr     // of the device
	behind []netip.Prefix // what the other end sends here
	key    *ecdh.PrivateKey
}

// openTunnel joins two machines by WireGuard in user space, in this process: a kernel need
// not have it. What it returns ends it.
func openTunnel(a, b *end) (close func(), err error) {
	for _, e := range []*end{a, b} {
		if e.key, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	}
	one, err := a.openDevice(b)
	if err != nil {
		return nil, err
	}
	other, err := b.openDevice(a)
	if err != nil {
		one.Close()
		return nil, err
	}
	return func() {
		one.Close()
		other.Close()
	}, nil
}

// openDevice makes the device of an end.
func (e *end) openDevice(peer *end) (*device.Device, error) {
	var t tun.Device
	err := e.at.Do(func() (err error) {
		t, err = tun.CreateTUN(secret, linkMTU-secretOverhead)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", secret, err)
	}
	d := device.NewDevice(fixed{t}, &within{conn.NewDefaultBind(), e.at}, &device.Logger{Verbosef: device.DiscardLogf, Errorf: device.DiscardLogf})
	err = errors.Join(d.IpcSet(e.deviceSettings(peer)), d.Up(), e.at.Do(func() error {
		return errors.Join(addAddress(secret, hostPrefix(e.inner)), loosenPathFilter(secret), addRoute(hostPrefix(peer.inner), "", secret))
	}))
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("device %s: %w", secret, err)
	}
	return d, nil
}

// deviceSettings are a device's, as its configuration protocol has them.
func (e *end) deviceSettings(peer *end) string {
	var b strings.Builder
	fmt.Fprintf(&b, "private_key=%s\nlisten_port=%d\n", hex.EncodeToString(e.key.Bytes()), secretPort)
	fmt.Fprintf(&b, "public_key=%s\nendpoint=%s\npersistent_keepalive_interval=%d\n",
		hex.EncodeToString(peer.key.PublicKey().Bytes()), netip.AddrPortFrom(peer.ip, secretPort), secretSettle)
	for _, p := range append([]netip.Prefix{netip.PrefixFrom(peer.inner, peer.inner.BitLen())}, peer.behind...) {
		fmt.Fprintf(&b, "allowed_ip=%s\n", p)
	}
	return b.String()
}

// within opens sockets in a namespace, whoever asks for them.
type within struct {
	conn.Bind
	at network.Namespace
}

// Open implements conn.Bind.
func (w *within) Open(port uint16) (fns []conn.ReceiveFunc, actual uint16, err error) {
	err = w.at.Do(func() (err error) {
		fns, actual, err = w.Bind.Open(port)
		return err
	})
	return fns, actual, err
}

// fixed is a device whose MTU is known: to ask the kernel for it, one has to be in its
// namespace.
type fixed struct{ tun.Device }

// MTU implements tun.Device.
func (fixed) MTU() (int, error) { return linkMTU - secretOverhead, nil }

// encryptConfigs joins the gateways by a tunnel, and has the configurations use it.
func (t *Topology) encryptConfigs(configs map[string]*link.Config) error {
	behind := map[string][]netip.Prefix{}
	for _, c := range t.Clusters() {
		behind[c.Name] = c.PodCIDRs
	}
	var ends []*end
	for _, m := range t.options.bothMachines() {
		for _, d := range configs[m.Name].Devices {
			if d.Name != link.Bridge {
				continue
			}
			inner, err := netip.ParsePrefix(d.Addr)
			if err != nil {
				return fmt.Errorf("device %s: %w", d.Name, err)
			}
			ends = append(ends, &end{at: t.At(m.Name), ip: m.IP, inner: inner.Addr(), behind: behind[m.Cluster]})
		}
		configs[m.Name] = encryptConfig(configs[m.Name])
	}
	stop, err := openTunnel(ends[0], ends[1])
	if err != nil {
		return err
	}
	t.ends = append(t.ends, stop)
	return nil
}

// encryptConfig is a configuration whose way between clusters is the tunnel.
func encryptConfig(c *link.Config) *link.Config {
	out := &link.Config{FDBs: withoutBridge(c.FDBs), ARPs: withoutBridge(c.ARPs)}
	for _, d := range c.Devices {
		if d.Name != link.Bridge {
			out.Devices = append(out.Devices, d)
		}
	}
	for _, r := range c.Routes {
		if r.Dev == link.Bridge {
			r.Dev, r.GW = secret, "" // whoever is behind it is known to the tunnel
		}
		out.Routes = append(out.Routes, r)
	}
	for _, r := range c.IPTables {
		r.Rule = strings.ReplaceAll(r.Rule, "-o "+link.Bridge, "-o "+secret)
		out.IPTables = append(out.IPTables, r)
	}
	return out
}

// withoutBridge leaves out the neighbours behind the device between clusters.
func withoutBridge(all []link.Neighbour) (out []link.Neighbour) {
	for _, n := range all {
		if n.Dev != link.Bridge {
			out = append(out, n)
		}
	}
	return out
}
