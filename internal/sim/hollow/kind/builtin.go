package kind

import (
	"reflect"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/weight"
)

// table is the built-in resources: a group's version, and below it a resource,
// its kind, its names, subresources and traits. Words: N is namespaced, short=
// and in= (a category), status, scale, POST (it can be created only), noBulk
// (there is no deletecollection); and the traits of Traits: gen, put, version,
// shown, keep, meta.
const table = `
v1
  bindings Binding N POST
  configmaps ConfigMap N short=cm
  endpoints Endpoints N short=ep put
  events Event N short=ev put
  limitranges LimitRange N short=limits put
  namespaces Namespace short=ns noBulk status shown
  nodes Node short=no status keep
  persistentvolumeclaims PersistentVolumeClaim N short=pvc status shown
  persistentvolumes PersistentVolume short=pv status shown
  pods Pod N short=po in=all status gen shown
  podtemplates PodTemplate N gen shown
  replicationcontrollers ReplicationController N short=rc in=all scale status gen
  resourcequotas ResourceQuota N short=quota status shown
  secrets Secret N
  serviceaccounts ServiceAccount N short=sa shown
  services Service N short=svc in=all status put shown
admissionregistration.k8s.io/v1
  mutatingadmissionpolicies MutatingAdmissionPolicy in=api-extensions gen version
  mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding in=api-extensions gen version
  mutatingwebhookconfigurations MutatingWebhookConfiguration in=api-extensions gen version
  validatingadmissionpolicies ValidatingAdmissionPolicy in=api-extensions status gen version
  validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding in=api-extensions gen version
  validatingwebhookconfigurations ValidatingWebhookConfiguration in=api-extensions gen version
apiextensions.k8s.io/v1
  customresourcedefinitions CustomResourceDefinition short=crd,crds in=api-extensions status gen
apps/v1
  controllerrevisions ControllerRevision N
  daemonsets DaemonSet N short=ds in=all status gen
  deployments Deployment N short=deploy in=all scale status gen
  replicasets ReplicaSet N short=rs in=all scale status gen
  statefulsets StatefulSet N short=sts in=all scale status gen
authentication.k8s.io/v1
  selfsubjectreviews SelfSubjectReview POST
  tokenreviews TokenReview POST
authorization.k8s.io/v1
  localsubjectaccessreviews LocalSubjectAccessReview N POST
  selfsubjectaccessreviews SelfSubjectAccessReview POST
  selfsubjectrulesreviews SelfSubjectRulesReview POST
  subjectaccessreviews SubjectAccessReview POST
autoscaling/v2
  horizontalpodautoscalers HorizontalPodAutoscaler N short=hpa in=all status gen
batch/v1
  cronjobs CronJob N short=cj in=all status gen
  jobs Job N in=all status gen
certificates.k8s.io/v1
  certificatesigningrequests CertificateSigningRequest short=csr status
coordination.k8s.io/v1
  leases Lease N put version
discovery.k8s.io/v1
  endpointslices EndpointSlice N gen
events.k8s.io/v1
  events Event N short=ev put
flowcontrol.apiserver.k8s.io/v1
  flowschemas FlowSchema status gen meta
  prioritylevelconfigurations PriorityLevelConfiguration status gen meta
networking.k8s.io/v1
  ingressclasses IngressClass gen
  ingresses Ingress N short=ing status gen
  ipaddresses IPAddress short=ip
  networkpolicies NetworkPolicy N short=netpol gen
  servicecidrs ServiceCIDR status meta
node.k8s.io/v1
  runtimeclasses RuntimeClass put version
policy/v1
  poddisruptionbudgets PodDisruptionBudget N short=pdb status gen version
rbac.authorization.k8s.io/v1
  clusterrolebindings ClusterRoleBinding put
  clusterroles ClusterRole put
  rolebindings RoleBinding N put
  roles Role N put
resource.k8s.io/v1
  deviceclasses DeviceClass gen shown
  resourceclaims ResourceClaim N status meta shown
  resourceclaimtemplates ResourceClaimTemplate N shown
  resourceslices ResourceSlice gen shown
scheduling.k8s.io/v1
  priorityclasses PriorityClass short=pc gen
storage.k8s.io/v1
  csidrivers CSIDriver gen version shown
  csinodes CSINode status version meta shown
  csistoragecapacities CSIStorageCapacity N version
  storageclasses StorageClass short=sc shown
  volumeattachments VolumeAttachment status version meta shown
  volumeattributesclasses VolumeAttributesClass short=vac shown
`

