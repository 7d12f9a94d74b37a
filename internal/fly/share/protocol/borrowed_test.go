package protocol

import (
	"errors"
	"io"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestLentBytesAreTakenBack(t *testing.T) {
	l := &borrowedBytes{bytes: []byte("records")}
	for range 2 { // a request that is sent again reads them from their begin
		body := repotest.Must(l.openReader())(t)
		if read, err := io.ReadAll(body); err != nil || string(read) != "records" {
			t.Errorf("read %q, %v", read, err)
		}
	}
	body := repotest.Must(l.openReader())(t)
	l.takeBack()
	if n, err := body.Read(make([]byte, 8)); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d bytes were read after they were taken back: %v", n, err)
	}
}
