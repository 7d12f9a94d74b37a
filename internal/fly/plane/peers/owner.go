package peers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// errNoOwner says that no member holds a connection.
var errNoOwner = errors.New("it is no member's")

// ownerOf returns the member whose process holds the client's end of a connection between two
// addresses of this machine.
func ownerOf(client, server net.Addr, members []string, process func(member string) int) (string, error) {
	socket, err := socketOf(client, server)
	if err != nil {
		return "", fmt.Errorf("find who connects from %v: %w", client, err)
	}
	for _, member := range members {
		if pid := process(member); pid > 0 && holds(pid, socket) {
			return member, nil
		}
	}
	return "", fmt.Errorf("connection from %v: %w", client, errNoOwner)
}

// holds tells whether a process has a socket open.
func holds(pid int, inode uint32) bool {
	socket := fmt.Sprintf("socket:[%d]", inode)
	folder := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false // it has ended
	}
	for _, e := range entries {
		if to, err := os.Readlink(folder + e.Name()); err == nil && to == socket {
			return true
		}
	}
	return false
}
