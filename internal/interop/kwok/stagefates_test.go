package kwok

import "github.com/windtunnel/windtunnel/internal/interop/kit"

func honoredField(name, text string) kit.Field {
	return kit.Field{Name: name, Fate: kit.Honored, Text: text}
}

// StageFates are all fields of a Stage's spec.
func StageFates() kit.Table { return append(matchFates(), playFates()...) }

// matchFates are those that say for what a stage is, and when.
func matchFates() kit.Table {
	return kit.Table{
		kit.Of[Spec]("spec", kit.Fields{
			honoredField("resourceRef", "the resource whose objects the stage is for"),
			honoredField("selector", "the objects that the stage matches; a stage without one is ignored, and a finding says so"),
			honoredField("weight", "the chance among several stages that match"), honoredField("weightFrom", "the weight, from the object"),
			honoredField("delay", "the time until the stage plays"), honoredField("next", "the older form of `steps`"),
			honoredField("immediateNextStage", "the next stage plays on the answer, without waiting for the watch"),
			honoredField("steps", "what the stage does, in order"),
		}),
		kit.Of[ResourceRef]("spec.resourceRef", kit.Fields{honoredField("apiGroup", "group and version"), honoredField("kind", "the kind")}),
		kit.Of[Selector]("spec.selector", kit.Fields{
			honoredField("matchLabels", "labels of the object"), honoredField("matchAnnotations", "annotations of the object"), honoredField("matchExpressions", "expressions over the object"),
		}),
		kit.Of[Match]("spec.selector.matchExpressions", kit.Fields{
			honoredField("cel", "a condition in CEL"), honoredField("jq", "a comparison of what a jq expression finds"),
			honoredField("key", "the older form of `jq.key`"), honoredField("operator", "the older form of `jq.operator`"), honoredField("values", "the older form of `jq.values`"),
		}),
		kit.Of[Expression]("spec.selector.matchExpressions.cel", kit.Fields{honoredField("expression", "the expression")}),
		kit.Of[JQ]("spec.selector.matchExpressions.jq", kit.Fields{
			honoredField("key", "the jq expression"), honoredField("operator", "In, NotIn, Exists or DoesNotExist"), honoredField("values", "the values of In and NotIn"),
		}),
		kit.Of[From]("spec.weightFrom", kit.Fields{
			honoredField("cel", "an expression in CEL"), honoredField("jq", "an expression in jq"), honoredField("expressionFrom", "the older form of `jq`"),
		}),
		kit.Of[Delay]("spec.delay", kit.Fields{
			honoredField("durationMilliseconds", "the delay"), honoredField("durationFrom", "the delay, from the object"),
			honoredField("jitterDurationMilliseconds", "the longest delay: one between is drawn"), honoredField("jitterDurationFrom", "the longest delay, from the object"),
		}),
	}
}

// playFates are those that say what a stage does.
func playFates() kit.Table {
	return kit.Table{
		kit.Of[Next]("spec.next", kit.Fields{
			honoredField("event", "an event about the object"), honoredField("finalizers", "a patch of the finalizers"), honoredField("delete", "deletion of the object"),
			honoredField("patches", "patches of the object"), honoredField("statusTemplate", "a patch of the status"), honoredField("statusSubresource", "the subresource of that patch"),
			honoredField("statusPatchAs", "the user of that patch"),
		}),
		kit.Of[Step]("spec.steps", kit.Fields{
			honoredField("patch", "a patch of the object"), honoredField("event", "an event about the object"), honoredField("finalizers", "a patch of the finalizers"),
			honoredField("delete", "deletion of the object"), honoredField("apply", "creation of any object, or a change of it"),
		}),
		kit.Of[Patch]("spec.steps.patch", kit.Fields{
			honoredField("subresource", "the subresource"), honoredField("root", "the key that the template stands under"), honoredField("template", "the patch"),
			honoredField("type", "json, merge or strategic"), honoredField("impersonation", "the user of the request"),
		}),
		kit.Of[Apply]("spec.steps.apply", kit.Fields{
			honoredField("template", "the object"), honoredField("subresource", "the subresource"), honoredField("type", "apply, merge or strategic"), honoredField("impersonation", "the user of the request"),
		}),
		kit.Of[Impersonation]("spec.steps.patch.impersonation", kit.Fields{honoredField("username", "the user")}),
		kit.Of[Finalizers]("spec.steps.finalizers", kit.Fields{
			honoredField("add", "finalizers that are added"), honoredField("remove", "finalizers that are removed"), honoredField("empty", "all finalizers are removed"),
		}),
		kit.Of[Finalizer]("spec.steps.finalizers.add", kit.Fields{honoredField("value", "the finalizer")}),
		kit.Of[Event]("spec.steps.event", kit.Fields{honoredField("type", "the type"), honoredField("reason", "the reason"), honoredField("message", "the message, a template")}),
	}
}
