package steps

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/scenario"
)

const (
	ReadEvery   = 100 * time.Millisecond // of streams
	deviceEvery = time.Second            // of the ends' devices
)

// Network measures a path between two addresses.
type Network struct {
	Step string
	Spec *scenario.Network
}

// Do sends echoes and streams, and keeps what came of them.
func (x Network) Do(ctx context.Context, s *Session) error {
	if x.Spec.To.Worker == nil {
		return x.measurePath(ctx, s, nil)
	}
	if s.Answers == nil {
		return errNoAnswer
	}
	worker := *x.Spec.To.Worker
	far, err := s.Answers.Answer(ctx, worker, x.Step)
	if err != nil {
		return err
	}
	err = x.measurePath(ctx, s, &far)
	arrived, ended := s.Answers.Answered(ctx, worker, x.Step)
	if x.Spec.Stream != nil {
		x.keepArrived(s, arrived)
	}
	return inOneLine([]error{err, ended})
}

// keepArrived keeps what a worker's end has counted of streams.
func (x Network) keepArrived(s *Session, all []Arrived) {
	received, segments, busy := x.newSeries(s, sli.NetworkReceived), x.newSeries(s, sli.NetworkArrived), x.newSeries(s, sli.NetworkFarCPU)
	for _, one := range all {
		s.Journal.Records.Sample(record.Sample{Series: received, At: one.At, Value: float64(one.Bytes)})
		s.Journal.Records.Sample(record.Sample{Series: segments, At: one.At, Value: float64(one.Segments)})
		s.Journal.Records.Sample(record.Sample{Series: busy, At: one.At, Value: one.Busy})
	}
}

// newSeries is one of the step's own.
func (x Network) newSeries(s *Session, name string) record.SeriesID {
	return s.Journal.Records.Series(record.Series{Target: sli.Network, Name: name, Labels: []record.Label{{Name: "step", Value: x.Step}}})
}

