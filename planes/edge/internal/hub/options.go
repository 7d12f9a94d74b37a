package hub

import (
	"time"

	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// The words of the options; Words says what they do.
const (
	OwnerAll = "all"
	OwnerOwn = "own"

	ResyncIncremental = "incremental"
	ResyncConnect     = "connect"
	ResyncFull        = "full"

	StoreCRD   = "crd"
	StoreLocal = "local"
	StoreNone  = "none"

	FilterAll  = "all"
	FilterMeta = "meta"
	FilterSpec = "spec"
	FilterOff  = "off"

	BirthDispatch = "dispatch"
	BirthAck      = "ack"

	AnnotateRead  = "read"
	AnnotateWatch = "watch"

	JoinPatch = "patch"
	JoinWhole = "whole"

	RequestsAny     = "any"
	RequestsOrdered = "ordered"

	LookupWalk  = "walk"
	LookupIndex = "index"

	QueuesHead = "head"
	QueuesV111 = "v1.11"

	AnswersDispatch = "dispatch"
	AnswersDirect   = "direct"

	LeasesWatch = "watch"
	LeasesRead  = "read"

	LimitSilent = "silent"
	LimitClose  = "close"
)

// Options are what a hub is told.
type Options struct {
	process.Env
	Limiter                        limiter.Rate // of all calls
	Name                           string       // of this hub, among several of a plane
	Address                        string       // where edges reach it, without a port
	WebsocketPort, EnrolmentPort   int          // 0: one that is free, and after a restart the same again
	Owner, Resync, Store           string
	NodeFilter, PodFilter          string
	Birth, LimitAnswer             string
	Annotate, Join                 string
	SuccessGet                     bool // an ObjectSync is read before its status is written
	Queues                         string
	Window                         int // messages that an edge has not acknowledged
	Dispatchers                    int
	Workers, Buffer                counts // of each kind of request of the edges
	Answers, Leases                string
	Requests                       string
	NodeLimit                      int
	Keepalive, Round, ResendAfter  time.Duration
	Resends                        int           // and then the message waits for longer and longer
	WriteTimeout, HandshakeTimeout time.Duration // 0: none
	Admit                          float64       // handshakes a second; 0: as they come
	Authorize                      bool          // the name in the certificate must be the node's
	Crypto                         bool          // crypto/tls stays on connections
	QUIC                           bool          // edges may come by QUIC, too
	Devices                        bool          // edges have devices
	DeviceWorkers                  int           // of what devices report
	DeviceLookup                   string
	ModelWait                      time.Duration // for the model of a new device, and with it all others wait; 0: what comes later is sent then
}

// autoRate is a rate limit that follows the node limit as long as it is zero.
type autoRate limiter.Rate

const autoWord = "auto"

// String returns QPS/BURST or auto.
func (r *autoRate) String() string {
	if *r == (autoRate{}) {
		return autoWord
	}
	return limiter.Rate(*r).String()
}

// Set reads QPS/BURST or auto.
func (r *autoRate) Set(text string) error {
	if text == autoWord {
		*r = autoRate{}
		return nil
	}
	return (*limiter.Rate)(r).Set(text)
}

// Type says what the flag takes.
func (r *autoRate) Type() string { return "QPS/BURST" }

// rate returns the rate limit: KubeEdge sets 5 and 10 times the node limit.
func (o *Options) rate() limiter.Rate {
	if o.Limiter == (limiter.Rate{}) {
		return limiter.Rate{QPS: float32(5 * o.NodeLimit), Burst: 10 * o.NodeLimit}
	}
	return o.Limiter
}

// PresetV111 is the hub of KubeEdge v1.11, and PresetReport that hub with the settings of the
// published test.
const (
	PresetV111   = "v1.11"
	PresetReport = "report"
)

// Default returns KubeEdge's semantics.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose: KubeEdge's value is the default, of which the
// text says what it costs.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Custom((*autoRate)(&o.Limiter), "limiter", "client-side rate limit `QPS/BURST` shared by all requests of the hub; auto: 5 and 10 times the node limit",
			words.Default(autoWord, ""), words.In(PresetV111, "100/200", ""), words.In(PresetReport, "60000/80000", "")),
		words.Of(&o.Name, "name", "`NAME` of this hub, if there are several", words.Default("hub", "")),
		words.Of(&o.Address, "address", "`IP` where edges reach the hub", words.Default("127.0.0.1", "")),
		words.Of(&o.WebsocketPort, "websocket-port", "`PORT` of WebSocket connections; KubeEdge's is 10000; 0: a free one", words.Default(0, "")).AtLeast(0),
		words.Of(&o.EnrolmentPort, "enrolment-port", "`PORT` of enrolment; KubeEdge's is 10002; 0: a free one", words.Default(0, "")).AtLeast(0),
		words.Of(&o.Owner, "owner", "edges whose events the hub handles",
			words.Default(OwnerAll, "every hub handles the events of every edge; the hub that is late with an ObjectSync drops the message"),
			words.Improved(OwnerOwn, "those of the edges connected to it")),
		words.Of(&o.Resync, "resync", "how an edge that reconnects gets what it missed",
			words.Default(ResyncIncremental, "with the next round, after up to 5 s"),
			words.Improved(ResyncConnect, "when it connects"),
			words.Or(ResyncFull, "everything, when it connects")),
		words.Of(&o.Store, "store", "where acknowledgements are stored",
			words.Default(StoreCRD, "in ObjectSyncs"),
			words.Or(StoreLocal, "in the hub's memory: after a restart everything is sent again"),
			words.Or(StoreNone, "nowhere: an edge that reconnects gets everything")),
		words.Of(&o.NodeFilter, "node-filter", "which changes of nodes are sent to edges",
			words.Default(FilterAll, "every change: each heartbeat of a node is sent, acknowledged and stored"),
			words.Improved(FilterSpec, "changes of labels, annotations and taints"),
			words.Or(FilterOff, "none")),
		words.Of(&o.PodFilter, "pod-filter", "which changes of pods are sent to edges",
			words.Default(FilterMeta, "all but those of status and version; a status shows in managedFields, so that it is sent too"),
			words.Improved(FilterSpec, "changes that an edge acts on")),
		words.Of(&o.Birth, "birth", "when a new ObjectSync is created",
			words.Default(BirthDispatch, "before the object is sent, by the only goroutine that dispatches"),
			words.Improved(BirthAck, "with the first acknowledgement")),
		words.Of(&o.LimitAnswer, "limit-answer", "answer to an edge beyond --node-limit",
			words.Default(LimitSilent, "one edge more is served; the next ones stay connected, the hub does what they ask and answers nothing"),
			words.Improved(LimitClose, "the connection is refused")),
		words.Of(&o.Annotate, "annotate", "how the hub writes its address to the node of an edge that connects",
			words.Default(AnnotateRead, "it reads the node first, up to three times"),
			words.Improved(AnnotateWatch, "it writes only where its own watch shows another hub")),
		words.Of(&o.Join, "join", "how a node is created",
			words.Default(JoinPatch, "with two calls: the second one adds the labels that are Kubernetes' own"),
			words.Improved(JoinWhole, "with one call")),
		words.Of(&o.SuccessGet, "success-get", "read an ObjectSync before its status is written",
			words.Default(true, "an ObjectSync is read before its status is written"), words.Improved(false, "")),
		words.Of(&o.Queues, "queues", "key and lifetime of the queue of an edge",
			words.Default(QueuesHead, "by UID, and gone with the connection: KubeEdge's of today"),
			words.In(PresetReport, QueuesV111, ""),
			words.In(PresetV111, QueuesV111, "by kind, namespace and name, and kept when the connection ends; changes of nodes are not sent: KubeEdge's of v1.11, which the published test ran")),
		words.Of(&o.Window, "window", "maximum `NUMBER` of unacknowledged messages to an edge",
			words.Default(1, "one message at a time, for up to 25 s without an acknowledgement"), words.Improved(16, "")).AtLeast(1),
		words.Of(&o.Dispatchers, "dispatchers", "`NUMBER` of dispatchers of events to edges", words.Default(1, ""), words.Improved(8, "")).AtLeast(1),
		words.Of(&o.Answers, "answers", "way of the answers to requests of edges",
			words.Default(AnswersDispatch, "behind the dispatcher; a ConfigMap or Secret that waits for an edge is replaced by a newer answer with it, so that one of two edge requests for it is never answered, and repeats after 60 s"),
			words.Improved(AnswersDirect, "each is sent at once")),
		words.Of(&o.Leases, "leases", "where the hub reads the lease that an edge asks for",
			words.Default(LeasesWatch, "in its watch of all leases, which brings every renewal"),
			words.Improved(LeasesRead, "at the API server, once for each edge that joins")),
		words.Custom(&o.Workers, "workers", "`NUMBERS` of workers for each kind of request of edges, such as 100 or podpatch=20,lease=node-limit",
			words.Default("100,lease=node-limit,node=node-limit,nodestatus=1,podstatus=1", ""), words.Improved("100", ""),
			words.In(PresetV111, "4,nodestatus=1,podstatus=1", ""),
			words.In(PresetReport, "1000,node=5000,nodestatus=10000,pod=5000,podstatus=20000,serviceaccounttoken=10000", "")),
		words.Of(&o.Requests, "requests", "which worker handles a request of an edge",
			words.Default(RequestsAny, "any free one: a status of a pod that was sent twice, or slowly, can undo a later one"),
			words.Improved(RequestsOrdered, "one worker for all requests about an object")),
		words.Custom(&o.Buffer, "buffer", "maximum `NUMBERS` of queued requests or events of each kind, such as 1024 or podstatus=102400",
			words.Default("1024", ""), words.In(PresetReport, "10240,node=15240,nodestatus=30000,podstatus=102400", "")),
		words.Of(&o.NodeLimit, "node-limit", "maximum `NUMBER` of edges", words.Default(500, ""),
			words.In(PresetV111, 1000, ""), words.In(PresetReport, 30000, "")).AtLeast(1),
		words.Of(&o.Keepalive, "keepalive", "end a session after this `DURATION` without a keepalive", words.Default(30*time.Second, "")).Above(0),
		words.Of(&o.Round, "round", "`DURATION` between comparisons of ObjectSyncs with the objects", words.Default(5*time.Second, "")).Above(0),
		words.Of(&o.ResendAfter, "resend-after", "resend a message after this `DURATION` without an acknowledgement", words.Default(5*time.Second, "")).Above(0),
		words.Of(&o.Resends, "resends", "`NUMBER` of resends before a message backs off", words.Default(5, "")).AtLeast(1),
		words.Of(&o.WriteTimeout, "write-timeout", "write timeout for an edge that does not read; 0: none",
			words.Default(time.Duration(0), "none"), words.Improved(15*time.Second, "")).AtLeast(0),
		words.Of(&o.HandshakeTimeout, "handshake-timeout", "handshake timeout of a new connection; KubeEdge has none", words.Default(30*time.Second, "")),
		words.Of(&o.Admit, "admit", "maximum `NUMBER` of handshakes per second; 0: no limit",
			words.Default(0.0, "no limit"), words.Improved(400.0, "")).AtLeast(0),
		words.Of(&o.QUIC, "quic", "also accept edges over QUIC, on a port of its own", words.Default(false, "")),
		words.Of(&o.Devices, "devices", "install the definitions of devices, and handle the devices of edges", words.Default(false, "")),
		words.Of(&o.DeviceWorkers, "device-workers", "`NUMBER` of workers for device reports",
			words.Default(1, "one worker writes the reports of all devices"), words.Improved(16, "reports of a device stay in order")).AtLeast(1),
		words.Of(&o.DeviceLookup, "device-lookup", "how the hub knows whether a model is still used",
			words.Default(LookupWalk, "it looks at all devices; a model whose last device left while no hub watched stays at the edge, and so does a device that moved while a round was under way"),
			words.Improved(LookupIndex, "it looks at those of the edge, and rounds at where a device is")),
		words.Of(&o.ModelWait, "model-wait", "how long a device without a model blocks all others; 0: the model is sent when it comes",
			words.Default(9*time.Second, "a device that comes, or the last of its model that leaves an edge, blocks all others for so long if the model is missing"),
			words.Improved(time.Duration(0), "the model is sent when it comes")).AtLeast(0),
		words.Of(&o.Authorize, "authorize", "require the name of the node in an edge's certificate", words.Default(false, "")),
		words.Of(&o.Crypto, "crypto-tls", "leave the records of connections to crypto/tls", words.Default(false, "")),
	}
}

// omitsStatus says that changes of the status of a kind do not go down.
func (o *Options) omitsStatus(kind string) bool {
	return kind == message.TypePod && o.PodFilter == FilterSpec || kind == message.TypeNode && o.NodeFilter == FilterSpec
}
