package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// fleetFlags are the flags of the verb fleet that kwok does not have.
type fleetFlags struct {
	stages      []string
	shard       string
	traffic     string
	connections int
	seed        uint64
	records     string
}

// fleetName is the name of the verb fleet.
const fleetName = "fleet"

// fleetVerb keeps the nodes of any cluster alive, with kwok's flags.
func fleetVerb(env *environment) *cobra.Command {
	var own fleetFlags
	verb := &cobra.Command{
		Use:   fleetName,
		Short: "Simulate nodes of any cluster, as a replacement of the kwok controller",
		Long: "fleet accepts the flags and configuration files of kwok and replaces the kwok controller:\n" +
			"it renews the leases of its nodes, reports them Ready, and plays stages on nodes, pods and\n" +
			"other objects. Several instances share the work with --shard.\n\n" +
			"Anybody who can create Stages, or the kinds of --enable-crds, in the cluster acts with the\n" +
			"rights of this process: it applies the objects, runs the commands and reads the files that\n" +
			"they name.",
		Example: "  windtunnel fleet --kubeconfig ~/.kube/config --manage-all-nodes\n" +
			"  windtunnel fleet --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --config stages.yaml\n" +
			"  windtunnel fleet --manage-all-nodes --shard 1/3   # the first of three instances",
		Args: cobra.NoArgs,
	}
	flags := configuration.Register(verb.Flags())
	verb.Flags().StringSliceVar(&own.stages, "stages", []string{"fast"}, "built-in `STAGES` ("+strings.Join(builtin.Names(), ", ")+") to use if no configuration has any")
	verb.Flags().StringVar(&own.shard, "shard", "", "simulate shard K of S, as `K/S` with K from 1: nodes and pods are shared by the hash of their UID")
	verb.Flags().StringVar(&own.traffic, "traffic", "minimal", "`REQUESTS` of each node: minimal, or kubelet for those of a real kubelet")
	verb.Flags().IntVar(&own.connections, "connections", 0, "maximum `NUMBER` of connections shared by all nodes (default 64)")
	verb.Flags().Uint64Var(&own.seed, "seed", scenario.DefaultSeed, "`SEED` of delays and random choices")
	verb.Flags().StringVar(&own.records, "records", "", "record every request in this `FILE`")
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		c, err := flags.Load(os.Stdin)
		if err = errors.Join(err, own.check()); err != nil {
			return err
		}
		return runFleet(ctx, env, c, own)
	}
	return verb
}

// check says what is wrong with the flags.
func (f *fleetFlags) check() error {
	_, _, err := f.parseShard()
	if err == nil && f.connections < 0 {
		err = fmt.Errorf("--connections %d: want 0 or more", f.connections)
	}
	if _, unknown := builtin.Sets(f.stages, "."); err == nil && unknown != nil {
		err = fmt.Errorf("--stages: %w", unknown)
	}
	return cmp.Or(err, wantOneOf("--traffic", f.traffic, fleet.MinimalTraffic, fleet.KubeletTraffic))
}

// parseShard returns which shard of how many is simulated; 0 of 0: all.
func (f *fleetFlags) parseShard() (shard, of int, err error) {
	if f.shard == "" {
		return 0, 0, nil
	}
	k, s, _ := strings.Cut(f.shard, "/")
	shard, err = strconv.Atoi(k)
	of, second := strconv.Atoi(s)
	if err = errors.Join(err, second); err != nil || shard < 1 || shard > of {
		return 0, 0, fmt.Errorf("--shard %s: want K/S such as 1/3, K from 1 to S", f.shard)
	}
	return shard - 1, of, nil
}

// fleetRunID is the stamp of what fleets make that belong to no run: the instances
// that share a cluster share its objects.
const fleetRunID = "fleet"

// fleetRun is the verb fleet under way.
type fleetRun struct {
	*configuration.Configuration
	own     fleetFlags
	log     *slog.Logger
	out     io.Writer
	options fleet.Options
	config  scenario.Fleet
	stages  chan []*kwok.Stage // whenever the cluster's change
	served  *served            // nil when nothing is served and nothing followed

	mu    sync.Mutex
	fleet *fleet.Fleet // the one that runs; nil between two
}

// runFleet keeps nodes alive until ctx ends.
func runFleet(ctx context.Context, env *environment, c *configuration.Configuration, own fleetFlags) (err error) {
	r := &fleetRun{Configuration: c, own: own, out: env.stderr, stages: make(chan []*kwok.Stage, 1)}
	level, err := c.Options.Level()
	if err != nil {
		return err
	}
	r.log = slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: level}))
	for _, note := range append(c.Notes, c.Options.Ignored()...) {
		r.log.Warn(note)
	}
	if note := c.Options.ServesOnlyHere(); note != "" {
		r.log.Warn(note)
	}
	if err := r.prepareOptions(); err != nil {
		return err
	}
	if own.records != "" {
		if r.options.Records, err = record.Create(own.records); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.options.Records.Close()) }()
	}
	if err := r.startServer(ctx); err != nil {
		return err
	}
	defer r.close()
	resting, cancel := context.WithCancel(ctx)
	wait := trimPeriodically(resting)
	err = r.keepNodes(ctx)
	cancel()
	wait()
	if errors.Is(context.Cause(ctx), flight.ErrInterrupted) {
		return nil
	}
	return err
}

