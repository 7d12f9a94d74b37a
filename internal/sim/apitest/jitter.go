package apitest

import (
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

// withJitter makes requests and the events of watches late by chance, by up to the duration
// in WINDTUNNEL_JITTER (make test-jitter), as those of a busy machine are: one of a
// watch may come seconds after what another one brought. A test that fails then takes
// it for granted that its subject has seen what it has seen itself.
func withJitter(h http.Handler) http.Handler {
	most, err := time.ParseDuration(os.Getenv("WINDTUNNEL_JITTER"))
	if err != nil || most <= 0 {
		return h
	}
	late := func(share float64) {
		if rand.Float64() < share {
			time.Sleep(rand.N(most))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isWatch(r) {
			h.ServeHTTP(&lateWriter{w, late}, r)
			return
		}
		late(0.2)
		h.ServeHTTP(w, r)
		if r.Method != http.MethodGet {
			late(0.2)
		}
	})
}

// lateWriter hands on the events of a watch.
type lateWriter struct {
	http.ResponseWriter
	late func(share float64)
}

func (w *lateWriter) Write(b []byte) (int, error) {
	w.late(0.5)
	return w.ResponseWriter.Write(b)
}

func (w *lateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
