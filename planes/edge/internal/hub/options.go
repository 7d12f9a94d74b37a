package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
)

// The words of the options. Where one is called KubeEdge's it is the default.
const (
	OwnerAll = "all" // every hub handles what concerns any edge: KubeEdge's
	OwnerOwn = "own" // what concerns the edges that hang at it

	ResyncIncremental = "incremental" // what an edge has missed comes with the next round: KubeEdge's
	ResyncConnect     = "connect"     // as soon as it is back
	ResyncFull        = "full"        // everything, as soon as it is back

	StoreCRD   = "crd"   // what is acknowledged stands in ObjectSyncs: KubeEdge's
	StoreLocal = "local" // in the hub's memory: after a restart everything is sent again
	StoreNone  = "none"  // nowhere: whoever comes back gets everything

	FilterAll  = "all"  // nodes: every change goes to the edge: KubeEdge's
	FilterMeta = "meta" // pods: but those of status and version alone; managedFields count: KubeEdge's
	FilterSpec = "spec" // what an edge acts on
	FilterOff  = "off"  // nodes: none

	BirthDispatch = "dispatch" // a new ObjectSync is made before the object is sent, by the one goroutine that dispatches: KubeEdge's
	BirthAck      = "ack"      // when the edge acknowledges it

	AnnotateRead  = "read"  // the node of who connects is read, up to three times a second apart, to write which hub it hangs at: KubeEdge's
	AnnotateWatch = "watch" // only where the hub's own watch shows another hub: who joins brings it along

	JoinPatch = "patch" // a node is made without the labels that are Kubernetes' own, which a second call brings: KubeEdge's
	JoinWhole = "whole" // as the edge says

	RequestsAny     = "any"     // whichever worker is free takes what an edge asks, so that a status which was sent twice, or slowly, can undo a later one: KubeEdge's
	RequestsOrdered = "ordered" // what is asked about one object waits for one worker

	LookupWalk  = "walk"  // whether a model is still used, all devices are looked at for: KubeEdge's
	LookupIndex = "index" // those of the edge that are of it

	QueuesHead = "head"  // what waits for an edge waits by its UID, and goes with the connection: KubeEdge's of today
	QueuesV111 = "v1.11" // by kind, namespace and name, and outlives it; changes of nodes do not go down: KubeEdge's of v1.11, which the published test flew

	LimitSilent = "silent" // whoever is one too many stays connected and is not heard: KubeEdge's
	LimitClose  = "close"  // is refused
)

// Options are what a hub is told.
type Options struct {
	Config                         *rest.Config
	Name                           string // of this hub, among several of a plane
	Address                        string // where edges reach it, without a port
	WebsocketPort, EnrolmentPort   int    // 0: one that is free, and after a restart the same again
	Owner, Resync, Store           string
	NodeFilter, PodFilter          string
	Birth, LimitAnswer             string
	Annotate, Join                 string
	SuccessGet                     bool // an ObjectSync is read before its status is written
	Queues                         string
	Window                         int // messages that an edge has not acknowledged
	Dispatchers                    int
	Workers, Buffer                int // of each kind of request of the edges
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
	Registry                       *instrument.Registry
	Clock                          clock.Clock
	Log                            *slog.Logger
}

// Default returns KubeEdge's semantics.
func Default() Options {
	return Options{
		Name: "hub", Address: "127.0.0.1", Owner: OwnerAll, Resync: ResyncIncremental, Store: StoreCRD, NodeFilter: FilterAll, PodFilter: FilterMeta,
		Birth: BirthDispatch, LimitAnswer: LimitSilent, Annotate: AnnotateRead, Join: JoinPatch, SuccessGet: true, Queues: QueuesHead, Window: 1, Dispatchers: 1, Workers: 100, Buffer: 1024, Requests: RequestsAny,
		NodeLimit: 500, Keepalive: 30 * time.Second, Round: 5 * time.Second, ResendAfter: 5 * time.Second, Resends: 5, HandshakeTimeout: 30 * time.Second,
		DeviceWorkers: 1, DeviceLookup: LookupWalk, ModelWait: 10 * time.Second,
	}
}

// Improved are the flags of the preset of that name, with their values.
func Improved() map[string]string {
	return map[string]string{
		"owner": OwnerOwn, "resync": ResyncConnect, "node-filter": FilterSpec, "pod-filter": FilterSpec, "birth": BirthAck, "limit-answer": LimitClose,
		"annotate": AnnotateWatch, "join": JoinWhole, "success-get": "false", "window": "16", "dispatchers": "8", "requests": RequestsOrdered, "admit": "400", "write-timeout": "15s",
		"device-workers": "16", "device-lookup": LookupIndex, "model-wait": "0s",
	}
}

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	var errs []error
	for _, c := range []struct {
		flag, value string
		words       []string
	}{
		{"owner", o.Owner, []string{OwnerAll, OwnerOwn}},
		{"resync", o.Resync, []string{ResyncIncremental, ResyncConnect, ResyncFull}},
		{"store", o.Store, []string{StoreCRD, StoreLocal, StoreNone}},
		{"node-filter", o.NodeFilter, []string{FilterAll, FilterSpec, FilterOff}},
		{"pod-filter", o.PodFilter, []string{FilterMeta, FilterSpec}},
		{"birth", o.Birth, []string{BirthDispatch, BirthAck}},
		{"limit-answer", o.LimitAnswer, []string{LimitSilent, LimitClose}},
		{"annotate", o.Annotate, []string{AnnotateRead, AnnotateWatch}},
		{"join", o.Join, []string{JoinPatch, JoinWhole}},
		{"queues", o.Queues, []string{QueuesHead, QueuesV111}},
		{"requests", o.Requests, []string{RequestsAny, RequestsOrdered}},
		{"device-lookup", o.DeviceLookup, []string{LookupWalk, LookupIndex}},
	} {
		known := false
		for _, w := range c.words {
			known = known || w == c.value
		}
		if !known {
			errs = append(errs, fmt.Errorf("%s %q: want one of %v", c.flag, c.value, c.words))
		}
	}
	if o.Window < 1 || o.Dispatchers < 1 || o.Workers < 1 || o.Buffer < 1 || o.NodeLimit < 1 || o.Resends < 1 || o.DeviceWorkers < 1 {
		errs = append(errs, errors.New("window, dispatchers, workers, buffer, node-limit, resends, device-workers: want at least 1 of each"))
	}
	if o.Keepalive <= 0 || o.Round <= 0 || o.ResendAfter <= 0 {
		errs = append(errs, errors.New("keepalive, round, resend-after: want more than 0"))
	}
	if o.Admit < 0 || o.WriteTimeout < 0 || o.ModelWait < 0 {
		errs = append(errs, errors.New("admit, write-timeout, model-wait: want 0 or more"))
	}
	return errors.Join(errs...)
}
