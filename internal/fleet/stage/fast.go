package stage

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// Fast returns the built-in set "fast", with the meaning of kwok's stages
// node-fast, heartbeat-with-lease and pod-fast: nodes become Ready at once and
// post their conditions every 10 minutes, pods run as soon as they are bound,
// pods of Jobs complete at once, and pods that are being deleted disappear.
func Fast() *Set {
	return &Set{
		name: "fast",
		pods: []*rule{
			{name: "pod-ready", pod: podStarts, kind: Patch, render: podReady},
			{name: "pod-complete", pod: podCompletes, kind: Patch, render: podComplete},
			{name: "pod-delete", pod: func(p *object.Pod) bool { return p.Deleting }, kind: Delete},
		},
		nodes: []*rule{
			{name: "node-initialize", node: nodeStarts, kind: Patch, render: nodeInitialize},
			{
				name: "node-heartbeat-with-lease", node: nodeBeats, kind: Patch, render: nodeHeartbeat,
				delay: delay{d: 600 * time.Second, jitter: 610 * time.Second},
			},
		},
	}
}

func podStarts(p *object.Pod) bool {
	return !p.Deleting && string(p.Phase) == "Pending" && string(p.Ready) != "True"
}

func podCompletes(p *object.Pod) bool {
	if p.Deleting || string(p.Phase) != "Running" {
		return false
	}
	for _, kind := range p.Owners {
		if string(kind) == "Job" {
			return true
		}
	}
	return false
}

func nodeStarts(n *object.Node) bool { return string(n.Ready) != "True" }

func nodeBeats(n *object.Node) bool {
	return string(n.Ready) == "True" && string(n.Phase) == "Running"
}

// head opens a status patch. The uid in it makes the server refuse a patch
// that is meant for an earlier object of the same name.
func (w *writer) head(uid []byte) {
	w.raw(`{"metadata":{`)
	if len(uid) > 0 {
		w.raw(`"uid":`).quoted(uid)
	}
	w.raw(`},"status":{`)
}

func podReady(w *writer, o any) {
	p := o.(*object.Pod)
	w.head(p.UID)
	w.raw(`"conditions":[`)
	for _, kind := range [...]string{"Initialized", "Ready", "ContainersReady"} {
		w.podCondition([]byte(kind))
	}
	for _, kind := range p.ReadinessGates {
		w.podCondition(kind)
	}
	w.raw(`],"containerStatuses":[`)
	for _, c := range p.Containers {
		w.container(c).raw(`"ready":true,"restartCount":0,"state":{"running":{"startedAt":`).now().raw(`}}}`)
	}
	w.raw(`]`)
	if len(p.InitContainers) > 0 {
		w.raw(`,"initContainerStatuses":[`)
		for _, c := range p.InitContainers {
			w.initContainer(c)
		}
		w.raw(`]`)
	}
	w.addresses(p)
	w.raw(`,"phase":"Running","startTime":`).now().raw(`}}`)
}

func (w *writer) podCondition(kind []byte) {
	w.item().raw(`{"lastTransitionTime":`).now().raw(`,"status":"True","type":`).quoted(kind).raw(`}`)
}

func (w *writer) container(c object.Container) *writer {
	return w.item().raw(`{"image":`).quoted(c.Image).raw(`,"name":`).quoted(c.Name).raw(`,`)
}

func (w *writer) initContainer(c object.Container) {
	w.container(c).raw(`"ready":true,"restartCount":0,`)
	if string(c.RestartPolicy) == "Always" {
		w.raw(`"started":true,"state":{"running":{"startedAt":`).now().raw(`}}}`)
		return
	}
	w.terminated()
}

// terminated appends the state of a container that ended well, and closes it.
func (w *writer) terminated() {
	w.raw(`"state":{"terminated":{"exitCode":0,"finishedAt":`).now().raw(`,"reason":"Completed","startedAt":`).now().raw(`}}}`)
}

func (w *writer) addresses(p *object.Pod) {
	if w.env.Addresses == nil {
		return
	}
	w.ip("hostIP", "hostIPs", w.env.Addresses.Host(p.NodeName))
	w.ip("podIP", "podIPs", w.env.Addresses.Pod(p))
}

func (w *writer) ip(one, all string, a netip.Addr) {
	if !a.IsValid() {
		return
	}
	w.raw(`,"`).raw(one).raw(`":"`)
	w.b = a.AppendTo(w.b)
	w.raw(`","`).raw(all).raw(`":[{"ip":"`)
	w.b = a.AppendTo(w.b)
	w.raw(`"}]`)
}

