package printer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

func nodeColumns() []column {
	address := func(kind corev1.NodeAddressType) func(o *corev1.Node) string {
		return func(o *corev1.Node) string {
			for _, a := range o.Status.Addresses {
				if a.Type == kind {
					return a.Address
				}
			}
			return none
		}
	}
	return namedColumns(textColumn("Status", nodeStatus), textColumn("Roles", nodeRoles), ageColumn(),
		textColumn("Version", func(o *corev1.Node) string { return o.Status.NodeInfo.KubeletVersion }),
		textColumn("Internal-IP", address(corev1.NodeInternalIP)).whenWide(),
		textColumn("External-IP", address(corev1.NodeExternalIP)).whenWide(),
		textColumn("OS-Image", func(o *corev1.Node) string { return orElse(o.Status.NodeInfo.OSImage, unknown) }).whenWide(),
		textColumn("Kernel-Version", func(o *corev1.Node) string {
			out := orElse(o.Status.NodeInfo.KernelVersion, unknown)
			if a := o.Status.NodeInfo.Architecture; a != "" {
				out += " (" + a + ")"
			}
			return out
		}).whenWide(),
		textColumn("Container-Runtime", func(o *corev1.Node) string { return orElse(o.Status.NodeInfo.ContainerRuntimeVersion, unknown) }).whenWide())
}

func nodeStatus(o *corev1.Node) string {
	out := "Unknown"
	for _, c := range o.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			out = "Ready"
		default:
			out = "NotReady"
		}
	}
	if o.Spec.Unschedulable {
		out += ",SchedulingDisabled"
	}
	return out
}

func nodeRoles(o *corev1.Node) string {
	roles := map[string]bool{}
	for name, v := range o.Labels {
		if role, ok := strings.CutPrefix(name, "node-role.kubernetes.io/"); ok && role != "" {
			roles[role] = true
		} else if name == "kubernetes.io/role" && v != "" {
			roles[v] = true
		}
	}
	return orElse(strings.Join(slices.Sorted(maps.Keys(roles)), ","), none)
}

func serviceColumns() []column {
	return namedColumns(textColumn("Type", func(o *corev1.Service) string { return string(o.Spec.Type) }),
		textColumn("Cluster-IP", func(o *corev1.Service) string {
			if len(o.Spec.ClusterIPs) > 0 {
				return o.Spec.ClusterIPs[0]
			}
			return none
		}),
		textColumn("External-IP", externalIP),
		textColumn("Port(s)", func(o *corev1.Service) string { return orElse(joinTexts(o.Spec.Ports, portText), none) }), ageColumn(),
		textColumn("Selector", func(o *corev1.Service) string { return labels.FormatLabels(o.Spec.Selector) }).whenWide())
}

func portText(p corev1.ServicePort) string {
	if p.NodePort > 0 {
		return fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
	}
	return fmt.Sprintf("%d/%s", p.Port, p.Protocol)
}

func externalIP(o *corev1.Service) string {
	own := strings.Join(o.Spec.ExternalIPs, ",")
	switch o.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return o.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var given []string
		for _, at := range o.Status.LoadBalancer.Ingress {
			given = append(given, orElse(at.IP, at.Hostname))
		}
		return orElse(strings.Join(append(given, o.Spec.ExternalIPs...), ","), "<pending>")
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orElse(own, none)
	}
	return unknown
}

// eventColumns are those of events, whose name only -o wide shows.
func eventColumns() []column {
	name := nameColumn()
	name.wide = true
	return []column{
		{name: "Last Seen", cell: func(o runtime.Object, now time.Time) any { return lastSeen(o.(*corev1.Event), now) }},
		textColumn("Type", func(o *corev1.Event) string { return o.Type }),
		textColumn("Reason", func(o *corev1.Event) string { return o.Reason }),
		textColumn("Object", func(o *corev1.Event) string {
			out := strings.ToLower(o.InvolvedObject.Kind)
			if o.InvolvedObject.Name != "" {
				out += "/" + o.InvolvedObject.Name
			}
			return out
		}),
		textColumn("Subobject", func(o *corev1.Event) string { return o.InvolvedObject.FieldPath }).whenWide(),
		textColumn("Source", func(o *corev1.Event) string {
			source := orElse(o.Source.Component, o.ReportingController)
			if host := orElse(o.Source.Host, o.ReportingInstance); host != "" {
				source += ", " + host
			}
			return source
		}).whenWide(),
		textColumn("Message", func(o *corev1.Event) string { return strings.TrimSpace(o.Message) }),
		column{name: "First Seen", cell: func(o runtime.Object, now time.Time) any { return firstSeen(o.(*corev1.Event), now) }}.whenWide(),
		numberColumn("Count", eventCount).asText().whenWide(),
		name,
	}
}

func firstSeen(o *corev1.Event, now time.Time) string {
	if o.FirstTimestamp.IsZero() {
		return formatAge(metav1.Time(o.EventTime), now)
	}
	return formatAge(o.FirstTimestamp, now)
}

func lastSeen(o *corev1.Event, now time.Time) string {
	switch {
	case o.Series != nil:
		return formatAge(metav1.Time(o.Series.LastObservedTime), now)
	case o.LastTimestamp.IsZero():
		return firstSeen(o, now)
	}
	return formatAge(o.LastTimestamp, now)
}

func eventCount(o *corev1.Event) int {
	switch {
	case o.Series != nil:
		return int(o.Series.Count)
	case o.Count == 0:
		return 1
	}
	return int(o.Count)
}
