package scenario

import (
	"slices"
	"strconv"
	"strings"
)

// KnownLifecycles returns the lifecycles that `use` can name, resolved. Their conditions
// are those by which the API's own clients tell that an object is as it should
// be, written so that a later state satisfies those before it: two states that
// one event shows are then both seen.
func KnownLifecycles() []Lifecycle {
	return []Lifecycle{
		{Name: "node", Of: "nodes", Phases: []Phase{{Condition: "Ready"}}},
		{Name: "job", Of: "jobs.batch", Phases: []Phase{
			{Name: "started", When: "has(self.status.startTime)"}, {Condition: "Complete"}, {Condition: "Failed"}}},
		{Name: "pvc", Of: "persistentvolumeclaims", Phases: []Phase{
			{Name: "pending", When: `self.status.phase in ["Pending", "Bound"]`}, statusPhase("bound", "Bound"), statusPhase("lost", "Lost")}},
		{Name: "deployment", Of: "deployments.apps", Phases: []Phase{
			{Name: "updated", When: workloadSettled("updatedReplicas")}, {Name: "ready", When: workloadSettled("readyReplicas")},
			{Name: "available", When: workloadSettled("availableReplicas")}}},
		{Name: "statefulset", Of: "statefulsets.apps", Phases: []Phase{
			{Name: "updated", When: workloadSettled("updatedReplicas")}, {Name: "ready", When: workloadSettled("readyReplicas")},
			{Name: "available", When: workloadSettled("availableReplicas")}}},
		{Name: "daemonset", Of: "daemonsets.apps", Phases: []Phase{
			{Name: "scheduled", When: onNodes("currentNumberScheduled")}, {Name: "ready", When: onNodes("numberReady")},
			{Name: "available", When: onNodes("numberAvailable")}}},
		{Name: "namespace", Of: "namespaces", Phases: []Phase{statusPhase("active", "Active"), statusPhase("terminating", "Terminating")}},
		{Name: "resourceclaim", Of: "resourceclaims.resource.k8s.io", Phases: []Phase{
			{Name: "allocated", When: "has(self.status.allocation)"}, {Name: "reserved", When: "size(self.status.reservedFor) > 0"}}},
		{Name: "volumesnapshot", Of: "volumesnapshots.snapshot.storage.k8s.io", Phases: []Phase{{Name: "ready", When: "self.status.readyToUse == true"}}},
		{Name: "datavolume", Of: "datavolumes.cdi.kubevirt.io", Phases: []Phase{{Condition: "Bound"}, {Condition: "Running"}, {Condition: "Ready"}}},
		virtualMachineLifecycle(), instanceLifecycle(), migrationLifecycle(), applicationLifecycle(), edgePod(),
	}
}

// knownLifecycle returns the lifecycle that a word stands for.
func knownLifecycle(name string) (Lifecycle, bool) {
	list := KnownLifecycles()
	i := slices.IndexFunc(list, func(l Lifecycle) bool { return l.Name == name })
	if i < 0 {
		return Lifecycle{}, false
	}
	return list[i].Resolved(), true
}

// statusPhase is a phase that status.phase names.
func statusPhase(name string, values ...string) Phase {
	return Phase{Name: name, When: `self.status.phase in ["` + strings.Join(values, `", "`) + `"]`}
}

// workloadSettled holds when a workload's controller has seen its latest spec and a
// count in its status is what the spec asks for.
func workloadSettled(count string) string {
	return "self.status.observedGeneration >= self.metadata.generation && (has(self.status." + count + ") ? self.status." + count + " : 0) >= self.spec.replicas"
}

// onNodes is settled for daemon sets, which have one pod on each node.
func onNodes(count string) string {
	return "self.status.observedGeneration >= self.metadata.generation && (has(self.status." + count + ") ? self.status." + count + " : 0) >= self.status.desiredNumberScheduled"
}

