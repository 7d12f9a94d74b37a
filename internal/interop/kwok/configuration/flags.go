package configuration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/pflag"
)

// flag is one of kwok's flags.
type flag struct {
	name  string
	usage string
	field func(*Options) any // pointer to what it sets
}

// kwokFlags returns kwok's, and client-ca-file.
func kwokFlags() []flag {
	return []flag{
		{"cidr", "`NETWORK` of pod addresses, for pods that have none", func(o *Options) any { return &o.CIDR }},
		{"client-ca-file", "`FILE` of certificate authorities; the server answers only clients with a certificate of one of them", func(o *Options) any { return &o.ClientCAFile }},
		{"disregard-status-with-annotation-selector", "do not change the status of nodes and pods whose annotations match `SELECTOR`", func(o *Options) any { return &o.DisregardStatusWithAnnotationSelector }},
		{"disregard-status-with-label-selector", "do not change the status of nodes and pods whose labels match `SELECTOR`", func(o *Options) any { return &o.DisregardStatusWithLabelSelector }},
		{"enable-crds", "`KINDS` to read from the cluster instead of files, such as Stage,Logs", func(o *Options) any { return &o.EnableCRDs }},
		{"kubeconfig", "kubeconfig `FILE` of the cluster", func(o *Options) any { return &o.Kubeconfig }},
		{"manage-all-nodes", "simulate every node of the cluster", func(o *Options) any { return &o.ManageAllNodes }},
		{"manage-nodes-with-annotation-selector", "simulate nodes whose annotations match `SELECTOR`", func(o *Options) any { return &o.ManageNodesWithAnnotationSelector }},
		{"manage-nodes-with-label-selector", "simulate nodes whose labels match `SELECTOR`", func(o *Options) any { return &o.ManageNodesWithLabelSelector }},
		{"manage-single-node", "simulate only the node `NAME`", func(o *Options) any { return &o.ManageSingleNode }},
		{"master", "`ADDRESS` of the API server, instead of that of the kubeconfig", func(o *Options) any { return &o.Master }},
		{"node-ip", "`ADDRESS` that nodes report", func(o *Options) any { return &o.NodeIP }},
		{"node-lease-duration-seconds", "duration of node leases in `SECONDS`; 0: no leases", func(o *Options) any { return &o.NodeLeaseDurationSeconds }},
		{"node-name", "host `NAME` that nodes report", func(o *Options) any { return &o.NodeName }},
		{"node-port", "`PORT` of the kubelet that nodes report", func(o *Options) any { return &o.NodePort }},
		{"server-address", "`ADDRESS` on which to serve logs, exec, attach, port-forward and metrics, as HOST:PORT", func(o *Options) any { return &o.ServerAddress }},
		{"tls-cert-file", "`FILE` with the certificate of --server-address (default: self-signed)", func(o *Options) any { return &o.TLSCertFile }},
		{"tls-private-key-file", "`FILE` with the key of --tls-cert-file", func(o *Options) any { return &o.TLSPrivateKeyFile }},
		{"tracing-endpoint", "ignored `ADDRESS`; accepted because kwok has the flag", func(o *Options) any { return &o.TracingEndpoint }},
		{"tracing-sampling-rate-per-million", "ignored `NUMBER`; accepted because kwok has the flag", func(o *Options) any { return &o.TracingSamplingRatePerMillion }},
		{"v", "log `LEVEL`: DEBUG, INFO, WARN, ERROR, or a number such as -4", func(o *Options) any { return &o.Verbosity }},
	}
}

// Flags are kwok's flags on a flag set.
type Flags struct {
	set   *pflag.FlagSet
	given Options // what the flags say; only of those that were given
}

// Register adds kwok's flags to a flag set. Their values are known after it was
// parsed: call Load then.
func Register(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set, given: Default()}
	for _, one := range kwokFlags() {
		switch p := one.field(&f.given).(type) {
		case *string:
			set.StringVarP(p, one.name, flagOfLetter(one.name), *p, one.usage)
		case *bool:
			set.BoolVar(p, one.name, *p, one.usage)
		case *int:
			set.IntVar(p, one.name, *p, one.usage)
		case *uint:
			set.UintVar(p, one.name, *p, one.usage)
		case *int32:
			set.Int32Var(p, one.name, *p, one.usage)
		case *[]string:
			set.StringSliceVar(p, one.name, *p, one.usage)
		}
	}
	set.StringSliceVarP(&f.given.Config, "config", "c", nil,
		"configuration `FILES`, or folders with a kustomization.yaml; -: standard input")
	return f
}

// flagOfLetter is the flag of one letter; kwok has it for v alone.
func flagOfLetter(name string) string {
	if len(name) == 1 {
		return name
	}
	return ""
}

// Load reads the files that the flags name and returns what flags, files and
// defaults say together: a flag that was given comes before the files, these
// before the defaults. stdin is read when a file is named -. The error joins
// all that is wrong.
func (f *Flags) Load(stdin io.Reader) (*Configuration, error) {
	paths, err := f.listPaths()
	if err != nil {
		return nil, err
	}
	c, err := Read(stdin, paths...)
	if err != nil {
		return nil, err
	}
	for _, one := range kwokFlags() {
		if f.set.Changed(one.name) {
			reflect.ValueOf(one.field(&c.Options)).Elem().Set(reflect.ValueOf(one.field(&f.given)).Elem())
		}
	}
	c.Options.Config = paths
	if err := c.findKubeconfig(f.set.Changed("kubeconfig")); err != nil {
		return nil, err
	}
	if err := c.checkAll(); err != nil {
		return nil, err
	}
	return c, nil
}

// listPaths returns the files to read: kwok's own file in the home folder comes
// first where there is one.
func (f *Flags) listPaths() ([]string, error) {
	var out []string
	own, err := ownFile()
	if err == nil {
		if _, err := os.Stat(own); err == nil {
			out = append(out, own)
		}
	}
	for _, given := range f.given.Config {
		path, err := expandHome(given)
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		if path != own {
			out = append(out, path)
		} else if len(out) == 0 {
			return nil, fmt.Errorf("config: there is no file %s", own)
		}
	}
	return out, nil
}

// ownFile is where kwok looks for its configuration.
func ownFile() (string, error) {
	folder := os.Getenv("KWOK_WORKDIR")
	if folder == "" {
		folder = "~/.kwok"
	}
	return expandHome(filepath.Join(folder, "kwok.yaml"))
}

// expandHome puts the home folder in the place of a leading ~.
func expandHome(path string) (string, error) {
	rest, home := strings.CutPrefix(path, "~")
	if !home || (rest != "" && rest[0] != '/') {
		return path, nil
	}
	folder, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return filepath.Join(folder, rest), nil
}

// findKubeconfig finds the file that says where the cluster is. One that was given
// must be there.
func (c *Configuration) findKubeconfig(given bool) error {
	if !given {
		c.Options.Kubeconfig = os.Getenv("KUBECONFIG")
		if c.Options.Kubeconfig == "" {
			c.Options.Kubeconfig = "~/.kube/config"
		}
	}
	if c.Options.Kubeconfig == "" {
		return errors.New("kubeconfig: the name that was given is empty")
	}
	path, err := expandHome(c.Options.Kubeconfig)
	if err != nil && given {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		c.Options.Kubeconfig = path
	case given:
		// kwok passes it over and takes the cluster that it runs in; here the
		// default would be some other cluster of the user's.
		return fmt.Errorf("kubeconfig: there is no file %s", path)
	default:
		c.Options.Kubeconfig = ""
	}
	return nil
}