func podComplete(w *writer, o any) {
	p := o.(*object.Pod)
	w.head(p.UID)
	w.raw(`"containerStatuses":[`)
	for _, c := range p.Containers {
		w.container(c).raw(`"ready":false,"restartCount":0,"started":false,`).terminated()
	}
	w.raw(`],"phase":"Succeeded"}}`)
}

// NodeCondition is a condition that a healthy node reports.
type NodeCondition struct{ Type, Status, Reason, Message string }

// NodeConditions returns the conditions of a healthy node.
func NodeConditions() []NodeCondition {
	return []NodeCondition{
		{"Ready", "True", "KubeletReady", "kubelet is posting ready status"},
		{"MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{"DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{"PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{"NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"},
	}
}

func (w *writer) nodeConditions(n *object.Node) {
	since := w.env.Now
	if n.Created > 0 {
		since = time.Unix(n.Created, 0)
	}
	w.raw(`"conditions":[`)
	for _, c := range NodeConditions() {
		w.item().raw(`{"lastHeartbeatTime":`).now().raw(`,"lastTransitionTime":`).time(since)
		w.raw(`,"message":"`).raw(c.Message).raw(`","reason":"`).raw(c.Reason)
		w.raw(`","status":"`).raw(c.Status).raw(`","type":"`).raw(c.Type).raw(`"}`)
	}
	w.raw(`]`)
}

func nodeInitialize(w *writer, o any) {
	n := o.(*object.Node)
	w.head(n.UID)
	w.nodeConditions(n)
	host := w.hostIP(n)
	if ip := len(n.InternalIP) == 0 && host.IsValid(); ip || !n.HasHostname {
		w.addressesOf(n, ip, !n.HasHostname)
	}
	w.daemon()
	w.resources(n, nodeCapacity)
	w.info(n, [...]text{
		{object.InfoArchitecture, "architecture", "amd64"},
		{object.InfoOperatingSystem, "operatingSystem", "linux"},
		{object.InfoOSImage, "osImage", "simulated by windtunnel"},
		{object.InfoKernelVersion, "kernelVersion", "simulated"},
		{object.InfoContainerRuntimeVersion, "containerRuntimeVersion", "windtunnel://1"},
		{object.InfoKubeletVersion, "kubeletVersion", "windtunnel-" + w.env.Version},
	})
	w.raw(`,"phase":"Running"}}`)
}

// text is a field of status.nodeInfo and what it says of a node that says
// nothing of it.
type text struct {
	number      int
	name, value string
}

// info appends what the node does not say of itself yet.
func (w *writer) info(n *object.Node, all [6]text) {
	w.raw(`,"nodeInfo":{`)
	for _, t := range all {
		if !n.Says(t.number) {
			w.item().raw(`"`).raw(t.name).raw(`":`).quoted([]byte(t.value))
		}
	}
	w.raw(`}`)
}

// resources appends what a node has that does not say it.
func (w *writer) resources(n *object.Node, has string) {
	if !n.HasAllocation {
		w.raw(`,"allocatable":`).raw(has)
	}
	if !n.HasCapacity {
		w.raw(`,"capacity":`).raw(has)
	}
}

// addressesOf appends a node's address, its name, or both.
func (w *writer) addressesOf(n *object.Node, ip, name bool) {
	w.raw(`,"addresses":[`)
	if ip {
		w.raw(`{"address":"`)
		w.b = w.hostIP(n).AppendTo(w.b)
		w.raw(`","type":"InternalIP"}`)
	}
	if name {
		w.item().raw(`{"address":`).quoted(n.Name).raw(`,"type":"Hostname"}`)
	}
	w.raw(`]`)
}

// nodeCapacity is what a node has that does not say it.
const nodeCapacity = `{"cpu":"32","memory":"256Gi","ephemeral-storage":"1Ti","pods":"110"}`

// daemon says on which port the node's kubelet is served, if it is.
func (w *writer) daemon() {
	if w.env.KubeletPort == 0 {
		return
	}
	w.raw(`,"daemonEndpoints":{"kubeletEndpoint":{"Port":`)
	w.b = strconv.AppendInt(w.b, int64(w.env.KubeletPort), 10)
	w.raw(`}}`)
}

func (w *writer) hostIP(n *object.Node) netip.Addr {
	if w.env.Addresses == nil {
		return netip.Addr{}
	}
	return w.env.Addresses.Host(n.Name)
}

func nodeHeartbeat(w *writer, o any) {
	n := o.(*object.Node)
	w.head(n.UID)
	w.nodeConditions(n)
	w.raw(`}}`)
}
