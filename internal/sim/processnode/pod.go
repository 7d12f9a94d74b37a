package processnode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/process"
)

// Why pods end that have not done so by themselves.
var (
	errDeleted  = errors.New("the pod was deleted")
	errGone     = errors.New("the pod is gone")
	errDeadline = errors.New("the pod was active longer than its activeDeadlineSeconds")
	errShutdown = errors.New("the kubelet has ended, and its processes with it")
)

const (
	againAfter  = time.Second // until what failed is tried again
	mostRestart = 5 * time.Minute
)

// pod is one that is bound to the node.
type pod struct {
	kubelet *kubelet
	object  *corev1.Pod // as it was taken up: what may change of it is passed to change
	inits   []*container
	mains   []*container
	cancel  context.CancelCauseFunc
	dirty   chan struct{} // its status has changed
	deleted chan struct{} // closed when the object is to go, or gone
	kill    chan struct{} // closed when grace is over

	mu       sync.Mutex // guards the containers' states as well
	why      error      // its end was asked for
	outcome  outcome
	posted   corev1.PodStatus
	isGone   bool
	killed   bool
	deleting bool
}

func newPod(k *kubelet, object *corev1.Pod, cancel context.CancelCauseFunc) *pod {
	p := &pod{
		kubelet: k, object: object, cancel: cancel, posted: object.Status,
		dirty: make(chan struct{}, 1), deleted: make(chan struct{}), kill: make(chan struct{}),
	}
	p.inits = containers(object.Spec.InitContainers, object.Status.InitContainerStatuses)
	p.mains = containers(object.Spec.Containers, object.Status.ContainerStatuses)
	return p
}

// containers are those of a pod. Those that a kubelet has run before have restarted.
func containers(specs []corev1.Container, before []corev1.ContainerStatus) (out []*container) {
	for i := range specs {
		c := &container{spec: &specs[i], state: waiting("ContainerCreating", "")}
		for _, b := range before {
			if b.Name == c.spec.Name && b.ContainerID != "" {
				c.restarts, c.last = b.RestartCount+1, b.LastTerminationState
			}
		}
		out = append(out, c)
	}
	return out
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// change is told what has become of the object.
func (p *pod) change(object *corev1.Pod) {
	if object.DeletionTimestamp != nil {
		seconds := int64(0)
		if object.DeletionGracePeriodSeconds != nil {
			seconds = *object.DeletionGracePeriodSeconds
		}
		p.end(errDeleted, time.Duration(seconds)*time.Second)
	}
}

// end has the pod's processes end, and killed when grace is over. Of several graces the
// one that is over first is in force; why is what was said first.
func (p *pod) end(why error, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil {
		p.why = why
	}
	p.isGone = p.isGone || errors.Is(why, errGone)
	if !p.deleting && (errors.Is(why, errDeleted) || errors.Is(why, errGone)) {
		p.deleting = true
		close(p.deleted)
	}
	time.AfterFunc(grace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.killed {
			p.killed = true
			close(p.kill)
		}
	})
	p.cancel(why)
}

// grace is what the pod itself asks for.
func (p *pod) grace() time.Duration {
	if s := p.object.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// run runs the pod to its end and, when it is deleted, has the object go. ctx is the
// pod's own, node the kubelet's. Of a pod that is over already nothing is run.
func (p *pod) run(ctx, node context.Context, over bool) {
	defer p.cancel(nil)
	if !over {
		posting, stop := context.WithCancel(context.WithoutCancel(ctx))
		var wait guard.Group
		wait.Go(func() { p.keepPosting(posting) })
		o := p.play(ctx)
		stop()
		wait.Wait()
		if err := os.RemoveAll(p.kubelet.folder(p.object)); err != nil {
			p.log().Warn("the pod's folder is left", slog.Any("error", err))
		}
		p.mu.Lock()
		p.outcome = o
		p.mu.Unlock()
		p.insist(node, p.post)
	}
	select {
	case <-p.deleted:
	case <-node.Done():
	}
	select {
	case <-p.deleted:
		p.insist(node, p.remove)
	default:
	}
}

// insist tells the server something until it has taken it; once the kubelet ends, it
// tries for a while.
func (p *pod) insist(node context.Context, tell func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(node))
	defer cancel()
	stop := context.AfterFunc(node, func() { time.AfterFunc(endWithin, cancel) })
	defer stop()
	for {
		err := tell(ctx)
		if err == nil {
			return
		}
		p.log().Warn("the server was not told of the pod", slog.Any("error", err))
		if clock.Sleep(ctx, againAfter) != nil {
			return
		}
	}
}

func (p *pod) log() *slog.Logger {
	return p.kubelet.options.Log.With(slog.String("pod", p.object.Namespace+"/"+p.object.Name))
}

