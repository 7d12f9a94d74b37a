package plane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/scenario"
)

// choosePorts gives every process a port, and etcd's members another one for their peers: the
// scenario's, which must be free, or any free one.
func choosePorts(cfg scenario.Plane) (map[string]int, error) {
	names := cfg.Processes()
	for _, member := range cfg.Processes(component.Etcd) {
		names = append(names, peerOf(member))
	}
	out := map[string]int{}
	for _, name := range names {
		flagged, value, ok := portFlag(name, cfg)
		if !ok {
			continue
		}
		port, err := portIn(value)
		if err != nil {
			return nil, fmt.Errorf("%s: flag %s: %w", strings.TrimSuffix(name, "-peer"), flagged, err)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("%s: flag %s: port %d: %w (%w)", strings.TrimSuffix(name, "-peer"), flagged, port, ErrPortTaken, err)
		}
		_ = listener.Close() // nothing was accepted
		out[name] = port
	}
	return out, addFreePorts(out, names)
}

// portFlag returns the flag that sets a port and the scenario's value of it.
func portFlag(name string, cfg scenario.Plane) (flagged, value string, ok bool) {
	flagged = "secure-port"
	member, peer := strings.CutSuffix(name, peerOf(""))
	if peer {
		flagged = "listen-peer-urls"
	} else if component.Is(name, component.Etcd) {
		flagged = "listen-client-urls"
	}
	value, ok = valueOf(cfg.SettingsOf(member).Flags, flagged)
	return flagged, value, ok
}

// portIn reads a port, or that of the first of some URLs.
func portIn(value string) (int, error) {
	text := value
	if first, _, _ := strings.Cut(value, ","); strings.Contains(first, "://") {
		u, err := url.Parse(first)
		if err != nil {
			return 0, fmt.Errorf("%q is not a URL: %w", first, err)
		}
		if u.Scheme != "https" {
			return 0, fmt.Errorf("%q: etcd is reached over https", first)
		}
		text = u.Port()
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("%q holds no port from 1 to 65535", value)
	}
	return port, nil
}

// addFreePorts completes out. The ports are held until all are found, so that
// no two are the same.
func addFreePorts(out map[string]int, names []string) error {
	taken := map[int]bool{}
	for _, port := range out {
		taken[port] = true
	}
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // nothing was accepted
		}
	}()
	low := lowestEphemeral()
	for _, name := range names {
		for out[name] == 0 {
			listener, err := listenBelow(low)
			if err != nil {
				return fmt.Errorf("find a free port: %w", err)
			}
			held = append(held, listener)
			if addr, ok := listener.Addr().(*net.TCPAddr); ok && !taken[addr.Port] {
				out[name] = addr.Port
			}
		}
	}
	return nil
}

// lowestPort is where the search for ports begins: below are those of services.
const lowestPort = 10000

// listenBelow listens on a random port below those that the kernel gives to
// outgoing connections: the components open thousands of those, and one of them
// could take the port of a component that is not up yet or that is restarted.
// Where that range leaves no room, the kernel chooses.
func listenBelow(low int) (net.Listener, error) {
	for range 100 {
		port := 0
		if low > lowestPort+1000 {
			port = lowestPort + rand.IntN(low-lowestPort)
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", net.JoinHostPort(loopback, "0"))
}

// lowestEphemeral returns the first port of outgoing connections; 0 if unknown.
func lowestEphemeral() int {
	low, _ := ephemeralPorts()
	return low
}

// PortsGivenOut is how many ports there are for listeners whose port does not matter,
// and for outgoing connections; 0 if unknown.
func PortsGivenOut() int {
	low, high := ephemeralPorts()
	return max(0, high-min(low, lowestPort)) // from services' ports on
}

// ephemeralPorts are the first and the last port of outgoing connections; 0 if unknown.
func ephemeralPorts() (low, high int) {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0
	}
	if _, err := fmt.Sscan(string(raw), &low, &high); err != nil {
		return 0, 0
	}
	return low, high
}

// lostPort says whether a start failed because somebody took a port between
// its choice and its use.
func lostPort(err error) bool {
	var death *process.DeathError
	return errors.As(err, &death) && strings.Contains(strings.Join(death.Lines, "\n"), "address already in use")
}