// Builtin returns the built-in resources.
func Builtin() *Set { return builtin() }

var builtin = sync.OnceValue(func() *Set {
	var kinds []*Kind
	var gv schema.GroupVersion
	for line := range strings.Lines(strings.TrimSpace(table)) {
		words := strings.Fields(line)
		if len(words) == 1 {
			group, version, ok := strings.Cut(words[0], "/")
			if !ok {
				group, version = "", group
			}
			gv = schema.GroupVersion{Group: group, Version: version}
			continue
		}
		kinds = append(kinds, parseLine(gv, words))
	}
	return newSet(kinds)
})

// parseLine reads a line of the table.
func parseLine(gv schema.GroupVersion, words []string) *Kind {
	k := &Kind{
		Group: gv.Group, Version: gv.Version, Plural: words[0], Kind: words[1], List: words[1] + "List",
		Singular: strings.ToLower(words[1]), Verbs: everyVerb(),
	}
	k.setGoType()
	k.schema = sync.OnceValue(func() *object.Schema { return object.SchemaOf(k.goType, k.APIVersion(), k.Kind) })
	change := []string{"get", "patch", "update"}
	for _, w := range words[2:] {
		word, value, _ := strings.Cut(w, "=")
		switch word {
		case "N":
			k.Namespaced = true
		case "POST":
			k.Verbs = []string{"create"}
		case "noBulk":
			k.Verbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
		case "short":
			k.Short = strings.Split(value, ",")
		case "in":
			k.Categories = []string{value}
		case "scale":
			k.Sub = append(k.Sub, Sub{Name: "scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: change})
		case "status":
			k.Sub = append(k.Sub, Sub{Name: "status", Kind: k.Kind, Verbs: change})
			k.Status = true
		default:
			k.Traits = k.Traits.withWord(word)
		}
	}
	k.Sub = append(k.Sub, ownSubresources(k)...)
	k.fields = fieldsOf(k)
	return k
}

func (t Traits) withWord(word string) Traits {
	switch word {
	case "gen":
		t.Generation = true
	case "put":
		t.PutCreates = true
	case "version":
		t.NeedVersion = true
	case "shown":
		t.ShowDeleted = true
	case "keep":
		t.KeepStatus = true
	case "meta":
		t.StatusMeta = true
	default:
		panic("no trait " + word)
	}
	return t
}

// ownSubresources returns the subresources that one resource alone has.
func ownSubresources(k *Kind) []Sub {
	post := []string{"create"}
	switch k.Table() {
	case "namespaces":
		return []Sub{{Name: "finalize", Kind: k.Kind, Verbs: []string{"update"}}}
	case "pods":
		return []Sub{
			{Name: "binding", Kind: "Binding", Verbs: post},
			{Name: "ephemeralcontainers", Kind: k.Kind, Verbs: []string{"get", "patch", "update"}},
			{Name: "eviction", Group: "policy", Version: "v1", Kind: "Eviction", Verbs: post},
			{Name: "resize", Kind: k.Kind, Verbs: []string{"get", "patch", "update"}},
		}
	case "serviceaccounts":
		return []Sub{{Name: "token", Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest", Verbs: post}}
	case "certificatesigningrequests.certificates.k8s.io":
		return []Sub{{Name: "approval", Kind: k.Kind, Verbs: []string{"get", "patch", "update"}}}
	}
	return nil
}

// goType returns the Go type of a built-in kind.
func goType(gvk schema.GroupVersionKind) reflect.Type {
	if gvk.Group == apiextensionsv1.GroupName {
		return reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]()
	}
	o, err := scheme.Scheme.New(gvk)
	if err != nil {
		panic(err)
	}
	return reflect.TypeOf(o).Elem()
}

// setGoType gives a kind its Go type.
func (k *Kind) setGoType() {
	k.goType = goType(k.GVK())
	k.layout = sync.OnceValue(func() *weight.Layout { return weight.LayoutOf(k.goType) })
}

// Form returns a kind that no resource is of, such as Scale: it is only read and
// written.
func Form(gvk schema.GroupVersionKind) *Kind {
	k := &Kind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
	k.setGoType()
	return k
}
