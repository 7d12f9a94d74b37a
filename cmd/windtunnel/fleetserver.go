package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet"
)

// served is what stands for the nodes' kubelets, beside the fleet.
type served struct {
	server *kubelet.Server
	world  *kubelet.Cluster
	client *wire.Client
	stop   context.CancelFunc
	done   chan struct{} // closed when the cluster is not followed any more
}

// startServer starts the server that stands for the nodes' kubelets, if one is asked
// for, and follows the kinds of objects that come from the cluster.
func (r *fleetRun) startServer(ctx context.Context) error {
	o := &r.Configuration.Options
	if o.Serve() == "" && len(o.EnableCRDs) == 0 {
		return nil
	}
	client, err := wire.New(r.options.Endpoint, wire.Options{UserAgent: "windtunnel-fleet", Clock: r.options.Clock})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &served{client: client, stop: cancel, done: make(chan struct{})}
	r.served = s
	if o.Serve() != "" {
		s.world = kubelet.NewCluster(kubelet.ClusterOptions{
			Client: client, Clock: r.options.Clock, Selector: r.options.Manage.NodesQuery(), Managed: r.managesNode, Log: r.log,
		})
		s.server, err = kubelet.Start(ctx, kubelet.Options{
			Address: o.Serve(), CertFile: o.TLSCertFile, KeyFile: o.TLSPrivateKeyFile, ClientCAFile: o.ClientCAFile,
			Node: o.ManageSingleNode, World: s.world, Objects: r.Objects, Metrics: http.HandlerFunc(r.serveMetrics),
			NoStream: !o.EnableDebuggingHandlers, Profiles: o.EnableProfilingHandler, Names: certificateNames(o),
			Seed: r.own.seed, Clock: r.options.Clock, Log: r.log,
		})
		if err != nil {
			close(s.done)
			r.close()
			return err
		}
	}
	go func() {
		defer close(s.done)
		if len(o.EnableCRDs) > 0 {
			r.followKinds(ctx, o.EnableCRDs)
		}
	}()
	return nil
}

// certificateNames are what the certificate of our own making holds besides loopback.
func certificateNames(o *configuration.Options) []string {
	var out []string
	for _, name := range []string{o.NodeIP, o.NodeName} {
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// followKinds keeps up with the kinds of objects that come from the cluster.
func (r *fleetRun) followKinds(ctx context.Context, kinds []string) {
	var known []*kwok.Stage
	first := true
	err := configuration.Follow(ctx, configuration.Source{Client: r.served.client, Clock: r.options.Clock, Kinds: kinds, Log: r.log},
		func(o *configuration.Objects) {
			all := r.Objects.Merge(o)
			if r.served.server != nil {
				if err := r.served.server.Configure(all); err != nil {
					r.log.Error("objects of the cluster", "error", err)
				}
			}
			if slices.Contains(kinds, "Stage") && (first && len(all.Stages) > 0 || !first && !slices.Equal(all.Stages, known)) {
				known, first = all.Stages, false
				select {
				case r.stages <- all.Stages:
				case <-ctx.Done():
				}
			}
		})
	if err != nil && !errors.Is(err, context.Canceled) {
		r.log.Error("objects of the cluster are not followed any more", "error", err)
	}
}

// close ends what serve has started.
func (r *fleetRun) close() {
	s := r.served
	if s == nil {
		return
	}
	s.stop()
	<-s.done
	if s.server != nil {
		if err := s.server.Close(); err != nil {
			r.log.Warn("the kubelets' server did not end cleanly", slog.Any("error", err))
		}
	}
	if s.world != nil {
		_ = s.world.Close()
	}
	_ = s.client.Close()
}

// setFleet takes note of the fleet that runs now.
func (r *fleetRun) setFleet(f *fleet.Fleet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleet = f
}

func (r *fleetRun) currentFleet() *fleet.Fleet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fleet
}

func (r *fleetRun) managesNode(node string) bool {
	f := r.currentFleet()
	return f != nil && f.Manages(node)
}

// serveMetrics answers with the state of the fleet, for Prometheus.
func (r *fleetRun) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	f := r.currentFleet()
	if f == nil {
		http.Error(w, "the fleet is about to start", http.StatusServiceUnavailable)
		return
	}
	s := f.Stats()
	var b strings.Builder
	one := func(kind, name, help string, value float64) {
		fmt.Fprintf(&b, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n%[1]s %[4]g\n", "windtunnel_fleet_"+name, help, kind, value)
	}
	one("gauge", "nodes", "Nodes that are kept alive.", float64(s.Nodes))
	one("gauge", "nodes_schedulable", "Of them, Ready and without a taint.", float64(s.Schedulable))
	one("gauge", "pods", "Pods on these nodes that the fleet itself plays stages on.", float64(s.Pods))
	one("gauge", "in_flight", "Calls that wait for an answer.", float64(s.InFlight))
	one("gauge", "queued", "Calls that are due and not sent.", float64(s.Queued))
	one("gauge", "waiting", "Stages, renewals and retries that are not due yet.", float64(s.Waiting))
	one("gauge", "stage_lag_p99_seconds", "Stage done minus stage due, of the last 5 to 10 seconds.", s.StageLag.Seconds())
	one("gauge", "send_lag_p99_seconds", "Request sent minus stage due: the fleet's own part.", s.SendLag.Seconds())
	one("gauge", "lease_lateness_p99_seconds", "Renewal done minus renewal due.", s.LeaseLateness.Seconds())
	one("counter", "retries_total", "Calls that were sent again.", float64(s.Retries))
	one("counter", "dropped_total", "Effects given up: the server will not have them.", float64(s.Dropped))
	one("counter", "faults_total", "Objects left alone because a stage or they themselves are at fault.", float64(s.Faults))
	one("counter", "skipped_renewals_total", "Renewals left out because the one before was on its way.", float64(s.Skipped))
	one("counter", "relists_total", "Watches that had to begin anew.", float64(s.Relists))
	one("counter", "events_total", "Watch events and list items taken.", float64(s.Events))
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write([]byte(b.String()))
}