// play runs the pod's containers and returns why it is over.
func (p *pod) play(ctx context.Context) outcome {
	never := p.object.Spec.RestartPolicy == corev1.RestartPolicyNever
	if why := p.kubelet.programs.refuse(p.object); len(why) > 0 {
		return p.failed("Unsupported", "this node runs pods as processes, and cannot give: "+strings.Join(why, "; "))
	}
	if began := p.object.Status.StartTime != nil; began && never {
		return p.failed("KubeletRestarted", "its processes ended with the kubelet before this one")
	}
	if s := p.object.Spec.ActiveDeadlineSeconds; s != nil {
		timer := time.AfterFunc(time.Duration(*s)*time.Second, func() { p.end(errDeadline, p.grace()) })
		defer timer.Stop()
	}
	specs, err := p.prepare(ctx)
	if err != nil {
		return p.interrupted()
	}
	for i, c := range p.inits {
		policy := corev1.RestartPolicyOnFailure
		if never {
			policy = corev1.RestartPolicyNever
		}
		code := p.keep(ctx, c, specs[i], policy)
		if ctx.Err() != nil {
			return p.interrupted()
		}
		if code != 0 {
			return outcome{phase: corev1.PodFailed}
		}
	}
	var wait guard.Group
	for i, c := range p.mains {
		wait.Go(func() { p.keep(ctx, c, specs[len(p.inits)+i], p.object.Spec.RestartPolicy) })
	}
	wait.Wait()
	if ctx.Err() != nil {
		return p.interrupted()
	}
	return outcome{phase: p.phase()}
}

// failed is an outcome that is told as an event, too.
func (p *pod) failed(reason, message string) outcome {
	p.event(reason, message)
	return outcome{phase: corev1.PodFailed, reason: reason, message: message}
}

// interrupted is the outcome of a pod whose end was asked for.
func (p *pod) interrupted() outcome {
	p.mu.Lock()
	why := p.why
	p.mu.Unlock()
	switch {
	case errors.Is(why, errDeadline):
		return p.failed("DeadlineExceeded", why.Error())
	case why == nil, errors.Is(why, errShutdown): // nil: the kubelet ended before anything ran
		return outcome{phase: corev1.PodFailed, reason: "Terminated", message: errShutdown.Error()}
	}
	return outcome{phase: p.phase()}
}

