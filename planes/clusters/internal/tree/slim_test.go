package tree

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// TestCachesAreSlim holds how many bytes an object takes in a cache, with its key and its
// place in indexes: at full size there are 100,000 nodes and 200,000 pods on both sides.
// It takes no time into account and no other test of the package runs beside it.
func TestCachesAreSlim(t *testing.T) {
	for _, c := range []struct {
		what     string
		most     int // bytes, a fifth above what was measured
		keep     cache.TransformFunc
		indexers cache.Indexers
		make     func(i int) protobuf
		empty    func() protobuf
	}{
		{"pod of the host", 1160, slim.Transform(slim.Always(keepHubPod)), cache.Indexers{byNode: nodeOf}, func(i int) protobuf { return runningPod(i, false) }, func() protobuf { return &corev1.Pod{} }},
		{"pod of a member", 1520, slim.Transform(keepMemberPod), nil, func(i int) protobuf { return runningPod(i, true) }, func() protobuf { return &corev1.Pod{} }},
		{"node of the host", 780, slim.Transform(slim.Always(keepHubNode)), nil, func(i int) protobuf { return readyNode(i) }, func() protobuf { return &corev1.Node{} }},
		{"node of a member", 2100, slim.Transform(slim.Always(keepMemberNode)), nil, func(i int) protobuf { return readyNode(i) }, func() protobuf { return &corev1.Node{} }},
	} {
		const n = 2000
		store := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, c.indexers)
		before := live()
		for i := range n {
			o := c.empty()
			repotest.NoError(t, o.Unmarshal(repotest.Must(c.make(i).Marshal())(t)))
			repotest.NoError(t, store.Add(repotest.Must(c.keep(o))(t)))
		}
		each := (live() - before) / n
		repotest.Equal(t, len(store.List()), n, "objects kept")
		t.Logf("a %s takes %d bytes", c.what, each)
		if each > c.most {
			t.Errorf("a %s takes %d bytes, want at most %d", c.what, each, c.most)
		}
	}
}

// TestMemberPodIsKept holds that the status which goes up is the one that came, and that
// pods which are not the tree's take what they request until they have ended.
func TestMemberPodIsKept(t *testing.T) {
	p := runningPod(1, true)
	kept := repotest.Must(keepMemberPod(p.DeepCopy()))(t)
	var status corev1.PodStatus
	if err := status.Unmarshal(kept.status); err != nil || !apiequality.Semantic.DeepEqual(status, p.Status) {
		t.Errorf("%v: %v", err, status)
	}
	p.Labels = nil
	for phase, want := range map[corev1.PodPhase]string{corev1.PodRunning: "5m", corev1.PodSucceeded: "0"} {
		p.Status.Phase = phase
		kept := repotest.Must(keepMemberPod(p))(t)
		sum := corev1.ResourceList{}
		kept.requests.AddTo(sum, 1)
		repotest.Equal(t, sum.Cpu().String(), want, "a pod that is %s takes", phase)
	}
}

// protobuf is what an informer decodes: every text of it is one of its own.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// live is how many bytes of the heap are in use.
func live() int {
	runtime.GC()
	runtime.GC() // the first one leaves what has finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// runningPod is a pod of a Deployment as a kubelet reports it; two are on a node.
func runningPod(i int, member bool) *corev1.Pod {
	now := metav1.NewTime(time.Unix(1700000000+int64(i), 0))
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("latency-deployment-%d-7d9c5b6f4-x%06d", i/100, i), Namespace: fmt.Sprintf("namespace-%d", i%200),
		UID: types.UID(fmt.Sprintf("0f0e0d0c-0b0a-4908-8706-%012d", i)), ResourceVersion: fmt.Sprint(1000000 + i), CreationTimestamp: now, GenerateName: fmt.Sprintf("latency-deployment-%d-7d9c5b6f4-", i/100),
		Labels: map[string]string{"app": fmt.Sprint("latency-deployment-", i/100), "group": "density", "pod-template-hash": "7d9c5b6f4", api.LabelPod: "true"},
	}}
	if member {
		p.Annotations = map[string]string{api.AnnotationHostUID: fmt.Sprintf("0f0e0d0c-0b0a-4908-8706-%012d", i)}
	} else {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprint("latency-deployment-", i/100), UID: "0f0e0d0c-0b0a-4908-8706-000000000000", Controller: &yes, BlockOwnerDeletion: &yes}}
	}
	p.Spec.NodeName = fmt.Sprintf("member-%d-node-%d", i%20, i/2)
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example/pause:3.10", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("20Mi")}}}}
	s := &p.Status
	s.Phase, s.HostIP, s.PodIP, s.StartTime, s.QOSClass = corev1.PodRunning, "10.0.0.1", fmt.Sprintf("10.1.%d.%d", i/256, i%256), &now, corev1.PodQOSBurstable
	s.HostIPs, s.PodIPs = []corev1.HostIP{{IP: s.HostIP}}, []corev1.PodIP{{IP: s.PodIP}}
	for _, of := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	s.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Ready: true, Started: &yes, Image: "registry.example/pause:3.10", ImageID: "registry.example/pause@sha256:7d9c5b6f47d9c5b6f47d9c5b6f47d9c5b6f47d9c5b6f47d9c5b6f47d9c5b6f4a",
		ContainerID: fmt.Sprintf("containerd://7d9c5b6f47d9c5b6f47d9c5b6f47d9c5b6f47d9c5b6f47d9c5b6f47d9c%06d", i), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	return p
}

// readyNode is a node as a kubelet reports it, and as a leaf of it.
func readyNode(i int) *corev1.Node {
	now := metav1.NewTime(time.Unix(1700000000+int64(i), 0))
	name := fmt.Sprintf("member-%d-node-%d", i%20, i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(fmt.Sprintf("0f0e0d0c-0b0a-4908-8706-%012d", i)), ResourceVersion: fmt.Sprint(1000000 + i), CreationTimestamp: now,
		Labels:      map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3), api.LabelNode: "true", "kubernetes.io/role": "agent"},
		Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0", api.AnnotationOwnedBy: fmt.Sprint("member-", i%20)},
	}}
	n.Spec.Taints = []corev1.Taint{{Key: api.LabelNode, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	n.Spec.PodCIDR, n.Spec.PodCIDRs, n.Spec.ProviderID = "10.1.0.0/24", []string{"10.1.0.0/24"}, "provider://zone/"+name
	room := func() corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dKi", 32000000+i)), corev1.ResourcePods: resource.MustParse("110"),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), "hugepages-2Mi": resource.MustParse("0"),
		}
	}
	s := &n.Status
	s.Capacity, s.Allocatable = room(), room()
	for _, of := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		s.Conditions = append(s.Conditions, corev1.NodeCondition{Type: of, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientResources", Message: "kubelet has sufficient of what there is", LastHeartbeatTime: now, LastTransitionTime: now})
	}
	s.Conditions[0].Status = corev1.ConditionTrue
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: name}}
	s.NodeInfo = corev1.NodeSystemInfo{MachineID: name, SystemUUID: name, BootID: name, KernelVersion: "6.1", OSImage: "Linux", ContainerRuntimeVersion: "containerd://2.0", KubeletVersion: "v1.37.1", OperatingSystem: "linux", Architecture: "amd64"}
	for k := range 20 {
		s.Images = append(s.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example/app-%d:1", k)}, SizeBytes: 1 << 20})
	}
	return n
}
