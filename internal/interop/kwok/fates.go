package kwok

import "reflect"

// The fates of fields: what becomes of what a file says.
const (
	Honored = "honored" // what the field says is done
	Noted   = "noted"   // it has no meaning here, and a note says so
)

// Fate is the declared fate of one field of kwok's types.
type Fate struct {
	Name string // as files have it
	Fate string // Honored or Noted
	Text string // what it becomes; of a noted one why it has no meaning
}

// TypeFates are the fates of the fields of one type.
type TypeFates struct {
	Of     reflect.Type
	Path   string // where a document has it
	Fields []Fate
}

func honored(name, text string) Fate { return Fate{name, Honored, text} }

// StageFates are all fields of a Stage's spec.
func StageFates() []TypeFates { return append(matchFates(), playFates()...) }

// matchFates are those that say for what a stage is, and when.
func matchFates() []TypeFates {
	return []TypeFates{
		{reflect.TypeFor[Spec](), "spec", []Fate{
			honored("resourceRef", "the resource whose objects the stage is for"),
			honored("selector", "the objects that the stage matches; a stage without one is ignored, and a finding says so"),
			honored("weight", "the chance among several stages that match"), honored("weightFrom", "the weight, from the object"),
			honored("delay", "the time until the stage plays"), honored("next", "the older form of `steps`"),
			honored("immediateNextStage", "the next stage plays on the answer, without waiting for the watch"),
			honored("steps", "what the stage does, in order"),
		}},
		{reflect.TypeFor[ResourceRef](), "spec.resourceRef", []Fate{honored("apiGroup", "group and version"), honored("kind", "the kind")}},
		{reflect.TypeFor[Selector](), "spec.selector", []Fate{
			honored("matchLabels", "labels of the object"), honored("matchAnnotations", "annotations of the object"), honored("matchExpressions", "expressions over the object"),
		}},
		{reflect.TypeFor[Match](), "spec.selector.matchExpressions", []Fate{
			honored("cel", "a condition in CEL"), honored("jq", "a comparison of what a jq expression finds"),
			honored("key", "the older form of `jq.key`"), honored("operator", "the older form of `jq.operator`"), honored("values", "the older form of `jq.values`"),
		}},
		{reflect.TypeFor[Expression](), "spec.selector.matchExpressions.cel", []Fate{honored("expression", "the expression")}},
		{reflect.TypeFor[JQ](), "spec.selector.matchExpressions.jq", []Fate{
			honored("key", "the jq expression"), honored("operator", "In, NotIn, Exists or DoesNotExist"), honored("values", "the values of In and NotIn"),
		}},
		{reflect.TypeFor[From](), "spec.weightFrom", []Fate{
			honored("cel", "an expression in CEL"), honored("jq", "an expression in jq"), honored("expressionFrom", "the older form of `jq`"),
		}},
		{reflect.TypeFor[Delay](), "spec.delay", []Fate{
			honored("durationMilliseconds", "the delay"), honored("durationFrom", "the delay, from the object"),
			honored("jitterDurationMilliseconds", "the longest delay: one between is drawn"), honored("jitterDurationFrom", "the longest delay, from the object"),
		}},
	}
}

// playFates are those that say what a stage does.
func playFates() []TypeFates {
	return []TypeFates{
		{reflect.TypeFor[Next](), "spec.next", []Fate{
			honored("event", "an event about the object"), honored("finalizers", "a patch of the finalizers"), honored("delete", "deletion of the object"),
			honored("patches", "patches of the object"), honored("statusTemplate", "a patch of the status"), honored("statusSubresource", "the subresource of that patch"),
			honored("statusPatchAs", "the user of that patch"),
		}},
		{reflect.TypeFor[Step](), "spec.steps", []Fate{
			honored("patch", "a patch of the object"), honored("event", "an event about the object"), honored("finalizers", "a patch of the finalizers"),
			honored("delete", "deletion of the object"), honored("apply", "creation of any object, or a change of it"),
		}},
		{reflect.TypeFor[Patch](), "spec.steps.patch", []Fate{
			honored("subresource", "the subresource"), honored("root", "the key that the template stands under"), honored("template", "the patch"),
			honored("type", "json, merge or strategic"), honored("impersonation", "the user of the request"),
		}},
		{reflect.TypeFor[Apply](), "spec.steps.apply", []Fate{
			honored("template", "the object"), honored("subresource", "the subresource"), honored("type", "apply, merge or strategic"), honored("impersonation", "the user of the request"),
		}},
		{reflect.TypeFor[Impersonation](), "spec.steps.patch.impersonation", []Fate{honored("username", "the user")}},
		{reflect.TypeFor[Finalizers](), "spec.steps.finalizers", []Fate{
			honored("add", "finalizers that are added"), honored("remove", "finalizers that are removed"), honored("empty", "all finalizers are removed"),
		}},
		{reflect.TypeFor[Finalizer](), "spec.steps.finalizers.add", []Fate{honored("value", "the finalizer")}},
		{reflect.TypeFor[Event](), "spec.steps.event", []Fate{honored("type", "the type"), honored("reason", "the reason"), honored("message", "the message, a template")}},
	}
}
