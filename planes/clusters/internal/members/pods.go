package members

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// pod is what is kept of a pod. A corev1.Pod takes 1.6 kB however little is in it, and
// at full size there are two for each of 200,000.
type pod struct {
	metav1.ObjectMeta // its name, UID and version alone

	hostUID string // of a member's pod: which pod of the host it is
	node    string
	sum     string // a digest of its status
	ended   bool
}

// keepPod keeps of a pod what is compared.
func keepPod(p *corev1.Pod) *pod {
	return &pod{
		ObjectMeta: slim.Named(p), hostUID: p.Annotations[api.AnnotationHostUID], node: p.Spec.NodeName, sum: api.PodSum(&p.Status),
		ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
	}
}

// found is a pod of a member.
type found struct {
	member string
	pod    *pod
}

// inventory are the pods of members by the pod of the host that they are, from which
// those that are compared are taken out.
type inventory struct {
	count  int
	first  map[string]found
	others map[string][]found // further ones of the same pod of the host
}

// addPods puts a member's pods in.
func (v *inventory) addPods(member string, pods []*pod) {
	if v.first == nil {
		v.first, v.others = make(map[string]found, len(pods)), map[string][]found{}
	}
	v.count += len(pods)
	for _, p := range pods {
		f := found{member, p}
		if _, there := v.first[f.pod.hostUID]; there {
			v.others[f.pod.hostUID] = append(v.others[f.pod.hostUID], f)
			continue
		}
		v.first[f.pod.hostUID] = f
	}
}

// comparePod looks at a pod of the host and those that members have of it.
func (v *inventory) comparePod(p *pod) (d agree.Difference, differs bool) {
	uid := string(p.UID)
	first, there := v.first[uid]
	others := v.others[uid]
	delete(v.first, uid)
	delete(v.others, uid)
	switch {
	case there && len(others) == 0 && first.pod.sum == p.sum, !there && p.ended:
		return d, false
	case !there:
		return agree.Difference{How: missing, Object: p.Namespace + "/" + p.Name}, true
	}
	d = agree.Difference{How: unequal, Object: p.Namespace + "/" + p.Name, Where: []string{first.member}}
	for _, f := range others {
		d.How, d.Where = doubled, append(d.Where, f.member)
	}
	return d, true
}

// remainingPods are the members' pods that belong to none of the host.
func (v *inventory) remainingPods() (out []agree.Difference) {
	for uid, f := range v.first {
		for _, f := range append(v.others[uid], f) {
			out = append(out, agree.Difference{How: extra, Object: f.pod.Namespace + "/" + f.pod.Name, Where: []string{f.member}})
		}
	}
	return out
}
