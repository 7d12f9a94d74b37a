package kubeburner

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
)

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// dnsLabel makes a DNS label of a name: small letters, digits and dashes. A name
// that is too long keeps its begin and gets a hash of the whole.
func dnsLabel(name string) string {
	const most = 40 // what stands behind it in steps' names must have room
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	clean = strings.Trim(clean, "-")
	if clean == "" {
		clean = "config"
	}
	if len(clean) > most {
		clean = fmt.Sprintf("%s-%x", strings.TrimRight(clean[:most-9], "-"), sha256.Sum256([]byte(name)))[:most]
	}
	return clean
}

// uniqueStep returns a step's name that no other step has.
func (im *importer) uniqueStep(parts ...string) string {
	name := strings.Join(parts, "-")
	if len(name) > 63 {
		name = fmt.Sprintf("%s-%x", strings.TrimRight(name[:54], "-"), sha256.Sum256([]byte(name)))[:63]
	}
	base := name
	for im.names[name] > 0 {
		im.names[base]++
		name = fmt.Sprintf("%s-%d", base[:min(len(base), 58)], im.names[base])
	}
	im.names[name] = 1
	return name
}

// selectorText writes labels as a selector.
func selectorText(labels map[string]string) string {
	return strings.Join(text.Pairs(labels), ",")
}

// groupKind names a kind of object without its version.
type groupKind struct{ group, kind string }

// crd is what a config's own custom resource definition says of a kind.
type crd struct {
	plural  string
	cluster bool
}

// resourceOf returns how scenarios call the objects of a kind, and whether they
// are outside of namespaces.
func (b *bodies) resourceOf(apiVersion, kind string) (name string, cluster bool) {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	known, custom := b.kinds[groupKind{group, kind}]
	if !custom {
		known = crd{pluralOf(kind), slices.Contains(clusterKinds(), kind)}
	}
	switch {
	case group == "":
		return known.plural, known.cluster
	case custom:
		return known.plural + "." + version + "." + group, known.cluster
	}
	return known.plural + "." + group, known.cluster
}

// isKnownKind tells whether it is known where objects of a kind are: in Kubernetes, of the
// config's own definitions, or in the cluster that is asked.
func (b *bodies) isKnownKind(apiVersion, kind string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok || !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") {
		return true
	}
	key := groupKind{group, kind}
	if _, ok := b.kinds[key]; ok || slices.Contains(clusterKinds(), kind) {
		return true
	}
	if b.opts.Served == nil {
		return false
	}
	plural, namespaced, err := b.opts.Served(apiVersion, kind)
	if err != nil {
		return false
	}
	b.kinds[key] = crd{plural, !namespaced}
	return true
}

// pluralOf is the rule by which kinds become resources.
func pluralOf(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case name == "endpoints" || name == "":
		return name
	case strings.HasSuffix(name, "s"), strings.HasSuffix(name, "x"), strings.HasSuffix(name, "ch"), strings.HasSuffix(name, "sh"):
		return name + "es"
	case len(name) > 1 && strings.HasSuffix(name, "y") && !strings.ContainsAny(name[len(name)-2:len(name)-1], "aeiou"):
		return name[:len(name)-1] + "ies"
	}
	return name + "s"
}

// clusterKinds are the kinds of Kubernetes, and of what kube-burner's workloads
// use beside it, that are outside of namespaces.
func clusterKinds() []string {
	return strings.Fields(`Namespace Node PersistentVolume ClusterRole ClusterRoleBinding StorageClass PriorityClass RuntimeClass
		CustomResourceDefinition APIService CSIDriver CSINode VolumeAttachment VolumeAttributesClass VolumeSnapshotClass
		VolumeSnapshotContent IngressClass FlowSchema PriorityLevelConfiguration CertificateSigningRequest ClusterTrustBundle
		ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
		MutatingAdmissionPolicy MutatingAdmissionPolicyBinding DeviceClass ResourceSlice DeviceTaintRule IPAddress ServiceCIDR
		StorageVersionMigration ClusterUserDefinedNetwork RouteAdvertisements EgressIP AdminNetworkPolicy
		BaselineAdminNetworkPolicy GatewayClass Project`)
}

// apiVersionOf is where a kind is looked for when a config does not say.
func apiVersionOf(kind string) string {
	switch kind {
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet":
		return "apps/v1"
	case "Job", "CronJob":
		return "batch/v1"
	case "VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceReplicaSet":
		return "kubevirt.io/v1"
	case "DataVolume", "DataSource":
		return "cdi.kubevirt.io/v1beta1"
	case "VolumeSnapshot":
		return "snapshot.storage.k8s.io/v1"
	case "Build", "BuildConfig":
		return "build.openshift.io/v1"
	}
	return "v1"
}
