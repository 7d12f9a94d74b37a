package subject_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/subject"
)

// faulty answers some calls by itself; what it says nothing to goes on.
type faulty struct {
	*server
	answer func(*wire.Request) (*wire.Response, error)
}

func (f faulty) Do(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	if out, err := f.answer(req); out != nil || err != nil {
		return out, err
	}
	return f.server.Do(ctx, req)
}

// TestADeletionIsRepeated lets the first deletions fail in all the ways there are.
func TestADeletionIsRepeated(t *testing.T) {
	for name, first := range map[string]func() (*wire.Response, error){
		"lost":            func() (*wire.Response, error) { return nil, errors.New("lost") },
		"busy":            func() (*wire.Response, error) { return &wire.Response{Code: 429}, nil },
		"ill":             func() (*wire.Response, error) { return &wire.Response{Code: 500}, nil },
		"without effect":  func() (*wire.Response, error) { return &wire.Response{Code: 202}, nil },
		"a conflict once": func() (*wire.Response, error) { return &wire.Response{Code: 409}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, tries := newServer(), 0
				s.objects["/api/v1/namespaces/a"], s.objects["/api/v1/namespaces/b"] = time.Now(), time.Now()
				f := faulty{s, func(req *wire.Request) (*wire.Response, error) {
					if req.Method == http.MethodDelete && strings.HasSuffix(req.Path, "/a") {
						if tries++; tries <= 3 {
							return first()
						}
					}
					return nil, nil
				}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := subject.Delete(ctx, f, []string{"/api/v1/namespaces/a", "/api/v1/namespaces/b"}); err != nil {
					t.Error(err)
				}
				if len(s.objects) != 0 || tries != 4 {
					t.Errorf("%d tries, and there are %v", tries, s.objects)
				}
			})
		})
	}
}

func TestWhatMustNotBeDeletedIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tries := newServer(), 0
		s.objects["/api/v1/namespaces/a"], s.objects["/api/v1/namespaces/b"] = time.Now(), time.Now()
		f := faulty{s, func(req *wire.Request) (*wire.Response, error) {
			if req.Method == http.MethodDelete && strings.HasSuffix(req.Path, "/a") {
				tries++
				return &wire.Response{Code: 403, Body: []byte("no")}, nil
			}
			return nil, nil
		}}
		err := subject.Delete(t.Context(), f, []string{"/api/v1/namespaces/a", "/api/v1/namespaces/b"})
		if err == nil || !strings.Contains(err.Error(), "delete /api/v1/namespaces/a: it is not allowed: status 403") || tries != 1 {
			t.Errorf("%v after %d tries", err, tries)
		}
		if time.Since(s.begin) > time.Second || len(s.objects) != 1 {
			t.Errorf("after %v there are %v", time.Since(s.begin), s.objects)
		}
	})
}

// TestWhatHangsIsNamed lets an object stay for as long as there is time.
func TestWhatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tries := newServer(), 0
		s.objects["/api/v1/namespaces/a"] = time.Now()
		f := faulty{s, func(req *wire.Request) (*wire.Response, error) {
			if req.Method == http.MethodDelete {
				tries++
				return &wire.Response{Code: 200}, nil
			}
			return nil, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := subject.Delete(ctx, f, []string{"/api/v1/namespaces/a"})
		if err == nil || !strings.Contains(err.Error(), "/api/v1/namespaces/a") || !strings.Contains(err.Error(), "still there") {
			t.Error(err)
		}
		if tries < 5 || tries > 15 {
			t.Errorf("%d tries in a minute", tries)
		}
	})
}

// TestALostAnswerIsRemovedToo lets a creation take effect, and its answer and all
// later ones be lost.
func TestALostAnswerIsRemovedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		f := faulty{s, func(req *wire.Request) (*wire.Response, error) {
			if req.Method == http.MethodPatch {
				_, _ = s.Do(t.Context(), req)
				return nil, errors.New("lost")
			}
			return nil, nil
		}}
		i := subject.NewInstaller(f)
		if err := i.Apply(t.Context(), decoded(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")); err == nil {
			t.Fatal("it was applied")
		}
		if err := i.Remove(t.Context()); err != nil || len(s.objects) != 0 || !slices.Contains(s.said, "DELETE /api/v1/namespaces/default/configmaps/m") {
			t.Errorf("%v; there are %v", err, s.objects)
		}
	})
}
