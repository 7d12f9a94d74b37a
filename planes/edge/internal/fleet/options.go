package fleet

import (
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// The words of the options.
const (
	CertificatesOwn    = "own"    // each edge enrols: KubeEdge's
	CertificatesShared = "shared" // one enrols for all: a handshake less for each

	HeartbeatLease  = "lease"      // a lease, and a patch of the status where it has changed or after long: KubeEdge's of today
	HeartbeatStatus = "nodestatus" // the whole status and no lease, and of pods their whole statuses: KubeEdge's of v1.11, which the published test flew

	TransportWebsocket = "websocket"
	TransportQUIC      = "quic" // of our own: KubeEdge's speaks to nothing of today

	TLSFull   = "full"   // each connection makes a whole handshake: KubeEdge's
	TLSResume = "resume" // one that comes again goes on where the last one ended; with Crypto at both ends

	BalanceFixed      = "fixed"       // each edge has one hub
	BalanceRandom     = "random"      // a balancer leads each dial to a random hub that is there
	BalanceRoundRobin = "round-robin" // likewise to one hub after the other

	BackoffFixed  = "fixed30" // 30 s, then five dials 5 s apart, without jitter: KubeEdge's
	BackoffJitter = "jitter"  // at random within a time that doubles from 1 s to 30 s
)

// presetV111 is the edges of the published test.
const presetV111 = "v1.11"

// Options are what a fleet is told.
type Options struct {
	process.Env  // the process has the edges whose number leaves Shard divided by Shards
	Edges        int
	Prefix       string // of their names
	JoinRate     float64
	Dialers      int      // dials under way at the same time
	Hubs         int      // that the fleet waits for before its edges connect
	HubAddresses []string // in place of those that the plane says
	Token        string   // in place of the plane's
	Balance      string
	Delay        time.Duration // of messages, one way
	Loss         float64       // share of messages of which a packet is lost
	FlapEvery    time.Duration // between the beginnings of two outages of an edge's link; 0: there are none
	FlapFor      time.Duration // of an outage
	Sources      int           // source addresses 127.0.0.2 and on; 0: as the kernel chooses
	Certificates string
	Backoff      string
	Crypto       bool
	TLS          string
	Keepalive    time.Duration
	Grid         time.Duration // what edges do again and again they do on multiples of it, together; 0: each for itself
	Lease        time.Duration // 0: edges have none
	Status       time.Duration // of a node without change; 0: never
	Heartbeat    string
	Transport    string
	PodStart     time.Duration // median; what an edge has to fetch comes on top
	PodStop      time.Duration
	CompareAfter time.Duration // a pod that runs has come back as pending, and is said to run once more; 0: never
	DropAcks     float64       // share of acknowledgements that get lost
	DelayAcks    time.Duration
	ReadEvery    time.Duration // an edge reads what has come no more often; 0: at once
	Duplicate    float64       // share of messages, keepalives aside, that are sent twice
	Nodes        bool          // edges join as nodes; else they connect and send keepalives alone
	CompareNodes bool          // an edge is to have its node, too
	Pods         int           // that fit on an edge
	Devices      bool          // edges are to have their devices
	Reports      int           // of each device; 0: none
	ReportEvery  time.Duration
	Seed         uint64
}

// Default returns what KubeEdge's edges do.
func Default() Options { return words.DefaultsOf[Options]() }

// maxEdges is how many fit into a process: it has 20,000 descriptors as a rule.
const maxEdges = 19000

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	errs := []error{o.Words().Check()}
	if own := (o.Edges + o.Shards - 1) / max(o.Shards, 1); own > maxEdges {
		errs = append(errs, fmt.Errorf("edges %d: want at most %d in a process, which has a descriptor for each; run more shards", own, maxEdges))
	}
	if _, err := o.givenHubs(); err != nil {
		errs = append(errs, err)
	}
	if o.FlapEvery > 0 && o.FlapFor >= o.FlapEvery {
		errs = append(errs, fmt.Errorf("flap-for %v: want less than --flap-every %v", o.FlapFor, o.FlapEvery))
	}
	if o.Grid > o.Keepalive {
		errs = append(errs, fmt.Errorf("grid %v: want 0 up to the keepalive's %v", o.Grid, o.Keepalive))
	}
	if o.DropAcks == 1 {
		errs = append(errs, errors.New("drop-acks 1: want less than 1: an edge that acknowledges nothing gets nothing else"))
	}
	if o.TLS == TLSResume && (!o.Crypto || o.Transport != TransportWebsocket) {
		errs = append(errs, errors.New("tls resume: want --crypto-tls, here and at the hubs, and websockets: connections that are taken over from crypto/tls have no tickets"))
	}
	return errors.Join(errs...)
}

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Edges, "edges", "`NUMBER` of edges of all shards", words.Default(100, "")).AtLeast(1),
		words.Of(&o.Prefix, "prefix", "`PREFIX` of edge names", words.Default("edge", "")),
		words.Of(&o.JoinRate, "join-rate", "`NUMBER` of edges that first connect per second", words.Default(300.0, "")).Above(0),
		words.Of(&o.Dialers, "dialers", "`NUMBER` of connections opened in parallel", words.Default(256, "")).AtLeast(1),
		words.Of(&o.Hubs, "hubs", "`NUMBER` of hubs to wait for before edges connect", words.Default(1, "")).AtLeast(1),
		words.Texts(&o.HubAddresses, "hub-addresses", "hubs as `HOST:PORT/PORT`, of WebSocket and enrollment, separated by commas; none: those that ConfigMap kubeedge/edge-hubs names"),
		words.Of(&o.Token, "token", "`TOKEN` for enrollment; none: that of Secret kubeedge/tokensecret", words.Default("", "")),
		words.Of(&o.Balance, "balance", "hub to which an edge connects",
			words.Default(BalanceFixed, "one for each edge, for good"),
			words.Or(BalanceRandom, "at each dial a random one that is there, as behind a balancer"),
			words.Or(BalanceRoundRobin, "likewise, one hub after the other")),
		words.Of(&o.Delay, "delay", "model: `DURATION` that each message takes between hub and edge", words.Default(time.Duration(0), "")).AtLeast(0),
		words.Of(&o.Loss, "loss", "model: `SHARE` of messages that lose a packet and come after TCP's retransmission, 0 to 1", words.Default(0.0, "")).AtLeast(0).AtMost(1),
		words.Of(&o.FlapEvery, "flap-every", "model: `DURATION` between outages of an edge's link, in which nothing is lost and nothing arrives; 0: none", words.Default(time.Duration(0), "")).AtLeast(0),
		words.Of(&o.FlapFor, "flap-for", "model: `DURATION` of an outage of an edge's link", words.Default(10*time.Second, "")).AtLeast(0),
		words.Of(&o.Sources, "sources", "`NUMBER` of source addresses, from 127.0.0.2 on; 0: the kernel chooses", words.Default(0, "")).AtLeast(0).AtMost(250),
		words.Of(&o.Certificates, "certificates", "which edges enroll for a certificate",
			words.Default(CertificatesOwn, "each edge"), words.Or(CertificatesShared, "one for all: a handshake less for each")),
		words.Of(&o.Transport, "transport", "transport of connections", words.Default(TransportWebsocket, ""), words.Or(TransportQUIC, "")),
		words.Of(&o.Backoff, "backoff", "delay before an edge dials again",
			words.Default(BackoffFixed, "30 s, then five dials 5 s apart, without jitter"),
			words.Or(BackoffJitter, "at random within a time that doubles from 1 s to 30 s")),
		words.Of(&o.Crypto, "crypto-tls", "leave the records of connections to crypto/tls", words.Default(false, "")),
		words.Of(&o.TLS, "tls", "handshake of an edge that connects again", words.Default(TLSFull, ""), words.Or(TLSResume, "")),
		words.Of(&o.ReadEvery, "read-every", "minimum `DURATION` between two reads of an edge, over websockets; 0: none", words.Default(time.Duration(0), "")).AtLeast(0),
		words.Of(&o.Duplicate, "duplicate", "`SHARE` of messages that are sent twice, 0 to 1", words.Default(0.0, "")).AtLeast(0).AtMost(1),
		words.Of(&o.Keepalive, "keepalive", "`DURATION` between keepalives", words.Default(15*time.Second, "")).Above(0),
		words.Of(&o.Grid, "grid", "`DURATION` to whose multiples keepalives, leases and statuses of all edges are moved; 0: each edge has times of its own", words.Default(250*time.Millisecond, "")).AtLeast(0),
		words.Of(&o.Lease, "lease", "`DURATION` between renewals of leases; 0: edges have no lease", words.Default(10*time.Second, "")).AtLeast(0),
		words.Of(&o.Status, "status", "`DURATION` between status reports of an unchanged node; 0: none", words.Default(5*time.Minute, ""), words.In(presetV111, 60*time.Second, "")).AtLeast(0),
		words.Of(&o.Heartbeat, "heartbeat", "heartbeat of an edge",
			words.Default(HeartbeatLease, "a lease, and a patch of the status: KubeEdge's of today"),
			words.In(presetV111, HeartbeatStatus, "the whole status and no lease; pods report their whole status, and the hub deletes them: KubeEdge's of v1.11")),
		words.Of(&o.PodStart, "pod-start", "model: median `DURATION` of the start of a pod whose objects are there", words.Default(100*time.Millisecond, "")).AtLeast(0),
		words.Of(&o.PodStop, "pod-stop", "model: median `DURATION` of the end of a pod", words.Default(100*time.Millisecond, "")).AtLeast(0),
		words.Of(&o.CompareAfter, "compare-after", "`DURATION` after which an edge reports a running pod again that came back as pending; 0: never", words.Default(10*time.Second, "")).AtLeast(0),
		words.Of(&o.DropAcks, "drop-acks", "`SHARE` of acknowledgements that get lost, below 1", words.Default(0.0, "")).AtLeast(0).AtMost(1),
		words.Of(&o.DelayAcks, "delay-acks", "`DURATION` before each acknowledgement", words.Default(time.Duration(0), "")).AtLeast(0),
		words.Of(&o.Nodes, "nodes", "let edges join as nodes; false: they only connect and send keepalives", words.Default(true, "")),
		words.Of(&o.CompareNodes, "compare-nodes", "compare the node that an edge has with the API server's", words.Default(true, "")),
		words.Of(&o.Pods, "pods", "maximum `NUMBER` of pods on an edge", words.Default(110, "")).AtLeast(1),
		words.Of(&o.Devices, "devices", "give edges devices, and compare them with the API server's", words.Default(false, "")),
		words.Of(&o.Reports, "reports", "`NUMBER` of reports of each device", words.Default(0, "")).AtLeast(0),
		words.Of(&o.ReportEvery, "report-every", "`DURATION` between two reports of a device", words.Default(10*time.Second, "")).Above(0),
		words.Of(&o.Seed, "seed", "`SEED` of the simulated durations", words.Default(uint64(1), "")),
	}
}
