// Package launcher writes the pod that a virtual machine runs in: what it asks
// of the scheduler, and how it is known as the instance's.
//
// The pod is KubeVirt's in its labels, requests, devices, gates and owner, but
// nothing runs in it: a simulated node plays it. The controller creates it.
package launcher

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// Options are what the operator of the plane decides about launcher pods.
type Options struct {
	Image         string        // of the compute container
	OverheadRatio float64       // times the formula; 1 is usual
	QEMUTimeout   time.Duration // how long the launcher waits for its virtual machine
	AllowEmulated bool          // no KVM device is asked for
	NoGate        bool          // pods are ready with their containers
}

// Name returns the name of the pod of an instance, or of its target pod in a
// migration. It follows from the uids: a controller that was killed between its
// request and the answer asks for the same pod again and cannot double it.
func Name(vmi *api.Instance, migration string) string {
	sum := sha256.Sum256([]byte(string(vmi.UID) + "/" + migration))
	suffix := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:5]
	name := vmi.Name
	if maxLength := 63 - len(api.Launcher) - len(suffix) - 2; len(name) > maxLength {
		name = strings.TrimRight(name[:maxLength], "-.")
	}
	return fmt.Sprintf("%s-%s-%s", api.Launcher, name, suffix)
}

// Pod returns the launcher pod of an instance.
func Pod(vmi *api.Instance, o Options) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(vmi, ""), Namespace: vmi.Namespace,
			Labels:      podLabels(vmi),
			Annotations: map[string]string{api.AnnotationDomain: vmi.Name, "kubectl.kubernetes.io/default-container": api.ContainerCompute},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(vmi, api.GroupVersion().WithKind("VirtualMachineInstance")),
			},
		},
		Spec: corev1.PodSpec{
			Hostname:                      hostnameOf(vmi.Name),
			RestartPolicy:                 corev1.RestartPolicyNever,
			SchedulerName:                 vmi.Spec.SchedulerName,
			PriorityClassName:             vmi.Spec.PriorityClassName,
			NodeSelector:                  map[string]string{api.LabelSchedulable: "true"},
			Affinity:                      vmi.Spec.Affinity,
			Tolerations:                   vmi.Spec.Tolerations,
			TerminationGracePeriodSeconds: new(gracePeriod(&vmi.Spec) + 15),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			Containers:                    append([]corev1.Container{computeContainer(vmi, o)}, diskContainers(vmi)...),
		},
	}
	if !o.NoGate {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: api.ConditionUnpaused}}
	}
	maps.Copy(pod.Spec.NodeSelector, vmi.Spec.NodeSelector)
	return pod
}

// Target returns the pod that an instance migrates to: the same on any other
// node, marked as the migration's.
func Target(vmi *api.Instance, migration *api.Migration, o Options) *corev1.Pod {
	pod := Pod(vmi, o)
	pod.Name = Name(vmi, string(migration.UID))
	pod.Labels[api.LabelMigrationJob] = string(migration.UID)
	pod.Spec.Affinity = withoutNode(pod.Spec.Affinity, vmi.Status.NodeName)
	return pod
}

// withoutNode adds to an affinity that the pod is not on a node.
func withoutNode(a *corev1.Affinity, node string) *corev1.Affinity {
	out := a.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1)}
	}
	for i := range required.NodeSelectorTerms { // terms are alternatives: each needs it
		t := &required.NodeSelectorTerms[i]
		t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{node},
		})
	}
	out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	return out
}

// podLabels are the instance's own and those by which the pod is found.
func podLabels(vmi *api.Instance) map[string]string {
	out := maps.Clone(vmi.Labels)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, api.LabelNode)
	delete(out, api.LabelTargetNode)
	out[api.LabelApp] = api.Launcher
	out[api.LabelCreatedBy] = string(vmi.UID)
	if len(vmi.Name) <= 63 {
		out[api.LabelName] = vmi.Name
	}
	return out
}

// hostnameOf is the first part of a name, as far as a host name may be long.
func hostnameOf(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return strings.TrimRight(name[:min(len(name), 63)], "-")
}

func gracePeriod(spec *api.InstanceSpec) int64 {
	if s := spec.TerminationGracePeriodSeconds; s != nil {
		return *s
	}
	return 30
}

// computeContainer is the container that would run the virtual machine.
func computeContainer(vmi *api.Instance, o Options) corev1.Container {
	d := &vmi.Spec.Domain
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	maps.Copy(requests, d.Resources.Requests)
	maps.Copy(limits, d.Resources.Limits)
	overhead := Overhead(&vmi.Spec, o.OverheadRatio)
	memory := vmi.Spec.GuestMemory()
	if q, ok := requests[corev1.ResourceMemory]; ok {
		memory = q.Value()
	}
	if !d.Resources.OvercommitMemory {
		memory += overhead
	}
	requests[corev1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	if q, ok := limits[corev1.ResourceMemory]; ok {
		q.Add(*resource.NewQuantity(overhead, resource.BinarySI))
		limits[corev1.ResourceMemory] = q
	}
	if _, ok := requests[corev1.ResourceCPU]; !ok {
		// A tenth of each virtual processor, KubeVirt's cpuAllocationRatio of 10.
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(100*vmi.Spec.VCPUs(), resource.DecimalSI)
	}
	requests[corev1.ResourceEphemeralStorage] = resource.MustParse("50M")
	for _, name := range deviceResources(o) {
		requests[name], limits[name] = resource.MustParse("1"), resource.MustParse("1")
	}
	return corev1.Container{
		Name: api.ContainerCompute, Image: o.Image,
		Command: []string{
			"/usr/bin/virt-launcher-monitor", "--qemu-timeout", strconv.Itoa(int(o.QEMUTimeout.Seconds())) + "s",
			"--name", vmi.Name, "--uid", string(vmi.UID), "--namespace", vmi.Namespace,
			"--grace-period-seconds", strconv.FormatInt(gracePeriod(&vmi.Spec)+15, 10),
		},
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
	}
}

// deviceResources are what every instance takes one of: of each, a node has as many as
// its agent says, which bounds the instances on it.
func deviceResources(o Options) []corev1.ResourceName {
	out := []corev1.ResourceName{api.ResourceTun, api.ResourceVhostNet}
	if !o.AllowEmulated {
		out = append(out, api.ResourceKVM)
	}
	return out
}

// diskContainers are the containers that hold container disks.
func diskContainers(vmi *api.Instance) []corev1.Container {
	var out []corev1.Container
	for _, v := range vmi.Spec.Volumes {
		if v.ContainerDisk == nil {
			continue
		}
		out = append(out, corev1.Container{
			Name: "volume" + v.Name, Image: v.ContainerDisk.Image,
			Command: []string{"/usr/bin/container-disk"},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1M"), corev1.ResourceEphemeralStorage: resource.MustParse("50M")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("40M")},
			},
		})
	}
	return out
}

// Ready says whether a pod is far enough for the node's agent to take over: it
// runs, its compute container runs, and the others are ready. The gates are not
// asked.
func Ready(pod *corev1.Pod) bool {
	if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName == "" {
		return false
	}
	compute := false
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if c.Name == api.ContainerCompute {
			compute = c.State.Running != nil
		} else if !c.Ready {
			return false
		}
	}
	return compute
}

// Down says that a pod has ended or is about to.
func Down(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}
