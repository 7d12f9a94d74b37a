// Package network measures a path between two addresses: how long an echo takes, how
// much a stream carries, and what the devices on the way count. Both ends are its
// own and may be in network namespaces of this machine; one may be another process, on
// another machine (Answer).
//
// It builds no network and judges nothing: package record keeps what it measured, package
// slo says what that means.
package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// ErrNetwork says that an end of a path could not be used.
var ErrNetwork = errors.New("network")

// named is the folder that ip netns keeps namespaces in.
const named = "/run/netns"

// Namespace is a network namespace: a name as ip netns has it, or the path of a file
// that stands for one. Empty: the caller's own.
type Namespace string

// filePath is the file that stands for the namespace.
func (n Namespace) filePath() string {
	if strings.HasPrefix(string(n), "/") {
		return string(n)
	}
	return filepath.Join(named, filepath.Base(string(n)))
}

// Do does something on a thread that is in the namespace. Sockets that it opens stay there.
func (n Namespace) Do(do func() error) error {
	if n == "" {
		return do()
	}
	file, err := os.Open(n.filePath())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no namespace %s", ErrNetwork, n)
	}
	if err != nil {
		return fmt.Errorf("%w: open namespace: %w", ErrNetwork, err)
	}
	defer file.Close()
	done := make(chan error, 1)
	guard.Go(func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine, so that nobody else gets it
		if err := enterNamespace(file); err != nil {
			done <- fmt.Errorf("%w: enter namespace %s: %w", ErrNetwork, n, err)
			return
		}
		done <- do()
	})
	return <-done
}

// Held is a namespace that lives as long as this process, at the longest: a descriptor
// alone holds it, so that nothing of it is left behind however the process ends.
type Held struct{ file *os.File }

// NewNamespace makes one, with its loopback up. It needs CAP_SYS_ADMIN.
func NewNamespace() (*Held, error) {
	h := &Held{}
	done := make(chan error, 1)
	guard.Go(func() {
		runtime.LockOSThread() // and never unlock, as in Do
		done <- h.unshareNamespace()
	})
	return h, <-done
}

// Namespace is what others call it, in other processes too.
func (h *Held) Namespace() Namespace {
	return Namespace(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.file.Fd()))
}

// Close lets go of it. It is gone with its devices when nobody else holds it.
func (h *Held) Close() error { return h.file.Close() }
