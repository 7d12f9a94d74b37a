package cleanup_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

// server holds objects by their paths, with UIDs. answer may answer a call before
// it does.
type server struct {
	mu      sync.Mutex
	begin   time.Time
	objects map[string]string
	answer  func(*wire.Request) (*wire.Response, error)
}

func newServer(objects map[string]string, answer func(*wire.Request) (*wire.Response, error)) *server {
	return &server{begin: time.Now(), objects: objects, answer: answer}
}

func (s *server) Do(_ context.Context, req *wire.Request) (*wire.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out, err := s.answer(req); out != nil || err != nil {
		return out, err
	}
	uid, ok := s.objects[req.Path]
	if !ok {
		return &wire.Response{Code: 404}, nil
	}
	if req.Method == http.MethodDelete {
		var o struct{ Preconditions struct{ UID string } }
		if err := json.Unmarshal(req.Body, &o); err != nil || o.Preconditions.UID != uid {
			return &wire.Response{Code: 409}, nil
		}
		delete(s.objects, req.Path)
	}
	return &wire.Response{Code: 200, Body: []byte(`{"metadata":{"uid":"` + uid + `"}}`)}, nil
}

const pathA, pathB = "/api/v1/namespaces/a", "/api/v1/namespaces/b"

var (
	a = cleanup.Object{Path: pathA, UID: "1"}
	b = cleanup.Object{Path: pathB, UID: "2"}
)

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
				tries := 0
				s := newServer(map[string]string{pathA: "1", pathB: "2"}, func(req *wire.Request) (*wire.Response, error) {
					if req.Method == http.MethodDelete && req.Path == pathA {
						if tries++; tries <= 3 {
							return first()
						}
					}
					return nil, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := cleanup.Delete(ctx, s, []cleanup.Object{a, b}); err != nil {
					t.Error(err)
				}
				if len(s.objects) != 0 || tries != 4 {
					t.Errorf("%d tries, and there are %v", tries, s.objects)
				}
			})
		})
	}
}

// TestAnotherOfTheSameNameStays lets somebody make an object anew.
func TestAnotherOfTheSameNameStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(map[string]string{pathA: "theirs", pathB: "2"}, func(*wire.Request) (*wire.Response, error) { return nil, nil })
		if err := cleanup.Delete(t.Context(), s, []cleanup.Object{a, b}); err != nil {
			t.Error(err)
		}
		if len(s.objects) != 1 || s.objects[pathA] != "theirs" {
			t.Errorf("there are %v", s.objects)
		}
	})
}

func TestWhatMustNotBeDeletedIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := newServer(map[string]string{pathA: "1", pathB: "2"}, func(req *wire.Request) (*wire.Response, error) {
			if req.Method == http.MethodDelete && req.Path == pathA {
				tries++
				return &wire.Response{Code: 403, Body: []byte("no")}, nil
			}
			return nil, nil
		})
		err := cleanup.Delete(t.Context(), s, []cleanup.Object{a, b})
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
		tries := 0
		s := newServer(nil, func(req *wire.Request) (*wire.Response, error) {
			if req.Method == http.MethodDelete {
				tries++
			}
			return &wire.Response{Code: 200, Body: []byte(`{"metadata":{"uid":"1","finalizers":["x/y"]}}`)}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := cleanup.Delete(ctx, s, []cleanup.Object{a})
		if err == nil || !strings.Contains(err.Error(), pathA) || !strings.Contains(err.Error(), "still there, held by x/y") {
			t.Error(err)
		}
		if tries < 5 || tries > 15 {
			t.Errorf("%d tries in a minute", tries)
		}
	})
}

// TestTheLastLookIsCutOff lets a look end with the time: what is known of the object from
// before is said, not that a call has timed out.
func TestTheLastLookIsCutOff(t *testing.T) {
	held := &wire.Response{Code: 200, Body: []byte(`{"metadata":{"uid":"1","finalizers":["x/y"]}}`)}
	for name, answers := range map[string][]*wire.Response{
		"after the deletion":     {held},
		"after one look or more": {{Code: 200, Body: []byte(`{"kind":"Status"}`)}, held},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				calls := 0
				s := newServer(nil, func(*wire.Request) (*wire.Response, error) {
					if calls++; calls <= len(answers) {
						return answers[calls-1], nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				err := cleanup.Delete(ctx, s, []cleanup.Object{a})
				if err == nil || !strings.Contains(err.Error(), "still there, held by x/y") {
					t.Error(err)
				}
			})
		})
	}
}

// TestOneDeadlineForAllParts lets objects of every part of a sweep hang: all of it ends with
// the deadline, everything was deleted once at least, and what is left is named.
func TestOneDeadlineForAllParts(t *testing.T) {
	found := []cleanup.Found{}
	for _, resource := range []string{"mutatingwebhookconfigurations.admissionregistration.k8s.io", "namespaces", "clusterroles.rbac.authorization.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"} {
		found = append(found, cleanup.Found{Object: cleanup.Object{Path: "/" + resource, UID: "1"}, Resource: resource, Name: "x"})
	}
	for name, hangs := range map[string]string{"all": "/", "the first": "/mutating", "the namespaces": "/namespaces", "the last": "/custom", "none": "?"} {
		for _, within := range []time.Duration{time.Second, 3 * time.Minute} {
			t.Run(name+within.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					there, deleted := map[string]string{}, map[string]bool{}
					for _, f := range found {
						there[f.Path] = "1"
					}
					s := newServer(there, func(req *wire.Request) (*wire.Response, error) {
						deleted[req.Path] = deleted[req.Path] || req.Method == http.MethodDelete
						if strings.HasPrefix(req.Path, hangs) {
							return &wire.Response{Code: 200, Body: []byte(`{"metadata":{"uid":"1","finalizers":["x/y"]}}`)}, nil
						}
						return nil, nil
					})
					err := cleanup.RemoveWithin(t.Context(), s, within, found)
					if took := time.Since(s.begin); took > within+time.Millisecond {
						t.Errorf("it took %v of %v", took, within)
					}
					for _, f := range found {
						if left := strings.HasPrefix(f.Path, hangs); !deleted[f.Path] || left != (s.objects[f.Path] != "") {
							t.Errorf("%s: deleted once %v, and there: %q", f.Path, deleted[f.Path], s.objects[f.Path])
						} else if left && (err == nil || !strings.Contains(err.Error(), "delete "+f.Path) || !strings.Contains(err.Error(), " have passed: it is still there, held by x/y")) {
							t.Errorf("%s is not named: %v", f.Path, err)
						}
					}
				})
			})
		}
	}
}

// TestSharesOfADeadline splits the time that is left.
func TestSharesOfADeadline(t *testing.T) {
	for _, tt := range []struct {
		left  time.Duration
		later int
		want  time.Duration
	}{
		{3 * time.Minute, 0, 3 * time.Minute}, {3 * time.Minute, 3, 150 * time.Second}, {40 * time.Second, 3, 10 * time.Second},
		{8 * time.Second, 3, 2 * time.Second}, {time.Second, 1, 500 * time.Millisecond}, {0, 2, 0},
	} {
		if got := cleanup.ShareOf(tt.left, tt.later); got != tt.want {
			t.Errorf("of %v before %d later parts: %v, want %v", tt.left, tt.later, got, tt.want)
		}
	}
}
