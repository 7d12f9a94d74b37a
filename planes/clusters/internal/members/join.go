// Package members joins members to a cluster tree, as kosmosctl does, and watches that
// the host and the members agree: for each pod of the host on a virtual node there is
// one in a member, with the same status, and nothing else.
//
// It looks on from outside: it knows the tree by what stands at the API servers.
package members

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Options are what is told of members.
type Options struct {
	process.Env        // whose configuration is that of the host
	Folder      string // of kubeconfigs, NAME.kubeconfig of each member
	LeafMode    string // api.LeafAll, LeafParty or LeafNode
	Nodes       int    // that a member must have before it joins
	Label       string // of LeafParty: a leaf for each of its values
	Services    bool   // members get the definitions by which they import services, which are compared
}

// Default returns Kosmos' options, without a folder.
func Default() Options { return words.DefaultsOf[Options]() }

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	errs := []error{o.Words().Check()}
	if o.Folder == "" {
		errs = append(errs, errors.New("members: no folder of kubeconfigs is given"))
	}
	if o.LeafMode == api.LeafParty && o.Label == "" {
		errs = append(errs, errors.New("leaf-mode party: leaf-label is not given"))
	}
	return errors.Join(errs...)
}

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Folder, "members", "`FOLDER` with NAME.kubeconfig of each member"),
		words.Of(&o.LeafMode, "leaf-mode", "virtual nodes of a member on the host",
			words.Default(api.LeafAll, "one"), words.Or(api.LeafParty, "one for each value of --leaf-label"), words.Or(api.LeafNode, "one for each of its nodes")),
		words.Of(&o.Label, "leaf-label", "`LABEL` of member nodes that selects their party, with --leaf-mode=party"),
		words.Of(&o.Services, "services", "install the definitions by which members import services, and compare the services", words.Default(false, "")),
		words.Of(&o.Nodes, "nodes", "`NUMBER` of nodes that a member must have before it joins", words.Default(0, "")).AtLeast(0),
	}
}

// known is the file with a context for all members, which is no member's own.
const known = "members.kubeconfig"

// atATime is for how many members the first answers to what is watched are waited for at
// a time: each takes a tenth of a second, and there may be thousands of them.
const atATime = 16

// Run joins the members in a folder, one after another, and watches until ctx ends. The
// registry answers agree.Path.
func Run(ctx context.Context, o Options) error {
	files, err := filepath.Glob(filepath.Join(o.Folder, "*.kubeconfig"))
	if err != nil {
		return fmt.Errorf("members in %s: %w", o.Folder, err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == known })
	if len(files) == 0 {
		return fmt.Errorf("members: there is no NAME.kubeconfig in %s", o.Folder)
	}
	host, err := newClient(o.Config)
	if err != nil {
		return err
	}
	if err := api.Install(ctx, o.Config); err != nil {
		return err
	}
	w := newWatch(host, o.Services)
	defer w.wait.Wait()
	o.Registry.Handle(agree.Path, agree.New(clock.Start(), w.differences))
	return o.Work(ctx, func(ctx context.Context, _ *process.Group) error { return w.watchMembers(ctx, files, o) })
}

// watchMembers joins what there are kubeconfigs of.
func (w *watch) watchMembers(ctx context.Context, files []string, o Options) error {
	if err := w.own.caches.Start(ctx, &w.wait); err != nil {
		return fmt.Errorf("watch the host: %w", err)
	}
	o.Registry.MustRegister(w.joined, w)
	o.Registry.Ready() // joining waits for what is started after subjects
	if err := w.joinAll(ctx, files, o); err != nil {
		return errors.Join(err, ctx.Err())
	}
	w.joined.Set(float64(len(files)))
	o.Log.Info("all members are registered", "members", len(files))
	return nil
}

// joinAll registers members in the order of their files, and returns when all are watched.
func (w *watch) joinAll(ctx context.Context, files []string, o Options) error {
	var watched sync.WaitGroup
	free, failed := make(chan struct{}, atATime), make(chan error, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".kubeconfig")
		c, err := w.joinMember(ctx, name, file, o)
		if err != nil {
			return fmt.Errorf("member %s: %w", name, err)
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		watched.Add(1)
		w.wait.Go(func() {
			defer watched.Done()
			if err := w.addMember(ctx, name, c); err != nil {
				failed <- fmt.Errorf("member %s: %w", name, err)
			}
			<-free
		})
	}
	watched.Wait()
	close(failed)
	return <-failed
}

// newClient returns a client of kubectl's rate.
func newClient(config *rest.Config) (*api.Client, error) {
	return api.NewClient(config, api.ClientOptions{Rate: limiter.Rate{QPS: 50, Burst: 300}})
}

// joinMember registers one member when it has its nodes, and returns a client of it.
func (w *watch) joinMember(ctx context.Context, name, file string, o Options) (*api.Client, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	e, err := endpoint.FromKubeconfig(file, "")
	if err != nil {
		return nil, err
	}
	config := e.Config("windtunnel-tree-members")
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	if o.Services {
		if err := api.Install(ctx, config); err != nil {
			return nil, err
		}
	}
	models, err := leafModels(ctx, c, name, o)
	if err != nil {
		return nil, err
	}
	cluster := &api.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cluster.Spec.Kubeconfig, cluster.Spec.Tree = raw, &api.TreeOptions{Enable: true, LeafModels: models}
	if _, err := w.host.Clusters.Create(ctx, cluster); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("register: %w", err)
	}
	return c, nil
}

// leafModels waits until a member has its nodes and returns its leaves.
func leafModels(ctx context.Context, c *api.Client, cluster string, o Options) ([]api.LeafModel, error) {
	var list corev1.NodeList
	for {
		err := c.Nodes.List(ctx, "", &list, metav1.ListOptions{ResourceVersion: "0"})
		if err == nil && len(list.Items) >= o.Nodes {
			break
		}
		if clock.Sleep(ctx, time.Second) != nil {
			return nil, fmt.Errorf("wait for its %s: %w", unit.Count(o.Nodes, "nodes"), errors.Join(err, ctx.Err()))
		}
		list = corev1.NodeList{}
	}
	var models []api.LeafModel
	switch o.LeafMode {
	case api.LeafNode:
		for i := range list.Items {
			models = append(models, api.LeafModel{NodeSelector: api.NodeSelector{NodeName: list.Items[i].Name}})
		}
		slices.SortFunc(models, func(a, b api.LeafModel) int { return strings.Compare(a.NodeSelector.NodeName, b.NodeSelector.NodeName) })
	case api.LeafParty:
		var values []string
		for i := range list.Items {
			values = append(values, list.Items[i].Labels[o.Label])
		}
		slices.Sort(values)
		for _, v := range slices.Compact(values) {
			s := &metav1.LabelSelector{MatchLabels: map[string]string{o.Label: v}}
			models = append(models, api.LeafModel{LeafNodeName: cluster, Labels: s.MatchLabels, NodeSelector: api.NodeSelector{LabelSelector: s}})
		}
	}
	return models, nil
}
