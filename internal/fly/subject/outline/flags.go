package outline

import (
	"regexp"
	"slices"
	"strings"
)

// Flag is a flag of a program, as its help shows it.
type Flag struct {
	Name    string
	Default string // empty: the help names none
	Text    string // what the help says of it
}

// flagLine is the line with which package flag, pflag and kingpin begin a flag: its name
// after one dash or two, after a short form if there is one.
var (
	flagLine    = regexp.MustCompile(`^\s+(?:-\w,\s+)?--?(?:\[no-\])?([A-Za-z][\w.-]*)(.*)$`)
	flagDefault = regexp.MustCompile(`\(default:? *"?([^")]*)"?\)`)
)

// ParseFlags reads the flags of a help text. A line that begins no flag belongs to the
// flag before.
func ParseFlags(help string) (out []Flag) {
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\r\n")
		text := line
		if m := flagLine.FindStringSubmatch(line); m != nil {
			name, value, given := strings.Cut(m[1]+m[2], "=") // kingpin: --name="default"
			if given && name == m[1] {
				value, _, _ = strings.Cut(strings.TrimPrefix(value, `"`), `"`)
				value, _, _ = strings.Cut(value, " ")
			} else {
				value = ""
			}
			out, text = append(out, Flag{Name: m[1], Default: value}), m[2]
		}
		if len(out) > 0 {
			out[len(out)-1].Text += " " + strings.TrimSpace(text)
		}
		if m := flagDefault.FindStringSubmatch(text); m != nil && len(out) > 0 {
			out[len(out)-1].Default = m[1]
		}
	}
	return out
}

// role is what a flag is for.
type role struct {
	has    [][]string // words of which the name has one of each list
	about  string     // a word that the help has of a flag, if the name lacks those of the first list; empty: the name has to
	lacks  []string   // words that the name does not have
	value  func(Flag) string
	absent string // what it means that no flag is for it
}

// roles are what a scenario sets, in the order of its command line.
func roles() []role {
	where := []string{"addr", "port", "listen", "bind"}
	return []role{
		{
			has: [][]string{{"kubeconfig", "kube-config"}}, lacks: []string{"context", "remote", "dir"},
			value:  func(Flag) string { return "$(KUBECONFIG)" },
			absent: "No flag for a kubeconfig: the program must read the environment variable KUBECONFIG.",
		}, {
			has: [][]string{{"metric"}, where}, about: "metrics", lacks: []string{"secure", "cert", "path", "auth", "tls", "pprof", "profil", "webhook", "health", "probe"},
			value:  func(f Flag) string { return listenAt(f, "$(METRICS_PORT)") },
			absent: "No flag for the address of metrics: set `metrics` to the URL where the program serves them, or leave it out.",
		}, {
			has: [][]string{{"health", "probe", "readiness"}, where}, lacks: []string{"path", "interval", "timeout", "tls"},
			value:  func(f Flag) string { return listenAt(f, "$(PROBE_PORT)") },
			absent: "No flag for the address of probes: the program counts as ready when its metrics can be read.",
		}, {
			has: [][]string{{"webhook"}, {"port"}}, lacks: []string{"service", "cert"},
			value: func(Flag) string { return "$(WEBHOOK_PORT)" },
		}, {
			has:   [][]string{{"webhook"}, {"cert"}, {"dir"}},
			value: func(Flag) string { return "$(FILES)" },
		}, {
			has: [][]string{{"insecure"}, {"metric", "diagnostic"}}, lacks: []string{"port", "addr"},
			value: func(Flag) string { return "true" },
		}, {
			has: [][]string{{"metric"}, {"secure"}}, lacks: []string{"insecure", "port", "addr"},
			value: func(Flag) string { return "false" },
		}, {
			has: [][]string{{"leader"}, {"elect"}}, lacks: []string{"lease", "lock", "renew", "retry", "resource", "namespace", "id", "duration", "release", "deadline", "period", "timeout"},
			value:  unlessDisabled,
			absent: "No flag for leader election: if the program elects a leader, it needs the namespace of its lease, and starts later.",
		},
	}
}

// unlessDisabled turns off what a flag is for, which may be to turn it off.
func unlessDisabled(f Flag) string {
	if strings.Contains(f.Name, "disable") {
		return "true"
	}
	return "false"
}

// listenAt returns the address or the port that a flag takes.
func listenAt(f Flag, port string) string {
	isPort := strings.HasSuffix(strings.ToLower(f.Name), "port") && !strings.Contains(f.Default, ":")
	if isPort || f.Default != "" && strings.Trim(f.Default, "0123456789") == "" {
		return port
	}
	return "127.0.0.1:" + port
}

// find returns the first flag that is for a role, by its name, or else by what the help says.
func (r role) find(flags []Flag) (Flag, bool) {
	for _, has := range [][][]string{r.has, r.has[1:]} {
		i := slices.IndexFunc(flags, func(f Flag) bool {
			name := strings.ToLower(f.Name)
			contains := func(word string) bool { return strings.Contains(name, word) }
			told := len(has) == len(r.has) || r.about != "" && strings.Contains(strings.ToLower(f.Text), r.about)
			return told && !slices.ContainsFunc(r.lacks, contains) &&
				!slices.ContainsFunc(has, func(words []string) bool { return !slices.ContainsFunc(words, contains) })
		})
		if i >= 0 {
			return flags[i], true
		}
	}
	return Flag{}, false
}

// arguments returns the command line of a program in a scenario, and what no flag was found for.
func arguments(flags []Flag) (args, absent []string) {
	for _, r := range roles() {
		if f, ok := r.find(flags); ok {
			args = append(args, "--"+f.Name+"="+r.value(f))
		} else if r.absent != "" {
			absent = append(absent, r.absent)
		}
	}
	return args, absent
}
