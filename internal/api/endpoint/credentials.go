package endpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/text"
)

// Authorization returns the value of the Authorization header for a request
// sent now; empty when the client certificate is all there is. A plugin whose
// credentials have expired is run, and a token file is read.
func (e Endpoint) Authorization() (string, error) {
	header, err := e.requestHeader(nil)
	return header.Get("Authorization"), err
}

// Impersonation returns the headers of the user that the kubeconfig acts as; none
// when it acts as itself.
func (e Endpoint) Impersonation() (http.Header, error) {
	header, err := e.requestHeader(nil)
	for name := range header {
		if !strings.HasPrefix(name, "Impersonate-") {
			header.Del(name)
		}
	}
	return header, err
}

// Renewable says that the credentials may be others later.
func (e Endpoint) Renewable() bool {
	return e.config.ExecProvider != nil || e.config.AuthProvider != nil || e.config.BearerTokenFile != ""
}

// Renew has credentials made anew that the server refused with 401: used is the
// Authorization that it refused. Where that is not the present one somebody else
// has done it already.
func (e Endpoint) Renew(used string) error {
	now, err := e.Authorization()
	if err != nil || now != used {
		return err
	}
	_, err = e.requestHeader(&http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody})
	return err
}

// requestHeader returns the header of a request as client-go would send it, and lets
// client-go take it for answered so; nil for not sent.
func (e Endpoint) requestHeader(answer *http.Response) (http.Header, error) {
	var got http.Header
	catch := roundTrip(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Clone()
		if answer == nil {
			return nil, errCaught
		}
		return answer, nil
	})
	wrapped, err := rest.HTTPWrappersForConfig(e.config, catch)
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", e.config.Host, err)
	}
	req, err := http.NewRequest(http.MethodGet, e.config.Host, nil)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", e.config.Host, err)
	}
	ask := func() error {
		_, err := wrapped.RoundTrip(req) //nolint:bodyclose // there is none
		return err
	}
	if p := e.config.ExecProvider; p != nil {
		err = awaitPlugin(ask, text.Clean(p.Command), func(said string) { slog.Warn(said) })
	} else {
		err = ask()
	}
	if err != nil && !errors.Is(err, errCaught) {
		return nil, fmt.Errorf("credentials for %s: %w", e.config.Host, err)
	}
	return got, nil
}

const (
	saidAfter     = 5 * time.Second // for a plugin to answer before it is said what is waited for
	pluginTimeout = 2 * time.Minute // long enough for somebody to log in by a browser
)

// awaitPlugin bounds how long a credential plugin may take, and says that it takes long: client-go
// waits without end, and cannot be stopped. A plugin that hangs ends with this process.
func awaitPlugin(ask func() error, plugin string, say func(string)) error {
	answer := make(chan error, 1)
	guard.Go(func() { answer <- ask() })
	who := fmt.Sprintf("the credential plugin `%s` of the kubeconfig (users[].user.exec)", plugin)
	select {
	case err := <-answer:
		return err
	case <-time.After(saidAfter):
		say(fmt.Sprintf("waiting for %s, for up to %v", who, pluginTimeout))
	}
	select {
	case err := <-answer:
		return err
	case <-time.After(pluginTimeout - saidAfter):
		return fmt.Errorf("%s did not answer within %v: run it by hand to see what it waits for, such as a login", who, pluginTimeout)
	}
}

var errCaught = errors.New("request not sent: only its header was wanted")

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
