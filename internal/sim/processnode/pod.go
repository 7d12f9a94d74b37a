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
	againAfter = time.Second // until what failed is tried again
	maxRestart = 5 * time.Minute
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
	p.inits = newContainers(object.Spec.InitContainers, object.Status.InitContainerStatuses)
	p.mains = newContainers(object.Spec.Containers, object.Status.ContainerStatuses)
	return p
}

// newContainers are those of a pod. Those that a kubelet has run before have restarted.
func newContainers(specs []corev1.Container, before []corev1.ContainerStatus) (out []*container) {
	for i := range specs {
		c := &container{spec: &specs[i], state: waitingState("ContainerCreating", "")}
		for _, b := range before {
			if b.Name == c.spec.Name && b.ContainerID != "" {
				c.restarts, c.last = b.RestartCount+1, b.LastTerminationState
			}
		}
		out = append(out, c)
	}
	return out
}

func waitingState(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// takeChange is told what has become of the object.
func (p *pod) takeChange(object *corev1.Pod) {
	if object.DeletionTimestamp != nil {
		seconds := int64(0)
		if object.DeletionGracePeriodSeconds != nil {
			seconds = *object.DeletionGracePeriodSeconds
		}
		p.endWithin(errDeleted, time.Duration(seconds)*time.Second)
	}
}

// endWithin has the pod's processes end, and killed when grace is over. Of several graces the
// one that is over first is in force; why is what was said first.
func (p *pod) endWithin(why error, grace time.Duration) {
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

// gracePeriod is what the pod itself asks for.
func (p *pod) gracePeriod() time.Duration {
	if s := p.object.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// runToEnd runs the pod to its end and, when it is deleted, has the object go. ctx is the
// pod's own, node the kubelet's. Of a pod that is over already nothing is run.
func (p *pod) runToEnd(ctx, node context.Context, over bool) {
	defer p.cancel(nil)
	if !over {
		posting, stop := context.WithCancel(context.WithoutCancel(ctx))
		var wait guard.Group
		wait.Go(func() { p.keepPosting(posting) })
		o := p.runContainers(ctx)
		stop()
		wait.Wait()
		if err := os.RemoveAll(p.kubelet.podFolder(p.object)); err != nil {
			p.logger().Warn("the pod's folder is left", slog.Any("error", err))
		}
		p.mu.Lock()
		p.outcome = o
		p.mu.Unlock()
		p.retryUntilTaken(node, p.postStatus)
	}
	select {
	case <-p.deleted:
	case <-node.Done():
	}
	select {
	case <-p.deleted:
		p.retryUntilTaken(node, p.removeObject)
	default:
	}
}

// retryUntilTaken tells the server something until it has taken it; once the kubelet ends, it
// tries for a while.
func (p *pod) retryUntilTaken(node context.Context, tell func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(node))
	defer cancel()
	stop := context.AfterFunc(node, func() { time.AfterFunc(endWithin, cancel) })
	defer stop()
	for {
		err := tell(ctx)
		if err == nil {
			return
		}
		p.logger().Warn("the server was not told of the pod", slog.Any("error", err))
		if clock.Sleep(ctx, againAfter) != nil {
			return
		}
	}
}

func (p *pod) logger() *slog.Logger {
	return p.kubelet.options.Log.With(slog.String("pod", p.object.Namespace+"/"+p.object.Name))
}

// runContainers runs the pod's containers and returns why it is over.
func (p *pod) runContainers(ctx context.Context) outcome {
	never := p.object.Spec.RestartPolicy == corev1.RestartPolicyNever
	if why := p.kubelet.programs.unsupportedReasons(p.object); len(why) > 0 {
		return p.failedOutcome("Unsupported", "this node runs pods as processes, and cannot give: "+strings.Join(why, "; "))
	}
	if began := p.object.Status.StartTime != nil; began && never {
		return p.failedOutcome("KubeletRestarted", "its processes ended with the kubelet before this one")
	}
	if s := p.object.Spec.ActiveDeadlineSeconds; s != nil {
		timer := time.AfterFunc(time.Duration(*s)*time.Second, func() { p.endWithin(errDeadline, p.gracePeriod()) })
		defer timer.Stop()
	}
	specs, err := p.prepareWithRetries(ctx)
	if err != nil {
		return p.interruptedOutcome()
	}
	for i, c := range p.inits {
		policy := corev1.RestartPolicyOnFailure
		if never {
			policy = corev1.RestartPolicyNever
		}
		code := p.runByPolicy(ctx, c, specs[i], policy)
		if ctx.Err() != nil {
			return p.interruptedOutcome()
		}
		if code != 0 {
			return outcome{phase: corev1.PodFailed}
		}
	}
	var wait guard.Group
	for i, c := range p.mains {
		wait.Go(func() { p.runByPolicy(ctx, c, specs[len(p.inits)+i], p.object.Spec.RestartPolicy) })
	}
	wait.Wait()
	if ctx.Err() != nil {
		return p.interruptedOutcome()
	}
	return outcome{phase: p.finalPhase()}
}

// failedOutcome is an outcome that is told as an event, too.
func (p *pod) failedOutcome(reason, message string) outcome {
	p.postEvent(reason, message)
	return outcome{phase: corev1.PodFailed, reason: reason, message: message}
}

// interruptedOutcome is the outcome of a pod whose end was asked for.
func (p *pod) interruptedOutcome() outcome {
	p.mu.Lock()
	why := p.why
	p.mu.Unlock()
	switch {
	case errors.Is(why, errDeadline):
		return p.failedOutcome("DeadlineExceeded", why.Error())
	case why == nil, errors.Is(why, errShutdown): // nil: the kubelet ended before anything ran
		return outcome{phase: corev1.PodFailed, reason: "Terminated", message: errShutdown.Error()}
	}
	return outcome{phase: p.finalPhase()}
}

// finalPhase is that of a pod whose containers have ended.
func (p *pod) finalPhase() corev1.PodPhase {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.mains {
		if t := c.state.Terminated; t == nil || t.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// prepareWithRetries writes the pod's volumes and returns what its containers run, those that
// initialise it first. It tries until that can be done; the error says that ctx ended.
func (p *pod) prepareWithRetries(ctx context.Context) ([]process.Spec, error) {
	for said := ""; ; {
		specs, err := p.prepareOnce(ctx)
		if err == nil {
			return specs, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p.updateStates(func() {
			for _, c := range slices.Concat(p.inits, p.mains) {
				c.state = waitingState("CreateContainerConfigError", err.Error())
			}
		})
		if err.Error() != said {
			said = err.Error()
			p.postEvent("CreateContainerConfigError", said)
		}
		if clock.Sleep(ctx, againAfter) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (p *pod) prepareOnce(ctx context.Context) ([]process.Spec, error) {
	folder := p.kubelet.podFolder(p.object)
	volume := func(name string) string { return filepath.Join(folder, "volumes", name) }
	logs := filepath.Join(p.kubelet.options.Logs, folderName(p.object))
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.MkdirAll(logs, 0o700)); err != nil {
		return nil, err
	}
	found, err := p.kubelet.readSources(ctx, p.object)
	if err != nil {
		return nil, err
	}
	at := place{volume: volume, hostIP: hostIP, capacity: p.kubelet.capacity}
	for i := range p.object.Spec.Volumes {
		v := &p.object.Spec.Volumes[i]
		held, err := volumeFiles(p.object, v, found, at)
		if err == nil {
			err = writeVolume(volume(v.Name), held)
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
		spec, err := p.kubelet.programs.commandOf(p.object, c.spec, found, at)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", c.spec.Name, err)
		}
		spec.Name = "pod-" + strings.ReplaceAll(string(p.object.UID), "/", "_") + "-" + c.spec.Name
		spec.LogFile = filepath.Join(logs, c.spec.Name)
		specs = append(specs, spec)
	}
	return specs, nil
}

// runByPolicy runs a container, again and again as its policy says, and returns its last exit
// code.
func (p *pod) runByPolicy(ctx context.Context, c *container, spec process.Spec, policy corev1.RestartPolicy) int {
	for pause := p.kubelet.options.RestartAfter; ; pause = min(2*pause, maxRestart) {
		ended := p.runOnce(ctx, c, spec)
		p.updateStates(func() { c.state = corev1.ContainerState{Terminated: &ended} })
		if ctx.Err() != nil || policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && ended.ExitCode == 0 {
			return int(ended.ExitCode)
		}
		p.updateStates(func() {
			c.last = c.state
			c.state = waitingState("CrashLoopBackOff", fmt.Sprintf("it is started again after %v", pause))
		})
		if clock.Sleep(ctx, pause) != nil {
			return int(ended.ExitCode)
		}
		p.updateStates(func() { c.restarts++ })
	}
}

// runOnce runs a container once and says how it ended. When ctx ends it is asked to.
func (p *pod) runOnce(ctx context.Context, c *container, spec process.Spec) corev1.ContainerStateTerminated {
	ended := corev1.ContainerStateTerminated{StartedAt: p.kubelet.metaNow()}
	spec.LogFile += "-" + strconv.Itoa(int(c.restarts)) + ".log"
	running, err := process.Start(spec, p.kubelet.options.Reaper)
	if err != nil {
		ended.ExitCode, ended.Reason, ended.Message, ended.FinishedAt = 128, "StartError", err.Error(), p.kubelet.metaNow()
		return ended
	}
	if w := running.Warning(); w != "" {
		p.postEvent("LimitsNotInForce", w)
	}
	p.updateStates(func() {
		c.id = "process://" + strconv.Itoa(running.PID())
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ended.StartedAt}}
	})
	select {
	case <-running.Done():
	case <-ctx.Done():
		p.stopProcess(running)
	}
	how := running.End()
	ended.ExitCode, ended.FinishedAt, ended.ContainerID, ended.Reason = int32(how.Code), p.kubelet.metaNow(), c.id, "Completed"
	if how.Code != 0 {
		ended.Reason, ended.Message = "Error", strings.Join(running.LastWords(), "\n")
	}
	if how.OOM {
		ended.Reason = "OOMKilled"
	}
	return ended
}

// stopProcess asks a process to end and kills it when the pod's grace is over.
func (p *pod) stopProcess(running *process.Process) {
	p.endWithin(errShutdown, min(p.gracePeriod(), endWithin)) // unless something else was said before, it is the kubelet that ends
	var wait guard.Group
	wait.Go(func() { running.Stop(maxGrace) })
	select {
	case <-running.Done():
	case <-p.kill:
		running.Kill()
	}
	wait.Wait()
}

// maxGrace is longer than any grace that anybody waits for.
const maxGrace = 365 * 24 * time.Hour

// updateStates changes the containers' states and has that posted.
func (p *pod) updateStates(change func()) {
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
	p.updateStates(func() {})
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		}
		if err := p.postStatus(ctx); err != nil && ctx.Err() == nil {
			p.logger().Debug("the pod's status was not posted", slog.Any("error", err))
			_ = clock.Sleep(ctx, againAfter) // then ctx is looked at
			p.updateStates(func() {})
		}
	}
}

// postStatus tells the server how the pod stands. Of a pod that is another by now, or gone,
// nothing is to be told.
func (p *pod) postStatus(ctx context.Context) error {
	p.mu.Lock()
	status := statusOf(p.posted, p.inits, p.mains, p.outcome, p.kubelet.metaNow())
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

// removeObject has the object go that was only marked: its processes have ended.
func (p *pod) removeObject(ctx context.Context) error {
	now := int64(0)
	err := p.kubelet.options.Client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.object.UID}})
	if apierrors.IsConflict(err) {
		return nil // it is another pod
	}
	return ignoreMissing(err)
}

// postEvent tells people of something. That it cannot be told is no reason for anything.
func (p *pod) postEvent(reason, message string) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	now := p.kubelet.metaNow()
	_, err := p.kubelet.options.Client.CoreV1().Events(p.object.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: p.object.Name + "-"},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: p.object.Namespace, Name: p.object.Name, UID: p.object.UID,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: cmp.Or(message, reason), FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "windtunnel-kubelet", Host: p.kubelet.options.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		p.logger().Debug("an event was not made", slog.String("reason", reason), slog.Any("error", err))
	}
}
