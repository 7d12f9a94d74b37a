package hollow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// taker is a client that takes pieces of an answer, so many, and then nothing.
type taker struct {
	*httptest.ResponseRecorder
	t      *testing.T
	until  time.Time
	takes  int
	large  int // the longest piece
	pieces int
}

func (s *taker) SetWriteDeadline(t time.Time) error { s.until = t; return nil }

func (s *taker) Write(b []byte) (int, error) {
	s.large = max(s.large, len(b))
	s.pieces++
	if left := time.Until(s.until); left > time.Minute || left < 20*time.Second { // and not 30: the machine may be busy
		s.t.Errorf("piece %d may take %v", s.pieces, left)
	}
	if s.pieces > s.takes {
		return 0, os.ErrDeadlineExceeded
	}
	return s.ResponseRecorder.Write(b)
}

// A watch that is behind sends what it has missed in pieces, whole and in order, each
// of which has a minute at most; one whose client takes nothing ends.
func TestWatchesThatAreBehind(t *testing.T) {
	const updates, longest = 400, 128 << 10
	d := directly(t)
	d.must("POST", mapsPath, "application/json", `{"metadata":{"name":"m"}}`)
	for i := range updates {
		size := 1000
		if i%50 == 0 {
			size = 100_000
		}
		d.must("PATCH", mapsPath+"/m", "application/merge-patch+json", fmt.Sprintf(`{"data":{"i":"%d","x":%q}}`, i, strings.Repeat("x", size)))
	}
	watch := func(takes int, timeout int) *taker {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/clusters/c%s?watch=true&resourceVersion=1&timeoutSeconds=%d", mapsPath, timeout), nil)
		r.Header.Set("Authorization", "Bearer t")
		w := &taker{ResponseRecorder: httptest.NewRecorder(), t: t, takes: takes}
		d.s.ServeHTTP(w, r)
		return w
	}
	if w := watch(0, 3000); w.pieces != 1 || w.large > longest {
		t.Errorf("a client that takes nothing was handed %d pieces, the longest of %d bytes", w.pieces, w.large)
	}
	w := watch(1e9, 1)
	if w.large > longest || w.pieces < 10 {
		t.Errorf("%d pieces, the longest of %d bytes", w.pieces, w.large)
	}
	next := 0
	for in := json.NewDecoder(w.Body); ; {
		var e struct {
			Object struct{ Data struct{ I string } }
		}
		if err := in.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if got := e.Object.Data.I; got != "" {
			if got != fmt.Sprint(next) {
				t.Fatalf("update %s came, want %d", got, next)
			}
			next++
		}
	}
	if next != updates {
		t.Errorf("%d of %d updates came", next, updates)
	}
}
