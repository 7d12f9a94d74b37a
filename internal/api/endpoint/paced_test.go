package endpoint_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/apitest"
)

// A server that sends without end is read slowly after a while.
func TestClientIsPaced(t *testing.T) {
	const want, free, rate = 80 << 20, 64 << 20, 16 << 20
	ep := apitest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for some := make([]byte, 1<<20); ; {
			if _, err := w.Write(some); err != nil {
				return
			}
		}
	}))
	client, base, err := ep.Client()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	answer, err := client.Get(base.String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.CopyN(io.Discard, answer.Body, want); err != nil || time.Since(begin) < time.Second*(want-free)/rate*9/10 {
		t.Errorf("%d bytes in %v, %v", n, time.Since(begin), err)
	}
}
