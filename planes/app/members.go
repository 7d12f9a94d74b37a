package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/gateway"
	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
)

func gatewayVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), gateway.Options{}
	verb := p.Verb("app-gateway", "Run the gateway of the app plane to member clusters", "", func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-app-gateway"), p.Registry, p.Clock, p.Log
		return p.Serve(ctx, func() error { return gateway.Run(ctx, o) })
	})
	f := verb.Flags()
	f.StringVar(&o.Listen, "gateway-listen", "127.0.0.1:0", "`HOST:PORT` of the gateway, TLS")
	f.BoolVar(&o.Aggregate, "aggregated", true, "let the plane's API server proxy to it; of several replicas to the one that came last")
	return verb
}

func memberVerb(host cli.Host) *cobra.Command {
	p, folder, labels := cli.New(host), "", spread{}
	verb := p.Verb("app-member", "Join member clusters to the app plane", "", func(ctx context.Context) error {
		members, err := cluster.Read(folder, labels)
		if err != nil {
			return err
		}
		config := p.NewConfig("windtunnel-app-member")
		return p.Serve(ctx, func() error {
			if err := api.Install(ctx, config, nil); err != nil { // the namespace of their Secrets
				return err
			}
			if err := cluster.Join(ctx, config, members); err != nil {
				return err
			}
			p.Log.Info("members have joined", "members", len(members))
			p.Registry.Ready()
			<-ctx.Done()
			return nil
		})
	})
	f := verb.Flags()
	f.StringVar(&folder, "members", "", "`folder` of kubeconfigs, NAME.kubeconfig each; in a scenario $(MEMBERS)")
	f.Var(labels, "spread", "`LABEL=N`, labels that members get in turn: region=3 gives region-0, region-1, region-2")
	return verb
}

// spread is how many values each label has.
type spread map[string]int

// String returns LABEL=N,...
func (s spread) String() string {
	var out []string
	for key, n := range s {
		out = append(out, key+"="+strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

// Set reads LABEL=N; it can be given several times.
func (s spread) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	n, err := strconv.Atoi(value)
	if !ok || key == "" || err != nil || n < 1 {
		return fmt.Errorf("%q: want LABEL=N such as region=3", text)
	}
	s[key] = n
	return nil
}

// Type says what the flag takes.
func (s spread) Type() string { return "LABEL=N" }
