package profile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// serve serves this test's own profiles, as a component does.
func serve(t *testing.T) (url string, client *http.Client) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, s.Client()
}

// A component's profiles are kept, but for empty ones.
func TestProfilesAreKept(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	fightForALock()
	url, client := serve(t)
	dir := t.TempDir()
	target := Target{Name: "kube-scheduler", URL: url, Client: client}
	repotest.NoError(t, target.takeProfiles(t.Context(), Options{Folder: filepath.Join(dir, Folder)}))
	for _, kind := range []string{"block", "goroutine"} {
		info, err := os.Stat(filepath.Join(dir, Folder, "kube-scheduler."+kind+".pb.gz"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", kind, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, Folder, "kube-scheduler.mutex.pb.gz")); err == nil {
		t.Error("an empty profile was kept")
	}
}

func fightForALock() {
	var lock sync.Mutex
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			lock.Lock()
			time.Sleep(10 * time.Millisecond)
			lock.Unlock()
		})
	}
	wait.Wait()
}

// What cannot be had is an error that says what it was, and nothing is left.
func TestWhatCannotBeHad(t *testing.T) {
	for says, handler := range map[string]http.HandlerFunc{
		"403 Forbidden: not for you": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not for you", http.StatusForbidden) },
		"profile cpu":                func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("no profile")) },
		"more than":                  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxProfile+10)) },
	} {
		s := httptest.NewServer(handler)
		folder := filepath.Join(t.TempDir(), Folder)
		err := Target{Name: "etcd", URL: s.URL, Client: s.Client()}.takeProfiles(t.Context(), Options{Folder: folder})
		s.Close()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v lacks %q", err, says)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s: something was kept", says)
		}
	}
}

// A component is looked at when it is busy, not while it is idle, not again for
// half a minute, and not after it has said no.
func TestOnlyWhileBusy(t *testing.T) {
	for _, c := range []struct {
		what  string
		limit float64
		cores func(second int) float64
		code  int
		want  string // the seconds at which it was asked
	}{
		{"idle", 0, func(int) float64 { return 0.1 }, 500, ""},
		{"busy at last", 0, func(s int) float64 { return float64(s/10) * 0.6 }, 500, "11s"},
		{"at its limit", 0.2, func(int) float64 { return 0.19 }, 500, "1s"},
		{"busy all the time", 0, func(int) float64 { return 1 }, 200, "1s 32s 1m3s 1m34s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var asked []string
			target := Target{Name: "etcd", URL: "http://etcd", Limit: c.limit, CPU: func() (float64, error) {
				sum := 0.0
				for s := range int(time.Since(begin).Seconds()) {
					sum += c.cores(s)
				}
				return sum, nil
			}}
			target.Client = &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "/profile") {
					asked = append(asked, time.Since(begin).String())
				}
				w := httptest.NewRecorder()
				w.WriteHeader(c.code)
				_, _ = w.Write(emptyProfile(t))
				return w.Result(), nil
			})}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			Run(ctx, []Target{target}, Options{Folder: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
			if got := strings.Join(asked, " "); got != c.want {
				t.Errorf("%s: asked at %q, want %q", c.what, got, c.want)
			}
		})
	}
}

// Whoever has ended is looked at no more, and Run returns.
func TestTheEndOfAComponent(t *testing.T) {
	Run(t.Context(), []Target{{Name: "etcd", CPU: func() (float64, error) { return 0, errors.New("it has ended") }}}, Options{})
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func emptyProfile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	repotest.NoError(t, minimal().Write(&b))
	return b.Bytes()
}

func minimal() *profile.Profile {
	return &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, PeriodType: &profile.ValueType{}}
}
