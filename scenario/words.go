package scenario

// words returns the values that a field takes; the field is named as in
// messages. nil when it takes any.
func words(field string) []string {
	switch field {
	case "plane.durability":
		return []string{"memory", "fsync"}
	case "step.onFailure":
		return []string{"stop", "continue"}
	case "delete.propagation":
		return []string{"background", "foreground", "orphan"}
	case "wait.are":
		return append(Phases(), "gone")
	case "objective.slo":
		return []string{"kubernetes"}
	case "objective.sli":
		var out []string
		for _, s := range SLIs() {
			out = append(out, s.Name)
		}
		return out
	}
	return nil
}