// measurePath sends to an end that is ours, or far, another process'. Of echoes and streams
// one that breaks off ends the other.
func (x Network) measurePath(ctx context.Context, s *Session, far *network.Reach) error {
	from, to := NetworkEnd(x.Spec.From), NetworkEnd(x.Spec.To)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	spaces := []network.Namespace{from.Namespace}
	if far == nil && to.Namespace != from.Namespace {
		spaces = append(spaces, to.Namespace)
	}
	devices, err := newDevices(s, x.Step, spaces...)
	if err != nil {
		return err
	}
	defer devices.readDevices() // what was counted until the end
	parts := []func(context.Context) error{}
	if e := x.Spec.Echo; e != nil {
		parts = append(parts, func(ctx context.Context) error {
			return x.measureEchoes(ctx, s, network.EchoOptions{From: from, To: to, Far: far})
		})
	}
	if x.Spec.Stream != nil {
		parts = append(parts, func(ctx context.Context) error {
			return x.measureStreams(ctx, s, network.StreamOptions{From: from, To: to, Far: far})
		})
	}
	errs := make([]error, len(parts))
	var senders, reader guard.Group
	over := make(chan struct{})
	reader.Go(func() { devices.sampleDevices(over) })
	for i, do := range parts {
		senders.Go(func() {
			if errs[i] = do(ctx); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	senders.Wait()
	close(over)
	reader.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx) // the first that broke off, or who ended the run
	}
	return errors.Join(errs...)
}

// NetworkEnd is an end of a path as package network has it.
func NetworkEnd(e scenario.NetworkEnd) network.End {
	a, _ := netip.ParseAddr(e.Address) // validated; the zero one where there is none
	own, _ := netip.ParseAddr(e.Own)   // likewise
	return network.End{Namespace: network.Namespace(e.Namespace), Address: a.Unmap(), Own: own.Unmap()}
}

// measureEchoes keeps each echo as a call.
func (x Network) measureEchoes(ctx context.Context, s *Session, o network.EchoOptions) error {
	e := x.Spec.Echo
	o.ICMP, o.Pace, o.For = e.Protocol == "icmp", pace.Constant(e.Rate), time.Duration(x.Spec.For)
	o.Size, o.Patience, o.Clock = e.Size, time.Duration(e.Timeout), s.Clock
	if e.Random {
		o.Pace = pace.Poisson(e.Rate, s.Workload.Scenario.Seed)
	}
	op := s.Journal.Records.Op(record.Op{Source: sli.Network, Step: x.Step, Verb: "echo", Resource: e.Protocol})
	err := network.Echoes(ctx, o, func(one network.Echo) {
		c := record.Call{Op: op, Due: one.Due, Sent: one.Sent, Done: one.Done, SentBytes: uint32(e.Size), ReceivedBytes: uint32(e.Size)}
		if one.Lost {
			c.Outcome, c.ReceivedBytes = record.Unknown, 0
		}
		s.Journal.Records.Call(c)
	})
	if err != nil {
		return fmt.Errorf("send echoes: %w", err)
	}
	return nil
}

// measureStreams keeps the readings of streams as samples.
func (x Network) measureStreams(ctx context.Context, s *Session, o network.StreamOptions) error {
	w := s.Journal.Records
	segments, retransmits := x.newSeries(s, sli.NetworkSegments), x.newSeries(s, sli.NetworkRetransmits)
	roundTrip := x.newSeries(s, sli.NetworkStreamRoundTrip)
	keep := func(r network.Reading) {
		w.Sample(record.Sample{Series: segments, At: r.At, Value: float64(r.Segments)})
		w.Sample(record.Sample{Series: retransmits, At: r.At, Value: float64(r.Retransmits)})
		w.Sample(record.Sample{Series: roundTrip, At: r.At, Value: r.RoundTrip.Seconds()})
	}
	if sent := keep; o.Far == nil {
		received, arrived := x.newSeries(s, sli.NetworkReceived), x.newSeries(s, sli.NetworkArrived)
		keep = func(r network.Reading) {
			w.Sample(record.Sample{Series: received, At: r.At, Value: float64(r.Received)})
			w.Sample(record.Sample{Series: arrived, At: r.At, Value: float64(r.Arrived)})
			sent(r)
		}
	}
	o.Streams, o.For, o.Every, o.Clock = x.Spec.Stream.Count, time.Duration(x.Spec.For), ReadEvery, s.Clock
	err := network.Streams(ctx, o, keep)
	if err != nil {
		return fmt.Errorf("send streams: %w", err)
	}
	return nil
}

// devices keeps what the devices of both ends count.
type devices struct {
	session *Session
	step    string
	at      []network.Namespace
}

func newDevices(s *Session, step string, at ...network.Namespace) (*devices, error) {
	d := &devices{s, step, at}
	return d, d.tryRead()
}

func (d *devices) sampleDevices(over <-chan struct{}) {
	tick := time.NewTicker(deviceEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.readDevices()
		case <-over:
			return
		}
	}
}

func (d *devices) readDevices() {
	if err := d.tryRead(); err != nil {
		d.session.Log.Warn("devices not read", "step", d.step, "error", err)
	}
}

func (d *devices) tryRead() error {
	w := d.session.Journal.Records
	for _, at := range d.at {
		all, err := network.Devices(at)
		if err != nil {
			return err
		}
		now := d.session.Clock.Now()
		for _, one := range all {
			for _, c := range []struct {
				name string
				n    uint64
			}{
				{sli.NetworkPacketsSent, one.SentPackets}, {sli.NetworkPacketsReceived, one.ReceivedPackets},
				{sli.NetworkBytesSent, one.SentBytes}, {sli.NetworkBytesReceived, one.ReceivedBytes},
				{sli.NetworkDropsSent, one.SentDropped}, {sli.NetworkDropsReceived, one.ReceivedDropped},
			} {
				id := w.Series(record.Series{Target: sli.Network, Name: c.name, Labels: []record.Label{
					{Name: "device", Value: one.Name}, {Name: "kind", Value: one.Kind}, {Name: "namespace", Value: string(at)}}})
				w.Sample(record.Sample{Series: id, At: now, Value: float64(c.n)})
			}
		}
	}
	return nil
}