// prepareOptions says what the fleet needs to know, as far as files and flags tell.
func (r *fleetRun) prepareOptions() error {
	o := &r.Configuration.Options
	ep, err := clusterOf(o)
	if err != nil {
		return err
	}
	r.options = fleet.Options{
		Endpoint: ep, Clock: clock.Start(), Log: r.log, Seed: r.own.seed, Connections: r.own.connections,
		NodePort: o.NodePort, Version: ownVersion(),
	}
	if o.NodeIP != "" {
		r.options.NodeIP = netip.MustParseAddr(o.NodeIP) // checked when it was read
	}
	r.config = scenario.Fleet{Lease: unit.Duration(time.Duration(o.NodeLeaseDurationSeconds) * time.Second), Traffic: r.own.traffic}
	if r.options.Manage, err = managedNodes(o); err != nil {
		return err
	}
	r.options.Manage.Shard, r.options.Manage.Shards, err = r.own.parseShard()
	return err
}

// keepNodes keeps the nodes alive. Other stages from the cluster begin a new fleet:
// it finds the nodes as the one before left them.
func (r *fleetRun) keepNodes(ctx context.Context) error {
	next := r.Objects.Stages
	if slices.Contains(r.Configuration.Options.EnableCRDs, "Stage") {
		select { // there is nothing to play before the cluster's stages are known
		case next = <-r.stages:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		f, err := r.startFleet(ctx, next)
		if err != nil {
			return err
		}
		r.setFleet(f)
		select {
		case <-ctx.Done():
		case next = <-r.stages:
		}
		r.setFleet(nil)
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// startFleet compiles stages and starts a fleet that plays them.
func (r *fleetRun) startFleet(ctx context.Context, stages []*kwok.Stage) (*fleet.Fleet, error) {
	file := &kwok.File{Stages: stages}
	if len(stages) == 0 && !slices.Contains(r.Configuration.Options.EnableCRDs, "Stage") {
		var err error
		if file, err = builtin.Sets(r.own.stages, "."); err != nil {
			return nil, err
		}
	}
	m, err := machine.Compile(file.Stages)
	if err != nil {
		return nil, err
	}
	o := r.options
	o.Stages, o.Objects = m, file.Others
	o.Stamp = object.Stamp{Run: fleetRunID}
	f, err := fleet.Start(ctx, r.config, o)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.out, "keeping the nodes of %s alive with %s; Ctrl-C ends it\n", o.Endpoint.Server(), unit.Count(len(file.Stages), "stages"))
	return f, nil
}

// clusterOf returns the endpoint that kubeconfig and master say.
func clusterOf(o *configuration.Options) (endpoint.Endpoint, error) {
	path := o.Kubeconfig
	if path == "" {
		path = os.Getenv("KUBECONFIG")
	}
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return endpoint.Endpoint{}, fmt.Errorf("kubeconfig: %w", err)
		}
		path = filepath.Join(home, ".kube", "config")
	}
	ep, err := endpoint.FromKubeconfig(path, "")
	if err != nil || o.Master == "" {
		return ep, err
	}
	return ep.At(o.Master), nil
}

// managedNodes returns what the options say about which nodes are kept alive.
func managedNodes(o *configuration.Options) (*fleet.ManagedNodes, error) {
	m := &fleet.ManagedNodes{All: o.ManageAllNodes, Single: o.ManageSingleNode}
	for _, s := range []struct {
		text string
		into *labels.Selector
	}{
		{o.ManageNodesWithLabelSelector, &m.Labels},
		{o.ManageNodesWithAnnotationSelector, &m.Annotations},
		{o.DisregardStatusWithLabelSelector, &m.DisregardLabels},
		{o.DisregardStatusWithAnnotationSelector, &m.DisregardAnnotations},
	} {
		if s.text == "" {
			continue
		}
		parsed, err := labels.Parse(s.text)
		if err != nil {
			return nil, fmt.Errorf("selector %q: %w", s.text, err)
		}
		*s.into = parsed
	}
	if !m.All && m.Single == "" && m.Labels == nil && m.Annotations == nil {
		return nil, errors.New("no nodes: give --manage-all-nodes, --manage-single-node, --manage-nodes-with-label-selector or --manage-nodes-with-annotation-selector")
	}
	return m, m.Validate()
}
