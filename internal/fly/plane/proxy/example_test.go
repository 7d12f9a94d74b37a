package proxy_test

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
)

// A server that is 30 ms away, as seen by a client that connects to the proxy.
func ExampleStart() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn) // until the client ends
	}()

	r, err := proxy.Start(proxy.Options{To: server.Addr().String()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	if err := r.Emulate(proxy.Link{RoundTrip: 30 * time.Millisecond}); err != nil {
		fmt.Println(err)
		return
	}
	begin := time.Now() // before the dial: whoever is held up behind it has waited, too
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "hello")
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	// The handshake of TCP is a round trip, the question another.
	fmt.Println(string(answer), err, time.Since(begin) >= 60*time.Millisecond)
	fmt.Println(r.Stats().Up.Bytes, "bytes")
	// Output:
	// hello <nil> true
	// 5 bytes
}
