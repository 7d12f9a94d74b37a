package subject

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/windtunnel/windtunnel/scenario"
)

// errNotReady says that a probe was answered, and how.
var errNotReady = errors.New("not ready")

// question asks once whether a program is ready.
type question func(context.Context) error

// newProbe returns what asks whether the subject is ready and its metrics can be
// read; nil: it is ready once it runs.
func (p *Prepared) newProbe() (question, error) {
	var all []question
	if text := p.subject.Ready.HTTP; text != "" {
		if strings.HasPrefix(text, "/") {
			text = "http://127.0.0.1:" + p.vars[scenario.VarProbePort] + text
		}
		address, err := p.expandVariables(text)
		if err != nil {
			return nil, err
		}
		all = append(all, askPage(address))
	}
	if text := p.subject.Ready.TCP; text != "" {
		address, err := p.expandVariables(text)
		if err != nil {
			return nil, err
		}
		all = append(all, dialAddress(address))
	}
	if p.MetricsURL != "" { // a wrong address is better known now than after the run
		all = append(all, askPage(p.MetricsURL))
	}
	if len(all) == 0 {
		return nil, nil
	}
	return func(ctx context.Context) error {
		for _, ask := range all {
			if err := ask(ctx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// askPage asks for a page. A certificate is not verified: it says nothing about
// being ready.
func askPage(address string) question {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, 200))
		if resp.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("%w: %s answers %s: %.200s", errNotReady, address, resp.Status, text)
		}
		return err
	}
}

// dialAddress connects.
func dialAddress(address string) question {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// serverOf returns a URL without its path.
func serverOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // validation has parsed it
	}
	return u.Scheme + "://" + u.Host
}
