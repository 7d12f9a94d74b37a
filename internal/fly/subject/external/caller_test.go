package external_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
)

// both connects the two ends; served gets what Serve returns.
func both(t *testing.T, run external.Program) (c *external.Caller, served chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	served = make(chan error, 1)
	go func() { served <- external.Serve(t.Context(), theirs, 42, run) }()
	c = external.New(ours)
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return c, served
}

func TestASubjectIsStartedAndStopped(t *testing.T) {
	var got external.Start
	c, served := both(t, func(ctx context.Context, s external.Start, ready func()) error {
		got = s
		ready()
		<-ctx.Done()
		return ctx.Err()
	})
	want := external.Start{Name: "a", Kubeconfig: "/k", Metrics: "http://127.0.0.1:1/metrics"}
	pid, err := c.Start(t.Context(), want)
	if err != nil || pid != 42 || got != want {
		t.Fatalf("%d, %v, %+v", pid, err, got)
	}
	select {
	case err := <-c.Ended():
		t.Fatalf("it ended: %v", err)
	default:
	}
	if err := errors.Join(c.Stop(t.Context()), c.Stop(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("what was asked for is no fault: %v", err)
	}
}

func TestADeathIsTold(t *testing.T) {
	die := make(chan struct{})
	c, served := both(t, func(_ context.Context, _ external.Start, ready func()) error {
		ready()
		<-die
		return errors.New("out of ideas")
	})
	if _, err := c.Start(t.Context(), external.Start{}); err != nil {
		t.Fatal(err)
	}
	close(die)
	if err := <-c.Ended(); err == nil || err.Error() != "out of ideas" {
		t.Errorf("ended with %v", err)
	}
	_ = c.Close()
	if err := <-served; err == nil || err.Error() != "out of ideas" {
		t.Errorf("served with %v", err)
	}
}

func TestADeathBeforeReadyIsStartsError(t *testing.T) {
	c, _ := both(t, func(context.Context, external.Start, func()) error { return nil })
	if _, err := c.Start(t.Context(), external.Start{}); err == nil || err.Error() != "it ended by itself" {
		t.Errorf("%v", err)
	}
}

func TestACallerThatIsGone(t *testing.T) {
	ours, theirs := net.Pipe()
	c := external.New(ours)
	_ = theirs.Close()
	if _, err := c.Start(t.Context(), external.Start{}); !errors.Is(err, external.ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := errors.Join(c.Stop(ctx), c.Close()); err != nil {
		t.Error(err)
	}
}

func TestWindtunnelThatIsGoneEndsTheSubject(t *testing.T) {
	c, served := both(t, func(ctx context.Context, _ external.Start, ready func()) error {
		ready()
		<-ctx.Done()
		return ctx.Err()
	})
	if _, err := c.Start(t.Context(), external.Start{}); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
