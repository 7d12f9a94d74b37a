package configuration

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

// Options are what kwok's flags and its KwokConfiguration say; the yaml tags
// are the fields of its options.
type Options struct {
	Kubeconfig string   `yaml:"-"` // path; empty: that of the pod which the program runs in
	Master     string   `yaml:"-"` // address of the API server, before the kubeconfig's
	Config     []string `yaml:"-"` // files, in order; - is the standard input

	// Which nodes are managed. One of these is given, or the two selectors.
	ManageSingleNode                  string `yaml:"manageSingleNode"`
	ManageAllNodes                    bool   `yaml:"manageAllNodes"`
	ManageNodesWithAnnotationSelector string `yaml:"manageNodesWithAnnotationSelector"`
	ManageNodesWithLabelSelector      string `yaml:"manageNodesWithLabelSelector"`

	// Whose status is left alone, of nodes and pods.
	DisregardStatusWithAnnotationSelector string `yaml:"disregardStatusWithAnnotationSelector"`
	DisregardStatusWithLabelSelector      string `yaml:"disregardStatusWithLabelSelector"`

	// What nodes say of themselves.
	NodeIP   string `yaml:"nodeIP"`   // empty: an address of this machine
	NodeName string `yaml:"nodeName"` // the host name of every node
	NodePort int    `yaml:"nodePort"` // the kubelet's port; 0: none
	CIDR     string `yaml:"cidr"`     // of pod addresses; default 10.0.0.0/24

	NodeLeaseDurationSeconds uint `yaml:"nodeLeaseDurationSeconds"` // 0: no leases

	// The server that stands for the nodes' kubelets.
	ServerAddress           string   `yaml:"serverAddress"` // host:port; empty: see Serve
	TLSCertFile             string   `yaml:"tlsCertFile"`   // with TLSPrivateKeyFile; empty: a certificate of its own making
	TLSPrivateKeyFile       string   `yaml:"tlsPrivateKeyFile"`
	ClientCAFile            string   `yaml:"-"` // not of kwok: only clients with a certificate of this authority are answered
	EnableDebuggingHandlers bool     `yaml:"enableDebuggingHandlers"`
	EnableProfilingHandler  bool     `yaml:"enableProfilingHandler"`
	EnableCRDs              []string `yaml:"enableCRDs"` // kinds that come from the cluster and not from files

	// What is accepted and has no meaning here: Ignored names what was given.
	EnableContentionProfiling       bool   `yaml:"enableContentionProfiling"`
	PodPlayStageParallelism         uint   `yaml:"podPlayStageParallelism"`
	NodePlayStageParallelism        uint   `yaml:"nodePlayStageParallelism"`
	NodeLeaseParallelism            uint   `yaml:"nodeLeaseParallelism"`
	PodsOnNodeSyncParallelism       uint   `yaml:"podsOnNodeSyncParallelism"`
	EnablePodsOnNodeSyncListPager   *bool  `yaml:"enablePodsOnNodeSyncListPager"`
	EnablePodsOnNodeSyncStreamWatch *bool  `yaml:"enablePodsOnNodeSyncStreamWatch"`
	TracingEndpoint                 string `yaml:"-"`
	TracingSamplingRatePerMillion   int32  `yaml:"-"`

	Verbosity string `yaml:"-"` // DEBUG, INFO, WARN, ERROR, or a number such as -4
}

// Level returns the level of Verbosity; that of no verbosity is info.
func (o *Options) Level() (slog.Level, error) {
	var level slog.Level
	text := o.Verbosity
	if n, err := strconv.Atoi(text); err == nil {
		return slog.Level(n), nil
	}
	if text == "" {
		return slog.LevelInfo, nil
	}
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("v: want DEBUG, INFO, WARN, ERROR or a number such as -4, got %q", text)
	}
	return level, nil
}

// Default returns kwok's defaults.
func Default() Options {
	return Options{CIDR: "10.0.0.0/24", EnableDebuggingHandlers: true, EnableProfilingHandler: true}
}

