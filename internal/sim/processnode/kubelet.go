// Package processnode is a node whose pods run as processes of this machine, and no more
// than that: no images, no network and no file system of their own, no probes. A pod
// that asks for what a process cannot be given is refused, with every reason.
//
// It is there so that Jobs and operators run for real where there is no container
// engine. The nodes of a fleet, whose pods do nothing, are package fleet's.
package processnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/process"
)

// Options say which node, where its pods' processes leave their files, and what they
// may run.
type Options struct {
	Node         string
	Client       kubernetes.Interface
	Endpoint     endpoint.Endpoint // the same server, for the kubeconfigs of pods
	Reaper       *process.Reaper   // ends what is left when this process is killed; its folder takes what pods are given
	Logs         string            // folder for what containers say; it must exist
	Executable   string            // what containers of the image windtunnel run
	Namespace    string            // of the pods that it runs: whoever may make pods there runs programs as this process's user; it is required
	Verbs        []string          // of Executable that pods may run besides worker
	Run          string            // value of the run's label on node and lease, by which cleanup finds them; required
	Allow        []string          // absolute paths of what others may run
	Untainted    bool              // any pod may be scheduled to the node, not only those that tolerate Taint
	Clock        clock.Clock
	Log          *slog.Logger
	Ready        func()        // called, when set, once the node is registered
	RestartAfter time.Duration // before a container is started again, twice that the next time; default 10 s
}

// Taint is the key of the taint that keeps pods off which do not mean a node of this
// kind: a pod that is refused is made again by most controllers, for ever.
const Taint = "windtunnel.dev/processes"

// nodeLabel marks nodes of this kind.
const nodeLabel = "windtunnel.dev/kubelet"

// ErrTaken says that a node of that name is another kubelet's.
var ErrTaken = errors.New("the node is another kubelet's")

// kubelet is a node under way.
type kubelet struct {
	options  Options
	programs programs
	capacity corev1.ResourceList
	node     types.UID // empty: it was not made
	wait     guard.Group

	mu   sync.Mutex
	pods map[types.UID]*pod
}

// Run registers the node and runs the pods that are bound to it until ctx ends: then
// all processes end, their pods have failed, and the node is gone.
func Run(ctx context.Context, o Options) (err error) {
	if o.RestartAfter <= 0 {
		o.RestartAfter = 10 * time.Second
	}
	k := &kubelet{options: o, pods: map[types.UID]*pod{}, programs: programs{own: o.Executable, verbs: o.Verbs, namespace: o.Namespace, uid: int64(os.Getuid())}}
	if o.Namespace == "" || o.Run == "" {
		return errors.New("a node of processes needs the namespace whose pods it runs, and a name for its own objects")
	}
	for _, path := range o.Allow {
		info, err := os.Stat(path)
		if !filepath.IsAbs(path) || err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s cannot be allowed: want the absolute path of an executable", path)
		}
		k.programs.allow = append(k.programs.allow, filepath.Clean(path))
	}
	if k.capacity, err = machineCapacity(); err != nil {
		return err
	}
	if err := k.registerNode(ctx); err != nil {
		if ctx.Err() != nil { // nothing is wrong with the node
			err = nil
		}
		return errors.Join(err, k.removeNode())
	}
	if o.Ready != nil {
		o.Ready()
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx)) // while pods end, the node is there
	var beat guard.Group
	beat.Go(func() { k.keepAlive(beating) })
	err = k.followPods(ctx)
	k.wait.Wait()
	stop()
	beat.Wait()
	return errors.Join(err, k.removeNode())
}

// followPods takes up the pods of the node until ctx ends.
func (k *kubelet) followPods(ctx context.Context) error {
	here := fields.OneTermEqualSelector("spec.nodeName", k.options.Node)
	list := cache.NewListWatchFromClient(k.options.Client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, here)
	informer := cache.NewSharedIndexInformer(list, &corev1.Pod{}, 0, nil)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.takePod(ctx, o) },
		UpdateFunc: func(_, o any) { k.takePod(ctx, o) },
		DeleteFunc: k.dropPod,
	})
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// takePod takes up a pod, or what has changed about it.
func (k *kubelet) takePod(ctx context.Context, o any) {
	object, ok := o.(*corev1.Pod)
	if !ok || ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pods[object.UID]; p != nil {
		p.takeChange(object)
		return
	}
	over := object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed
	if over && object.DeletionTimestamp == nil {
		return
	}
	own, cancel := context.WithCancelCause(ctx)
	p := newPod(k, object, cancel)
	k.pods[object.UID] = p // until it is gone: news of it may be older than its end
	p.takeChange(object)
	k.wait.Go(func() { p.runToEnd(own, ctx, over) })
}

// dropPod ends a pod that is gone, whatever its grace: somebody wanted that.
func (k *kubelet) dropPod(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	object, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pods[object.UID]; p != nil {
		p.endWithin(errGone, 0)
		delete(k.pods, object.UID)
	}
}

// podFolder is that of a pod, for what it is given.
func (k *kubelet) podFolder(pod *corev1.Pod) string {
	return filepath.Join(k.options.Reaper.Dir(), "pods", folderName(pod))
}

// folderName is the name of a pod's folders. The server's words are not trusted to be
// names of files.
func folderName(pod *corev1.Pod) string {
	return strings.ReplaceAll(pod.Namespace+"_"+pod.Name+"_"+string(pod.UID), "/", "_")
}
