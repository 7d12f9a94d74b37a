package kwok

import "github.com/windtunnel/windtunnel/internal/interop/kit"

func honored(name, text string) kit.Field {
	return kit.Field{Name: name, Fate: kit.Honored, Text: text}
}

// StageFates are all fields of a Stage's spec.
func StageFates() kit.Table { return append(matchFates(), playFates()...) }

// matchFates are those that say for what a stage is, and when.
func matchFates() kit.Table {
	return kit.Table{
		kit.Of[Spec]("spec", kit.Fields{
			honored("resourceRef", "the resource whose objects the stage is for"),
			honored("selector", "the objects that the stage matches; a stage without one is ignored, and a finding says so"),
			honored("weight", "the chance among several stages that match"), honored("weightFrom", "the weight, from the object"),
			honored("delay", "the time until the stage plays"), honored("next", "the older form of `steps`"),
			honored("immediateNextStage", "the next stage plays on the answer, without waiting for the watch"),
			honored("steps", "what the stage does, in order"),
		}),
		kit.Of[ResourceRef]("spec.resourceRef", kit.Fields{honored("apiGroup", "group and version"), honored("kind", "the kind")}),
		kit.Of[Selector]("spec.selector", kit.Fields{
			honored("matchLabels", "labels of the object"), honored("matchAnnotations", "annotations of the object"), honored("matchExpressions", "expressions over the object"),
		}),
		kit.Of[Match]("spec.selector.matchExpressions", kit.Fields{
			honored("cel", "a condition in CEL"), honored("jq", "a comparison of what a jq expression finds"),
			honored("key", "the older form of `jq.key`"), honored("operator", "the older form of `jq.operator`"), honored("values", "the older form of `jq.values`"),
		}),
		kit.Of[Expression]("spec.selector.matchExpressions.cel", kit.Fields{honored("expression", "the expression")}),
		kit.Of[JQ]("spec.selector.matchExpressions.jq", kit.Fields{
			honored("key", "the jq expression"), honored("operator", "In, NotIn, Exists or DoesNotExist"), honored("values", "the values of In and NotIn"),
		}),
		kit.Of[From]("spec.weightFrom", kit.Fields{
			honored("cel", "an expression in CEL"), honored("jq", "an expression in jq"), honored("expressionFrom", "the older form of `jq`"),
		}),
		kit.Of[Delay]("spec.delay", kit.Fields{
			honored("durationMilliseconds", "the delay"), honored("durationFrom", "the delay, from the object"),
			honored("jitterDurationMilliseconds", "the longest delay: one between is drawn"), honored("jitterDurationFrom", "the longest delay, from the object"),
		}),
	}
}

// playFates are those that say what a stage does.
func playFates() kit.Table {
	return kit.Table{
		kit.Of[Next]("spec.next", kit.Fields{
			honored("event", "an event about the object"), honored("finalizers", "a patch of the finalizers"), honored("delete", "deletion of the object"),
			honored("patches", "patches of the object"), honored("statusTemplate", "a patch of the status"), honored("statusSubresource", "the subresource of that patch"),
			honored("statusPatchAs", "the user of that patch"),
		}),
		kit.Of[Step]("spec.steps", kit.Fields{
			honored("patch", "a patch of the object"), honored("event", "an event about the object"), honored("finalizers", "a patch of the finalizers"),
			honored("delete", "deletion of the object"), honored("apply", "creation of any object, or a change of it"),
		}),
		kit.Of[Patch]("spec.steps.patch", kit.Fields{
			honored("subresource", "the subresource"), honored("root", "the key that the template stands under"), honored("template", "the patch"),
			honored("type", "json, merge or strategic"), honored("impersonation", "the user of the request"),
		}),
		kit.Of[Apply]("spec.steps.apply", kit.Fields{
			honored("template", "the object"), honored("subresource", "the subresource"), honored("type", "apply, merge or strategic"), honored("impersonation", "the user of the request"),
		}),
		kit.Of[Impersonation]("spec.steps.patch.impersonation", kit.Fields{honored("username", "the user")}),
		kit.Of[Finalizers]("spec.steps.finalizers", kit.Fields{
			honored("add", "finalizers that are added"), honored("remove", "finalizers that are removed"), honored("empty", "all finalizers are removed"),
		}),
		kit.Of[Finalizer]("spec.steps.finalizers.add", kit.Fields{honored("value", "the finalizer")}),
		kit.Of[Event]("spec.steps.event", kit.Fields{honored("type", "the type"), honored("reason", "the reason"), honored("message", "the message, a template")}),
	}
}
