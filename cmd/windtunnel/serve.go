package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/dashboard/query"
	"github.com/windtunnel/windtunnel/experiment"
)

// Limits of the server.
const (
	serveHeaderTime = 10 * time.Second
	serveIdleTime   = 2 * time.Minute
	serveCloseTime  = 5 * time.Second
)

// serveVerb answers Prometheus' HTTP query API over a run.
func serveVerb(env *environment) *cobra.Command {
	var address string
	verb := &cobra.Command{
		Use:     "serve RUN",
		Short:   "Answer the Prometheus HTTP query API over a run, for Grafana and others",
		Example: "  windtunnel serve runs/density/latest --address 127.0.0.1:9090",
		Args:    cobra.ExactArgs(1),
	}
	verb.Flags().StringVar(&address, "address", "127.0.0.1:9090", "`host:port` to listen on; the host must be a loopback address")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := env.interruptible(cmd.Context(), "stopping", cancelNothing)
		defer cancel()
		if err := loopback(address); err != nil {
			return err
		}
		db, err := experiment.Series(args[0])
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		server := &http.Server{Handler: query.New(db, query.Options{}), ReadHeaderTimeout: serveHeaderTime, IdleTimeout: serveIdleTime}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		fmt.Fprintf(env.stdout, "http://%s answers PromQL over %s; Ctrl-C ends it\n", listener.Addr(), args[0])
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
	return verb
}

func cancelNothing() {}

// loopback refuses addresses that others could reach: nothing here asks who calls.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %q: only loopback addresses such as 127.0.0.1 are served", address)
	}
	return nil
}
