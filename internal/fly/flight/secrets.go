package flight

import (
	"regexp"
	"strings"
)

// secretName finds names of parameters whose values are not kept: run directories
// are sent around.
var secretName = regexp.MustCompile(`(?i)token|secret|passw|credential|api[-_]?key|private[-_]?key`)

// notKept stands for the value of a secret.
const notKept = "(not kept)"

// KeptParameters returns parameters without the texts whose names say that they are
// secret, as a run directory has them. Numbers stay: they are none, and what is computed of them must not change.
func KeptParameters(values map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range values {
		if text, ok := value.(string); ok && text != "" && secretName.MatchString(name) {
			value = notKept
		}
		out[name] = value
	}
	return out
}

// commandWithoutSecrets returns a command line whose NAME=VALUE have no secrets.
func commandWithoutSecrets(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		flag, rest := "", arg
		if strings.HasPrefix(arg, "--") {
			if before, after, cut := strings.Cut(arg, "="); cut && strings.Contains(after, "=") { // --set=NAME=VALUE
				flag, rest = before+"=", after
			}
		}
		if name, value, cut := strings.Cut(rest, "="); cut && value != "" && secretName.MatchString(name) {
			rest = name + "=" + notKept
		}
		out[i] = flag + rest
	}
	return out
}
