package wire_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestTraffic(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's count is known on Linux only")
	}
	const size = 100_000
	_, e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("a", size))) }))
	c := repotest.Must(wire.New(e, wire.Options{Clock: clock.Start()}))(t)
	defer c.Close()
	if got := c.Traffic(); len(got) != 0 {
		t.Errorf("traffic before the first call: %+v", got)
	}
	for range 10 {
		if r, err := c.Do(t.Context(), &wire.Request{Method: http.MethodGet, Path: "/x"}); err != nil || len(r.Body) != size {
			t.Fatal(err)
		}
	}
	var got []wire.Traffic
	repotest.Eventually(t, "the last acknowledgement", func() bool {
		got = c.Traffic()
		return len(got) == 1 && got[0].Received >= 10*size
	})
	if len(got) != 1 || got[0].Received < 10*size || got[0].Received > 11*size || got[0].Sent < 300 || got[0].Sent > size {
		t.Errorf("%+v after 10 answers of %d bytes", got, size)
	}
}
