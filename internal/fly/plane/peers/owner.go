package peers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// errNoOwner says that no member holds a connection.
var errNoOwner = errors.New("it is no member's")

// ownerOf returns the member whose process holds a connection from an address of this machine.
func ownerOf(client net.Addr, members []string, process func(member string) int) (string, error) {
	at, ok := client.(*net.TCPAddr)
	if !ok {
		return "", fmt.Errorf("connection from %v: %w", client, errNoOwner)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	socket, ok := socketAt(string(table), at)
	if !ok {
		return "", fmt.Errorf("connection from %v: %w", client, errNoOwner)
	}
	for _, member := range members {
		if pid := process(member); pid > 0 && holds(pid, socket) {
			return member, nil
		}
	}
	return "", fmt.Errorf("connection from %v: %w", client, errNoOwner)
}

// Columns of /proc/net/tcp (proc(5)): addresses are hexadecimal, the bytes of an IPv4 address in
// the machine's order, and the last one is the inode.
const (
	localColumn = 1
	inodeColumn = 9
)

// socketAt returns the inode of the socket whose local address is this one.
func socketAt(table string, at *net.TCPAddr) (inode string, ok bool) {
	ip := at.IP.To4()
	if ip == nil {
		return "", false
	}
	want := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], at.Port)
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > inodeColumn && fields[localColumn] == want && fields[inodeColumn] != "0" {
			return fields[inodeColumn], true
		}
	}
	return "", false
}

// holds tells whether a process has a socket open.
func holds(pid int, inode string) bool {
	folder := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false // it has ended
	}
	for _, e := range entries {
		if to, err := os.Readlink(folder + e.Name()); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
