package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Options are which members join.
type Options struct {
	process.Env
	Folder string // of kubeconfigs
	Spread Spread // labels that members get
}

// Default returns options without a folder.
func Default() Options { return Options{Spread: Spread{}} }

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Folder, "members", "`FOLDER` of kubeconfigs, NAME.kubeconfig each; in a scenario $(MEMBERS)"),
		words.Custom(o.Spread, "spread", "`LABEL=N`, a label that members get in turn, of N values: region=3 gives region-0, region-1, region-2; can be repeated"),
	}
}

// Run joins the members of a folder and waits until ctx ends.
func Run(ctx context.Context, o Options) error {
	members, err := Read(o.Folder, o.Spread)
	if err != nil {
		return err
	}
	return o.Work(ctx, func(ctx context.Context, _ *process.Group) error {
		if err := Join(ctx, o.Config, members); err != nil {
			return err
		}
		o.Log.Info("members have joined", "members", len(members))
		return nil
	})
}

// Spread is how many values each label has.
type Spread map[string]int

// String returns LABEL=N,...
func (s Spread) String() string {
	var out []string
	for key, n := range s {
		out = append(out, key+"="+strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

// Set reads LABEL=N; it can be given several times.
func (s Spread) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	n, err := strconv.Atoi(value)
	if !ok || key == "" || err != nil || n < 1 {
		return fmt.Errorf("%q: want LABEL=N such as region=3", text)
	}
	s[key] = n
	return nil
}

// Type says what the flag takes.
func (s Spread) Type() string { return "LABEL=N" }

// suffix is that of a member's kubeconfig in a folder of them.
const suffix = ".kubeconfig"

// allMembers is the file beside them that has a context for each.
const allMembers = "members" + suffix

// errNoCA refuses a kubeconfig that relies on the roots of this machine: in the Secret of a
// member, no ca.crt means that nobody verifies the server, and it gets the token.
var errNoCA = errors.New("it has no certificate-authority: add that of the server, or insecure-skip-tls-verify: true, by which any server is taken for the member")

// Read returns the members whose kubeconfigs are in a folder, NAME.kubeconfig
// each, in the order of their names and numbers. The i-th of them, from 0, gets of
// each label in spread, KEY=N, the value KEY-(i mod N).
func Read(folder string, spread map[string]int) ([]Member, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("members in %s: %w", folder, err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == allMembers })
	if len(files) == 0 {
		return nil, fmt.Errorf("members in %s: %w", folder, os.ErrNotExist)
	}
	slices.SortFunc(files, func(a, b string) int { return compareNumbered(filepath.Base(a), filepath.Base(b)) })
	var out []Member
	for i, file := range files {
		e, err := endpoint.FromKubeconfig(file, "")
		if err != nil {
			return nil, err
		}
		config := e.Config("")
		if err := rest.LoadTLSFiles(config); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(config.CAData) == 0 && !config.Insecure {
			return nil, fmt.Errorf("%s: %w", file, errNoCA)
		}
		m := Member{
			Name: strings.TrimSuffix(filepath.Base(file), suffix), Endpoint: config.Host, Labels: map[string]string{},
			CA: config.CAData, Token: config.BearerToken, Cert: config.CertData, Key: config.KeyData,
		}
		for key, n := range spread {
			m.Labels[key] = key[strings.LastIndexByte(key, '/')+1:] + "-" + strconv.Itoa(i%max(1, n))
		}
		if _, err := FromSecret(m.Secret()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// compareNumbered compares names by what is before their last dash, then by the number
// behind it: edge-2 comes before edge-10.
func compareNumbered(a, b string) int {
	split := func(s string) (string, int) {
		s = strings.TrimSuffix(s, suffix)
		i := strings.LastIndexByte(s, '-')
		n, err := strconv.Atoi(s[i+1:])
		if i < 0 || err != nil {
			return s, 0
		}
		return s[:i], n
	}
	x, m := split(a)
	y, n := split(b)
	if x != y {
		return strings.Compare(x, y)
	}
	return m - n
}

// manager is the field manager of what is written here.
const manager = "windtunnel-app-member"

// Join registers members at the hub: the Secret of each is made, or brought to
// what the member is now. One that somebody else has made is left alone, with an
// error that joins all of them.
func Join(ctx context.Context, config *rest.Config, members []Member) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	core, err := typedcore.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	var errs []error
	for _, m := range members {
		if err := joinMember(ctx, core, m); err != nil {
			errs = append(errs, fmt.Errorf("join %s: %w", m.Name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func joinMember(ctx context.Context, core typedcore.CoreV1Interface, m Member) error {
	secrets := core.Secrets(m.Secret().Namespace)
	there, err := secrets.Get(ctx, m.Name, metav1.GetOptions{})
	if err == nil && !install.Owns(there, manager) {
		return install.ErrForeign
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	s := m.Secret()
	body, err := yaml.Marshal(s)
	if err != nil {
		return err
	}
	force := true
	_, err = secrets.Patch(ctx, m.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager, Force: &force})
	return err
}
