package expectations_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/expectations"
)

func TestExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := expectations.New(clock.Start())
		want := func(yes bool, what string) {
			t.Helper()
			if e.Satisfied("ns/a") != yes {
				t.Errorf("%s: satisfied is %v", what, !yes)
			}
		}
		want(true, "nothing expected")
		e.Expect("ns/a", "create/p", "delete/u")
		want(false, "two expected")
		e.Seen("ns/a", "create/p")
		e.Seen("ns/a", "create/other")
		e.Seen("ns/b", "delete/u")
		want(false, "one of two seen")
		e.Seen("ns/a", "delete/u")
		want(true, "both seen")
		e.Expect("ns/a", "create/q")
		e.Forget("ns/a")
		want(true, "forgotten")
		e.Expect("ns/a", "create/r")
		time.Sleep(expectations.Timeout)
		want(false, "as long as it lasts")
		time.Sleep(time.Second)
		want(true, "given up")
	})
}