// virtualMachineLifecycle is the lifecycle of KubeVirt's VirtualMachine, by its instance.
func virtualMachineLifecycle() Lifecycle {
	return Lifecycle{
		Name: "vm", Of: "virtualmachines.kubevirt.io",
		Links: []Link{{Name: "instance", Of: "virtualmachineinstances.kubevirt.io"}},
		Phases: []Phase{
			{Name: "instanceCreated", On: "instance"}, {Name: "instanceRunning", On: "instance", When: `self.status.phase == "Running"`},
			{Condition: "Ready"},
		},
	}
}

// instanceLifecycle is the lifecycle of KubeVirt's VirtualMachineInstance, with what is seen
// on its launcher pod in between.
func instanceLifecycle() Lifecycle {
	steps := []string{"Pending", "Scheduling", "Scheduled", "Running"}
	own := func(i int) Phase { return statusPhase(strings.ToLower(steps[i]), steps[i:]...) }
	return Lifecycle{
		Name: "vmi", Of: "virtualmachineinstances.kubevirt.io",
		Links: []Link{{Name: "pod", Of: "pods", Selector: "kubevirt.io=virt-launcher"}},
		Phases: []Phase{
			own(0), {Name: "podCreated", On: "pod"}, own(1),
			{Name: "podScheduled", On: "pod", Condition: "PodScheduled"},
			{Name: "podReadyToStartContainers", On: "pod", Condition: "PodReadyToStartContainers"}, {Name: "podInitialized", On: "pod", Condition: "Initialized"},
			{Name: "podContainersReady", On: "pod", Condition: "ContainersReady"}, {Name: "podReady", On: "pod", Condition: "Ready"},
			own(2), own(3), {Condition: "Ready"}, statusPhase("succeeded", "Succeeded"), statusPhase("failed", "Failed"),
			{Name: "podDeleted", On: "pod", Deleted: true},
		},
	}
}

// edgePod is the lifecycle of a pod at a KubeEdge edge: its ObjectSync is made when the
// hub has seen it, and says a version when the edge has acknowledged it. A hub that
// makes it with the acknowledgement shows both at once.
func edgePod() Lifecycle {
	const uid = 36 // characters behind the node's name and a dot
	return Lifecycle{
		Name: "edgepod", Of: "pods",
		Links: []Link{{
			Name: "sync", Of: "objectsyncs.reliablesyncs.kubeedge.io", By: "key",
			Key: `self.spec.objectKind == "Pod" ? self.metadata.name.substring(size(self.metadata.name) - ` + strconv.Itoa(uid) + `) : ""`,
		}},
		Phases: []Phase{
			{Name: "bound", When: "has(self.spec.nodeName)"},
			{Name: "hubSeen", On: "sync"},
			{Name: "acked", On: "sync", When: `has(self.status.objectResourceVersion) && self.status.objectResourceVersion != "0"`},
			statusPhase("running", "Running", "Succeeded", "Failed"), {Condition: "Ready"},
		},
	}
}

// migrationLifecycle is the lifecycle of KubeVirt's VirtualMachineInstanceMigration.
func migrationLifecycle() Lifecycle {
	steps := []string{"Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running", "Succeeded"}
	l := Lifecycle{Name: "vmim", Of: "virtualmachineinstancemigrations.kubevirt.io"}
	for i, step := range steps {
		l.Phases = append(l.Phases, statusPhase(strings.ToLower(step[:1])+step[1:], steps[i:]...))
	}
	l.Phases = append(l.Phases, statusPhase("failed", "Failed"))
	return l
}

// applicationLifecycle is the lifecycle of KubeVela's Application. Its phase is status.status.
func applicationLifecycle() Lifecycle {
	return Lifecycle{Name: "app", Of: "applications.core.oam.dev", Phases: []Phase{
		{Name: "finalized", When: `"app.oam.dev/resource-tracker-finalizer" in self.metadata.finalizers`},
		{Name: "revised", When: "has(self.status.latestRevision)"},
		{Name: "runningWorkflow", When: `self.status.status in ["runningWorkflow", "workflowSuspending", "running", "unhealthy"]`},
		{Name: "running", When: `self.status.status == "running"`},
		{Name: "failed", When: `self.status.status in ["workflowFailed", "workflowTerminated"]`},
	}}
}
