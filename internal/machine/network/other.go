//go:build !linux

package network

import (
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// A path is measured on Linux: by the kernel's stamps of packets and its counters.
func onlyLinux() error { return kernel.Require("measuring a path") }

// Try returns why no network of namespaces can be built here.
func Try() error { return kernel.Require("a network of namespaces") }

// TryIPv6 returns why no network of namespaces can be built here.
func TryIPv6() error { return Try() }

func enterNamespace(*os.File) error { return onlyLinux() }

func (*Held) unshareNamespace() error { return onlyLinux() }

func (echoSocket) openSocket(End, netip.AddrPort) (int, error) { return 0, onlyLinux() }

func receivePacket(int, []byte, []byte) (int, time.Time, error) { return 0, time.Time{}, onlyLinux() }

func sendPacket(int, []byte) error { return onlyLinux() }

func closeSocket(int) error { return nil }

func isPacketLoss(error) bool { return false }

func serveEchoes(End, []byte) (*echoServer, error) { return nil, onlyLinux() }

func (*echoServer) end() {}

func tcpInfo(*net.TCPConn) (connection, error) { return connection{}, onlyLinux() }
