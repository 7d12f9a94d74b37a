package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/live"
	"github.com/windtunnel/windtunnel/internal/opinion/report/live/query"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// Limits of the server.
const (
	serveHeaderTime = 10 * time.Second
	serveIdleTime   = 2 * time.Minute
	serveCloseTime  = 5 * time.Second
)

// tokenVariable holds the token that callers must know, so that it is in no
// list of processes.
const tokenVariable = "WINDTUNNEL_TOKEN"

// serveFlags are those of the verb serve.
type serveFlags struct{ address, certificate, key string }

// serveVerb serves the live page and Prometheus' query API over runs.
func serveVerb(env *environment) *cobra.Command {
	var f serveFlags
	verb := &cobra.Command{
		Use:   "serve [DIR]...",
		Short: "Serve a live page of runs, and Prometheus' query API over each run",
		Long: "serve shows the runs below DIR (default runs): open, follow, compare and stop them in a browser.\n" +
			"Prometheus' query API is at /api/v1 for the newest run and at /prometheus/ID/api/v1 for any\n" +
			"run. Loopback addresses need no token. For other addresses serve uses the token of\n" +
			tokenVariable + ", or a random one.",
		Example: "  windtunnel serve\n  windtunnel serve runs/density/latest --address 127.0.0.1:9090",
		Args:    cobra.ArbitraryArgs,
	}
	verb.Flags().StringVar(&f.address, "address", "127.0.0.1:9090", "`HOST:PORT` to listen on")
	verb.Flags().StringVar(&f.certificate, "tls-cert", "", "`FILE` with the TLS certificate, PEM")
	verb.Flags().StringVar(&f.key, "tls-key", "", "`FILE` with the key of the TLS certificate, PEM")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", cancelNothing)
		defer cancel()
		for _, root := range args {
			info, err := os.Stat(root)
			if err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			if !info.IsDir() {
				return fmt.Errorf("serve: %s is a file: name a run directory, or a folder of them", root)
			}
		}
		if len(args) == 0 {
			args = []string{"runs"} // it comes with the first run
		}
		return f.servePage(ctx, env, args)
	}
	return verb
}

func (f *serveFlags) servePage(ctx context.Context, env *environment, roots []string) error {
	if (f.certificate == "") != (f.key == "") {
		return errors.New("--tls-cert and --tls-key belong together")
	}
	token := os.Getenv(tokenVariable)
	local, err := isLoopback(f.address)
	if err != nil {
		return err
	}
	if !local && token == "" {
		token = rand.Text()
	}
	pages := live.New(live.Options{Roots: roots, Build: pageOf, Watch: watchRun, Compare: comparePages, Query: queryOf, Token: token, Clock: clock.Start()})
	defer pages.Close()
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	server := &http.Server{Handler: pages, ReadHeaderTimeout: serveHeaderTime, IdleTimeout: serveIdleTime}
	server.RegisterOnShutdown(pages.Close)
	ended := make(chan error, 1)
	go func() {
		if f.certificate != "" {
			ended <- server.ServeTLS(listener, f.certificate, f.key)
			return
		}
		ended <- server.Serve(listener)
	}()
	f.printAddress(env, listener.Addr().String(), token, local)
	select {
	case err = <-ended:
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveCloseTime)
		defer cancel()
		err = errors.Join(server.Shutdown(stop), <-ended)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// printAddress says where the page is.
func (f *serveFlags) printAddress(env *environment, address, token string, local bool) {
	scheme, path := "http", "/"
	if f.certificate != "" {
		scheme = "https"
	}
	if token != "" {
		path += "?token=" + token
	}
	fmt.Fprintf(env.stdout, "%s://%s%s is the live page, /api/v1 there answers PromQL over the newest run; Ctrl-C ends it\n", scheme, address, path)
	if !local && f.certificate == "" {
		fmt.Fprintln(env.stderr, "warning: others can read along, token included: nothing is encrypted without --tls-cert and --tls-key")
	}
}

func cancelNothing() {}

// isLoopback says whether only this machine can reach an address.
func isLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("address %q: %w", address, err)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// pageOf returns a run that has ended as a browser shows it.
func pageOf(dir string) (report.Page, error) {
	built, err := judge.Shown(dir)
	if err != nil {
		return report.Page{}, err
	}
	return report.NewPage(built)
}

func watchRun(dir string) (live.Source, error) { return judge.Watch(dir) }

func queryOf(dir string) (http.Handler, error) {
	db, err := promql.OpenRun(dir)
	if err != nil {
		return nil, err
	}
	return query.New(db, query.Options{}), nil
}

// comparePages compares the runs of two sides.
func comparePages(a, b []string) (report.Page, error) {
	runs := make([][]compare.Run, 2)
	for i, paths := range [][]string{a, b} {
		for _, path := range paths {
			r, err := compare.Open(path) // which writes nothing: this is asked for by GET
			if err != nil {
				return report.Page{}, err
			}
			runs[i] = append(runs[i], r)
		}
	}
	c, err := compare.Compare(runs[0], runs[1], compare.Options{NameA: variantLetter(0), NameB: variantLetter(1)})
	if err != nil {
		return report.Page{}, err
	}
	arms, err := armsOf(runs, []*compare.Comparison{c})
	if err != nil {
		return report.Page{}, err
	}
	return report.Compare(arms, []*compare.Comparison{c})
}
