package peers

import (
	"io"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestIsCut(t *testing.T) {
	for _, c := range []struct {
		cut      []string
		from, to string
		want     bool
	}{
		{nil, "a", "b", false},
		{[]string{"a"}, "a", "b", true},
		{[]string{"a"}, "b", "a", true},
		{[]string{"a"}, "b", "c", false},
		{[]string{"a", "b"}, "a", "b", true}, // each is cut from all others
		{[]string{"a", "b"}, "c", "b", true},
	} {
		cut := map[string]bool{"c": false}
		for _, member := range c.cut {
			cut[member] = true
		}
		if got := (pair{c.from, c.to}).isCut(cut); got != c.want {
			t.Errorf("%v are cut: %s to %s is cut: %v", c.cut, c.from, c.to, got)
		}
	}
}

// The owner of a connection is found while other connections of the machine come and go.
func TestOwnerAmongOthers(t *testing.T) {
	address, _ := listen(t)
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var open []net.Conn
		for {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			if open = append(open, conn); len(open) > 100 {
				_ = open[0].(*net.TCPConn).SetLinger(0) // leaves no port in TIME_WAIT
				_ = open[0].Close()
				open = open[1:]
			}
			select {
			case <-stop:
				for _, conn := range open {
					_ = conn.(*net.TCPConn).SetLinger(0)
					_ = conn.Close()
				}
				return
			default:
			}
		}
	}()
	for range 200 {
		conn := repotest.Must(net.Dial("tcp", address))(t)
		owner, err := ownerOf(conn.LocalAddr(), conn.RemoteAddr(), []string{"a", "b"}, func(member string) int {
			return map[string]int{"a": 1 << 30, "b": os.Getpid()}[member]
		})
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
		if owner != "b" {
			t.Errorf("owner %q, %v: want b", owner, err)
			break
		}
	}
	close(stop)
	<-ended
}

// listen is a member that hands over what it reads.
func listen(t *testing.T) (address string, read chan byte) {
	t.Helper()
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	read = make(chan byte, 10)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				var one [1]byte
				for {
					if _, err := io.ReadFull(conn, one[:]); err != nil {
						return
					}
					read <- one[0]
				}
			}()
		}
	}()
	return l.Addr().String(), read
}

// The test's process is member a. Of the bytes that it sends to a member that is cut from the
// others none arrives before it joins them again; those to the other members do.
func TestNetwork(t *testing.T) {
	addresses, reads := map[string]string{}, map[string]chan byte{}
	for _, member := range []string{"a", "b", "c"} {
		addresses[member], reads[member] = listen(t)
	}
	n, err := Start(Options{
		Members: []string{"a", "b", "c"}, Listens: func(member string) string { return addresses[member] },
		Process: func(member string) int { return map[string]int{"a": os.Getpid()}[member] },
	})
	if err != nil {
		t.Skip(err) // not on Linux
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	conns, lost := map[string]net.Conn{}, make(chan error, 2)
	for _, member := range []string{"b", "c"} {
		conn := repotest.Must(net.Dial("tcp", n.Addr(member)))(t)
		defer conn.Close()
		conns[member] = conn
		go func() { // nothing is ever sent back: a reset ends the wait for a byte that will not come
			_, err := conn.Read(make([]byte, 1))
			lost <- err
		}()
	}
	send := func(what byte, members ...string) {
		t.Helper()
		for _, member := range members {
			if _, err := conns[member].Write([]byte{what}); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(member string, want byte) {
		t.Helper()
		select {
		case got := <-reads[member]:
			if got != want {
				t.Errorf("%s has read %c, want %c", member, got, want)
			}
		case err := <-lost:
			t.Fatalf("the connection to %s is lost: %v", member, err)
		}
	}
	send('1', "b", "c")
	expect("b", '1')
	expect("c", '1')
	n.Cut("c")
	send('2', "c", "b")
	expect("b", '2')
	n.Cut("b")
	n.Join("c")
	expect("c", '2')
	select {
	case got := <-reads["b"]:
		t.Errorf("b has read %c", got)
	default:
	}
	n.Cut("a") // a is cut from c as well
	n.Join("b")
	send('3', "b", "c")
	n.Join("a")
	expect("b", '3')
	expect("c", '3')
}

// A client that is no member is reset.
func TestStranger(t *testing.T) {
	address, _ := listen(t)
	n, err := Start(Options{
		Members: []string{"a", "b"}, Listens: func(string) string { return address },
		Process: func(member string) int { return map[string]int{"b": 1 << 30}[member] },
	})
	if err != nil {
		t.Skip(err)
	}
	defer n.Close()
	conn, err := net.Dial("tcp", n.Addr("a"))
	if err != nil {
		return // reset before the connection was seen to be there
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err == nil || len(got) > 0 {
		t.Errorf("read %q, %v: want a reset", strconv.Quote(string(got)), err)
	}
}
