package network

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// enterNamespace moves the calling thread into the namespace that a file stands for.
func enterNamespace(file *os.File) error { return unix.Setns(int(file.Fd()), unix.CLONE_NEWNET) }

// unshareNamespace makes the namespace by moving the calling thread there.
func (h *Held) unshareNamespace() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("%w: make a namespace: %w", ErrNetwork, err)
	}
	file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return fmt.Errorf("%w: hold a namespace: %w", ErrNetwork, err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: raise the loopback of a namespace: %w", ErrNetwork, err), file.Close())
	}
	h.file = file
	return nil
}
