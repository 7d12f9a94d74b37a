package endpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPluginThatHangs: what is waited for is said after some seconds, and at the timeout it is
// an error that says what to do.
func TestPluginThatHangs(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name  string
		takes time.Duration
		says  bool
		want  string
	}{
		{"at once", 0, false, "refused"},
		{"nearly at once", saidAfter - 1, false, "refused"},
		{"a login", time.Minute, true, "refused"},
		{"never", time.Hour, true, "the credential plugin `login` of the kubeconfig (users[].user.exec) did not answer within 2m0s: run it by hand to see what it waits for, such as a login"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []string
				begun := time.Now()
				err := awaitPlugin(func() error { time.Sleep(c.takes); return refused }, "login", func(s string) { said = append(said, s) })
				took := time.Since(begun)
				if fmt.Sprint(err) != c.want || (len(said) > 0) != c.says || took > pluginTimeout {
					t.Errorf("%v after %v; said %q", err, took, said)
				}
				time.Sleep(2 * time.Hour) // until the plugin has ended, too
				if c.says && !strings.HasPrefix(said[0], "waiting for the credential plugin `login` ") {
					t.Errorf("said %q", said)
				}
			})
		})
	}
}