// phase is that of a pod whose containers have ended.
func (p *pod) phase() corev1.PodPhase {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.mains {
		if t := c.state.Terminated; t == nil || t.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// prepare writes the pod's volumes and returns what its containers run, those that
// initialise it first. It tries until that can be done; the error says that ctx ended.
func (p *pod) prepare(ctx context.Context) ([]process.Spec, error) {
	for said := ""; ; {
		specs, err := p.prepareOnce(ctx)
		if err == nil {
			return specs, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p.update(func() {
			for _, c := range slices.Concat(p.inits, p.mains) {
				c.state = waiting("CreateContainerConfigError", err.Error())
			}
		})
		if err.Error() != said {
			said = err.Error()
			p.event("CreateContainerConfigError", said)
		}
		if clock.Sleep(ctx, againAfter) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (p *pod) prepareOnce(ctx context.Context) ([]process.Spec, error) {
	folder := p.kubelet.folder(p.object)
	volume := func(name string) string { return filepath.Join(folder, "volumes", name) }
	logs := filepath.Join(p.kubelet.options.Logs, folderName(p.object))
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.MkdirAll(logs, 0o700)); err != nil {
		return nil, err
	}
	found, err := p.kubelet.gather(ctx, p.object)
	if err != nil {
		return nil, err
	}
	at := place{volume: volume, hostIP: hostIP, capacity: p.kubelet.capacity}
	for i := range p.object.Spec.Volumes {
		v := &p.object.Spec.Volumes[i]
		held, err := files(p.object, v, found, at)
		if err == nil {
			err = write(volume(v.Name), held)
		}
		if err != nil {
			return nil, err
		}
	}
	var specs []process.Spec
	for _, c := range slices.Concat(p.inits, p.mains) {
		at.home = filepath.Join(folder, "home", c.spec.Name)
		if err := os.MkdirAll(at.home, 0o700); err != nil {
			return nil, err
		}
		spec, err := p.kubelet.programs.command(p.object, c.spec, found, at)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", c.spec.Name, err)
		}
		spec.Name = "pod-" + strings.ReplaceAll(string(p.object.UID), "/", "_") + "-" + c.spec.Name
		spec.LogFile = filepath.Join(logs, c.spec.Name)
		specs = append(specs, spec)
	}
	return specs, nil
}

// keep runs a container, again and again as its policy says, and returns its last exit
// code.
func (p *pod) keep(ctx context.Context, c *container, spec process.Spec, policy corev1.RestartPolicy) int {
	for pause := p.kubelet.options.RestartAfter; ; pause = min(2*pause, mostRestart) {
		ended := p.once(ctx, c, spec)
		p.update(func() { c.state = corev1.ContainerState{Terminated: &ended} })
		if ctx.Err() != nil || policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && ended.ExitCode == 0 {
			return int(ended.ExitCode)
		}
		p.update(func() {
			c.last = c.state
			c.state = waiting("CrashLoopBackOff", fmt.Sprintf("it is started again after %v", pause))
		})
		if clock.Sleep(ctx, pause) != nil {
			return int(ended.ExitCode)
		}
		p.update(func() { c.restarts++ })
	}
}

// once runs a container once and says how it ended. When ctx ends it is asked to.
func (p *pod) once(ctx context.Context, c *container, spec process.Spec) corev1.ContainerStateTerminated {
	ended := corev1.ContainerStateTerminated{StartedAt: p.kubelet.now()}
	spec.LogFile += "-" + strconv.Itoa(int(c.restarts)) + ".log"
	running, err := process.Start(spec, p.kubelet.options.Reaper)
	if err != nil {
		ended.ExitCode, ended.Reason, ended.Message, ended.FinishedAt = 128, "StartError", err.Error(), p.kubelet.now()
		return ended
	}
	if w := running.Warning(); w != "" {
		p.event("LimitsNotInForce", w)
	}
	p.update(func() {
		c.id = "process://" + strconv.Itoa(running.PID())
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ended.StartedAt}}
	})
	select {
	case <-running.Done():
	case <-ctx.Done():
		p.stop(running)
	}
	how := running.End()
	ended.ExitCode, ended.FinishedAt, ended.ContainerID, ended.Reason = int32(how.Code), p.kubelet.now(), c.id, "Completed"
	if how.Code != 0 {
		ended.Reason, ended.Message = "Error", strings.Join(running.LastWords(), "\n")
	}
	if how.OOM {
		ended.Reason = "OOMKilled"
	}
	return ended
}

// stop asks a process to end and kills it when the pod's grace is over.
func (p *pod) stop(running *process.Process) {
	p.end(errShutdown, min(p.grace(), endWithin)) // unless something else was said before, it is the kubelet that ends
	var wait guard.Group
	wait.Go(func() { running.Stop(mostGrace) })
	select {
	case <-running.Done():
	case <-p.kill:
		running.Kill()
	}
	wait.Wait()
}

// mostGrace is longer than any grace that anybody waits for.
const mostGrace = 365 * 24 * time.Hour

// update changes the containers' states and has that posted.
func (p *pod) update(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// keepPosting posts what has changed until ctx ends. What fails is told the next time.
func (p *pod) keepPosting(ctx context.Context) {
	p.update(func() {})
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		}
		if err := p.post(ctx); err != nil && ctx.Err() == nil {
			p.log().Debug("the pod's status was not posted", slog.Any("error", err))
			_ = clock.Sleep(ctx, againAfter) // then ctx is looked at
			p.update(func() {})
		}
	}
}

// post tells the server how the pod stands. Of a pod that is another by now, or gone,
// nothing is to be told.
func (p *pod) post(ctx context.Context) error {
	p.mu.Lock()
	status := statusOf(p.posted, p.inits, p.mains, p.outcome, p.kubelet.now())
	gone := p.isGone
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.object.UID}, "status": status})
	p.mu.Unlock()
	if gone || err != nil {
		return err
	}
	_, err = p.kubelet.options.Client.CoreV1().Pods(p.object.Namespace).Patch(ctx, p.object.Name, types.StrategicMergePatchType, raw, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err == nil {
		p.mu.Lock()
		p.posted = status
		p.mu.Unlock()
	}
	return err
}

// remove has the object go that was only marked: its processes have ended.
func (p *pod) remove(ctx context.Context) error {
	now := int64(0)
	err := p.kubelet.options.Client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.object.UID}})
	if apierrors.IsConflict(err) {
		return nil // it is another pod
	}
	return ignoreMissing(err)
}

// event tells people of something. That it cannot be told is no reason for anything.
func (p *pod) event(reason, message string) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	now := p.kubelet.now()
	_, err := p.kubelet.options.Client.CoreV1().Events(p.object.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: p.object.Name + "-"},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: p.object.Namespace, Name: p.object.Name, UID: p.object.UID,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: cmp.Or(message, reason), FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "windtunnel-kubelet", Host: p.kubelet.options.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		p.log().Debug("an event was not made", slog.String("reason", reason), slog.Any("error", err))
	}
}
