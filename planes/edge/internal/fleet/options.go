package fleet

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// The words of the options.
const (
	CertificatesOwn    = "own"    // each edge enrols: KubeEdge's
	CertificatesShared = "shared" // one enrols for all: a handshake less for each

	HeartbeatLease  = "lease"      // a lease, and a patch of the status where it has changed or after long: KubeEdge's of today
	HeartbeatStatus = "nodestatus" // the whole status and no lease: KubeEdge's of v1.11, which the published test flew

	TransportWebsocket = "websocket"
	TransportQUIC      = "quic" // of our own: KubeEdge's speaks to nothing of today

	TLSFull   = "full"   // each connection makes a whole handshake: KubeEdge's
	TLSResume = "resume" // one that comes again goes on where the last one ended; with Crypto at both ends

	BackoffFixed  = "fixed30" // 30 s, then five dials 5 s apart, without jitter: KubeEdge's
	BackoffJitter = "jitter"  // at random within a time that doubles from 1 s to 30 s
)

// Options are what a fleet is told.
type Options struct {
	Config        *rest.Config
	Edges         int
	Prefix        string // of their names
	Shard, Shards int    // of them, those whose number leaves Shard divided by Shards
	JoinRate      float64
	Dialers       int // dials under way at the same time
	Hubs          int // that the fleet waits for before its edges connect
	Sources       int // source addresses 127.0.0.2 and on; 0: as the kernel chooses
	Certificates  string
	Backoff       string
	Crypto        bool
	TLS           string
	Keepalive     time.Duration
	Grid          time.Duration // what edges do again and again they do on multiples of it, together; 0: each for itself
	Lease         time.Duration // 0: edges have none
	Status        time.Duration // of a node without change; 0: never
	Heartbeat     string
	Transport     string
	PodStart      time.Duration // median; what an edge has to fetch comes on top
	PodStop       time.Duration
	CompareAfter  time.Duration // a pod that runs has come back as pending, and is said to run once more; 0: never
	DropAcks      float64       // share of acknowledgements that get lost
	DelayAcks     time.Duration
	ReadEvery     time.Duration // an edge reads what has come no more often; 0: at once
	Duplicate     float64       // share of messages, keepalives aside, that are sent twice
	Nodes         bool          // edges join as nodes; else they connect and send keepalives alone
	CompareNodes  bool          // an edge is to have its node, too
	Pods          int           // that fit on an edge
	Devices       bool          // edges are to have their devices
	Reports       int           // of each device; 0: none
	ReportEvery   time.Duration
	Seed          uint64
	Registry      *instrument.Registry
	Clock         clock.Clock
	Log           *slog.Logger
}

// Default returns what KubeEdge's edges do.
func Default() Options {
	return Options{
		Edges: 100, Prefix: "edge", JoinRate: 300, Hubs: 1, Dialers: 256, Certificates: CertificatesOwn, Backoff: BackoffFixed, TLS: TLSFull,
		Keepalive: 15 * time.Second, Grid: 250 * time.Millisecond, Lease: 10 * time.Second, Status: 5 * time.Minute, Heartbeat: HeartbeatLease, Transport: TransportWebsocket, PodStart: 100 * time.Millisecond, PodStop: 100 * time.Millisecond, CompareAfter: 10 * time.Second,
		Nodes: true, CompareNodes: true, Pods: 110, ReportEvery: 10 * time.Second, Seed: 1,
	}
}

// maxEdges is how many fit into a process: it has 20,000 descriptors as a rule.
const maxEdges = 19000

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	var errs []error
	if o.Edges < 1 || o.Dialers < 1 || o.Pods < 1 {
		errs = append(errs, fmt.Errorf("edges %d, dialers %d, pods %d: want at least 1 of each", o.Edges, o.Dialers, o.Pods))
	}
	if own := (o.Edges + o.Shards - 1) / max(o.Shards, 1); own > maxEdges {
		errs = append(errs, fmt.Errorf("edges %d: want at most %d in a process, which has a descriptor for each; run more shards", own, maxEdges))
	}
	if o.Hubs < 1 {
		errs = append(errs, fmt.Errorf("hubs %d: want at least 1", o.Hubs))
	}
	if o.JoinRate <= 0 || o.Keepalive <= 0 {
		errs = append(errs, errors.New("join-rate, keepalive: want more than 0"))
	}
	if o.Grid < 0 || o.Grid > o.Keepalive {
		errs = append(errs, fmt.Errorf("grid %v: want 0 up to the keepalive's %v", o.Grid, o.Keepalive))
	}
	if o.Lease < 0 || o.Status < 0 || o.PodStart < 0 || o.PodStop < 0 || o.CompareAfter < 0 || o.DelayAcks < 0 || o.ReadEvery < 0 || o.Sources < 0 || o.Sources > 250 {
		errs = append(errs, errors.New("lease, status, pod-start, pod-stop, compare-after, delay-acks, read-every, sources: want 0 or more, and at most 250 sources"))
	}
	if o.Reports < 0 || o.ReportEvery <= 0 {
		errs = append(errs, errors.New("reports, report-every: want 0 or more, and more than 0"))
	}
	if o.DropAcks < 0 || o.DropAcks >= 1 {
		errs = append(errs, fmt.Errorf("drop-acks %g: want 0 up to, but not, 1", o.DropAcks))
	}
	if o.Duplicate < 0 || o.Duplicate > 1 {
		errs = append(errs, fmt.Errorf("duplicate %g: want 0 to 1", o.Duplicate))
	}
	if o.TLS != TLSFull && o.TLS != TLSResume {
		errs = append(errs, fmt.Errorf("tls %q: want %s or %s", o.TLS, TLSFull, TLSResume))
	}
	if o.TLS == TLSResume && (!o.Crypto || o.Transport != TransportWebsocket) {
		errs = append(errs, errors.New("tls resume: want --crypto-tls, here and at the hubs, and websockets: connections that are taken over from crypto/tls have no tickets"))
	}
	if o.Certificates != CertificatesOwn && o.Certificates != CertificatesShared {
		errs = append(errs, fmt.Errorf("certificates %q: want %s or %s", o.Certificates, CertificatesOwn, CertificatesShared))
	}
	if o.Transport != TransportWebsocket && o.Transport != TransportQUIC {
		errs = append(errs, fmt.Errorf("transport %q: want %s or %s", o.Transport, TransportWebsocket, TransportQUIC))
	}
	if o.Heartbeat != HeartbeatLease && o.Heartbeat != HeartbeatStatus {
		errs = append(errs, fmt.Errorf("heartbeat %q: want %s or %s", o.Heartbeat, HeartbeatLease, HeartbeatStatus))
	}
	if o.Backoff != BackoffFixed && o.Backoff != BackoffJitter {
		errs = append(errs, fmt.Errorf("backoff %q: want %s or %s", o.Backoff, BackoffFixed, BackoffJitter))
	}
	return errors.Join(errs...)
}
