package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

// Figures are what a side takes. What a side does not have is 0.
type Figures struct {
	Start         float64 `json:"first_answer_seconds"`       // median, from nothing until a list is answered
	StartWorst    float64 `json:"first_answer_worst_seconds"` // the process's first: caches are empty
	Idle1         float64 `json:"idle_bytes_one_client"`      // of a cluster, beyond what the process takes without
	Idle3         float64 `json:"idle_bytes_three_clients"`
	Many          int     `json:"clusters_in_a_process"`
	ManyReady     float64 `json:"ready_seconds"`                // until all of them can be reached, its start included
	ManyBytes     float64 `json:"peak_rss_bytes"`               // resident, with nobody there
	ManyWatched   float64 `json:"peak_rss_bytes_with_watches"`  // with a client of 7 watches each
	Encoded       float64 `json:"bytes_encoded_an_object"`      // of a pod in protobuf
	Overhead      float64 `json:"bytes_overhead_an_object"`     // beyond that
	CreateProto   float64 `json:"cpu_us_create_protobuf"`       // of the server
	CreateJSON    float64 `json:"cpu_us_create_json"`           // likewise
	WatchProto    float64 `json:"cpu_us_event_protobuf"`        // a watcher
	WatchJSON     float64 `json:"cpu_us_event_json"`            // likewise
	WatchBurst    float64 `json:"cpu_us_event_burst_protobuf"`  // of objects that are created as fast as it goes
	CreatesSecond float64 `json:"creates_per_second_as_it_can"` // client and server share the machine
}

// target is an API server that is measured from outside.
type target struct {
	endpoint endpoint.Endpoint
	cost     func() (Cost, error) // of all its processes
}

// work is how much is done for a figure.
type work struct {
	objects, watchers, events int
	rate                      float64 // of the events, per second
	clusters, many            int
}

// measureCreates measures creates and what is kept of them.
func (w work) measureCreates(ctx context.Context, t target, f *Figures) error {
	if _, err := createPods(ctx, t.endpoint, typeProto, 0, w.objects/10, 32, 0); err != nil { // warm
		return err
	}
	before, err := t.cost()
	if err != nil {
		return err
	}
	took, err := createPods(ctx, t.endpoint, typeProto, w.objects, w.objects, 32, 0)
	if err != nil {
		return err
	}
	after, err := t.cost()
	if err != nil {
		return err
	}
	n := float64(w.objects)
	f.CreateProto, f.CreatesSecond = (after.CPU-before.CPU)*1e6/n, n/took.Seconds()
	raw, err := newPod(0).Marshal()
	if err != nil {
		return err
	}
	f.Encoded = float64(len(raw)) + storedMore
	f.Overhead = float64(after.memoryInUse()-before.memoryInUse())/n - f.Encoded
	before = after
	if _, err := createPods(ctx, t.endpoint, typeJSON, 2*w.objects, w.objects, 32, 0); err != nil {
		return err
	}
	if after, err = t.cost(); err != nil {
		return err
	}
	f.CreateJSON = (after.CPU - before.CPU) * 1e6 / n
	return nil
}

// storedMore is about what a server adds to a pod: uid, version, time of creation.
const storedMore = 38 + 8 + 10

// memoryInUse is what is in use, or what is resident where nobody says what is in use.
func (c Cost) memoryInUse() int64 {
	if c.InUse > 0 {
		return c.InUse
	}
	return c.Resident
}

// measureWatches measures what an event costs for each watcher: what the creation of
// objects costs with watchers, less what it costs without.
func (w work) measureWatches(ctx context.Context, t target, f *Figures) error {
	first := 10 * w.objects
	one := func(form string, watchers int, rate float64) (float64, error) {
		open, err := watchPods(ctx, t.endpoint, form, watchers)
		if err != nil {
			return 0, err
		}
		time.Sleep(time.Second) // until all are there
		before, err := t.cost()
		if err == nil {
			_, err = createPods(ctx, t.endpoint, typeProto, first, w.events, 8, rate)
		}
		first += w.events
		if err == nil {
			err = open.awaitEvents(int64(watchers * w.events))
		}
		after, cost := t.cost()
		return after.CPU - before.CPU, errors.Join(err, cost, open.Close())
	}
	for _, m := range []struct {
		form string
		rate float64
		to   *float64
	}{{typeProto, w.rate, &f.WatchProto}, {typeJSON, w.rate, &f.WatchJSON}, {typeProto, 0, &f.WatchBurst}} {
		without, err := one(m.form, 0, m.rate)
		if err != nil {
			return err
		}
		with, err := one(m.form, w.watchers, m.rate)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		*m.to = (with - without) * 1e6 / float64(w.watchers*w.events)
	}
	return nil
}

// measureIdle measures what clusters take with one idle client each, and with three.
func (w work) measureIdle(ctx context.Context, f *Figures) error {
	s, err := startServer(w.clusters)
	if err != nil {
		return err
	}
	defer s.Close()
	before, err := s.askCost()
	if err != nil {
		return err
	}
	var clients []*wire.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}()
	for round := 1; round <= 3; round++ {
		for i := range w.clusters {
			c, err := idleClient(ctx, s.endpointOf(i))
			if err != nil {
				return err
			}
			clients = append(clients, c)
		}
		after, err := s.askCost()
		if err != nil {
			return err
		}
		each := float64(after.InUse-before.InUse) / float64(w.clusters)
		switch round {
		case 1:
			f.Idle1 = each
		case 3:
			f.Idle3 = each
		}
	}
	return nil
}

// measureMany measures a process with many clusters.
func (w work) measureMany(ctx context.Context, f *Figures) error {
	s, err := startServer(w.many)
	if err != nil {
		return err
	}
	defer s.Close()
	f.Many, f.ManyReady = w.many, s.ready.Seconds()
	if f.ManyBytes, err = peakMemory(s.cmd.Process.Pid); err != nil {
		return err
	}
	for i := range w.many {
		c, err := idleClient(ctx, s.endpointOf(i))
		if err != nil {
			return err
		}
		defer c.Close()
	}
	f.ManyWatched, err = peakMemory(s.cmd.Process.Pid)
	return err
}

// medianSeconds returns the median of durations in seconds.
func medianSeconds(took []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)/2].Seconds()
}