// Serve returns the address to serve on; empty for no server. As in kwok a node
// port without an address means that port on all addresses, but only where a client
// CA says who may ask: what is served runs commands and reads files. Else it is that
// port of this machine alone.
func (o *Options) Serve() string {
	switch {
	case o.ServerAddress != "" || o.NodePort == 0:
		return o.ServerAddress
	case o.ClientCAFile == "":
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(o.NodePort))
	}
	return net.JoinHostPort("0.0.0.0", strconv.Itoa(o.NodePort))
}

// ServesOnlyHere says in a sentence that a node port is not served to others; empty
// where nobody could expect that.
func (o *Options) ServesOnlyHere() string {
	if o.ServerAddress != "" || o.NodePort == 0 || o.ClientCAFile != "" {
		return ""
	}
	return fmt.Sprintf("node-port %d is served on 127.0.0.1 only, since anybody could ask for logs and commands without client-ca-file; server-address 0.0.0.0:%[1]d serves it to all", o.NodePort)
}

// Ignored names the options that were given and have no meaning here, with why.
func (o *Options) Ignored() []string {
	var out []string
	given := reflect.ValueOf(o).Elem()
	for _, f := range OptionFates()[0].Fields {
		for i := range given.NumField() {
			if f.Fate == kit.Noted && given.Type().Field(i).Tag.Get("yaml") == f.Name && !given.Field(i).IsZero() {
				out = append(out, f.Name+" "+f.Text)
			}
		}
	}
	if o.TracingEndpoint != "" {
		out = append(out, "tracing-endpoint has no meaning here: no traces are sent")
	}
	return out
}

// Validate says what is wrong with the options; the error joins all of it.
func (o *Options) Validate() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	selectors := o.ManageNodesWithAnnotationSelector != "" || o.ManageNodesWithLabelSelector != ""
	switch {
	case o.ManageSingleNode != "" && o.ManageAllNodes:
		add("manage-single-node excludes manage-all-nodes")
	case o.ManageSingleNode != "" && selectors:
		add("manage-single-node excludes manage-nodes-with-annotation-selector and manage-nodes-with-label-selector")
	case o.ManageAllNodes && selectors:
		add("manage-all-nodes excludes manage-nodes-with-annotation-selector and manage-nodes-with-label-selector")
	}
	selector := func(name, s string) {
		if _, err := labels.Parse(s); err != nil {
			add("%s: %w", name, err)
		}
	}
	selector("manage-nodes-with-annotation-selector", o.ManageNodesWithAnnotationSelector)
	selector("manage-nodes-with-label-selector", o.ManageNodesWithLabelSelector)
	selector("disregard-status-with-annotation-selector", o.DisregardStatusWithAnnotationSelector)
	selector("disregard-status-with-label-selector", o.DisregardStatusWithLabelSelector)
	if _, err := netip.ParsePrefix(o.CIDR); err != nil {
		add("cidr: %q is no network such as 10.0.0.0/24", o.CIDR)
	}
	if _, err := netip.ParseAddr(o.NodeIP); o.NodeIP != "" && err != nil {
		add("node-ip: %q is no IP address", o.NodeIP)
	}
	if o.NodePort < 0 || o.NodePort > 65535 {
		add("node-port: want 0 to 65535, got %d", o.NodePort)
	}
	if _, _, err := net.SplitHostPort(o.ServerAddress); o.ServerAddress != "" && err != nil {
		add("server-address: %q is no address such as 127.0.0.1:10247", o.ServerAddress)
	}
	if (o.TLSCertFile == "") != (o.TLSPrivateKeyFile == "") {
		add("tls-cert-file and tls-private-key-file go together")
	}
	for i, name := range o.EnableCRDs {
		if _, known := kindOf(name); !known {
			add("enable-crds: %w", kwok.Unknown("kind", name, kindNames()))
		} else if slices.Contains(o.EnableCRDs[:i], name) {
			add("enable-crds: %s stands there twice", name)
		}
	}
	if _, err := o.Level(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
