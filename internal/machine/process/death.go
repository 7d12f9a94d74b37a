package process

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// DeathError says that a process ended that nobody had asked to.
type DeathError struct {
	Name    string
	State   string // "exit status 1", "signal: killed"
	LogFile string
	Lines   []string // last lines of the log

	// The kernel killed it at a memory limit of its own, at one that it shares, or, where
	// both are set, at one of the two.
	OwnLimit, SharedLimit bool
}

// Error names the process, how it ended and its last log lines.
func (e *DeathError) Error() string {
	if len(e.Lines) == 0 {
		return fmt.Sprintf("%s died (%s) and left nothing in %s", e.Name, e.State, e.LogFile)
	}
	return fmt.Sprintf("%s died (%s); the last of %s:\n  %s", e.Name, e.State, e.LogFile, strings.Join(e.Lines, "\n  "))
}

const (
	tailBytes = 256 << 10 // of a log are searched for the reason of a death
	lastLines = 8
	lineBytes = 1000 // of a line are kept
)

func lastWordsOf(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, tailBytes))
	if err != nil {
		return nil
	}
	return lastWords(string(text))
}

// The line at which a dying program says why. What follows a usage error is
// pages of help, what follows a panic is the stacks of a thousand goroutines:
// in both cases the end of the log says nothing.
func lastWordPatterns() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`^Error: `),                                       // command line, cobra
		regexp.MustCompile(`^(panic|fatal error): `),                         // Go runtime
		regexp.MustCompile(`^F\d{4} `),                                       // klog, fatal
		regexp.MustCompile(`"level":"(fatal|panic)"`),                        // etcd
		regexp.MustCompile(`^(flag provided but not defined|invalid value)`), // etcd, command line
		regexp.MustCompile(`failed to verify flags`),                         // etcd, command line
		regexp.MustCompile(`^E\d{4} .*"command failed"`),                     // Kubernetes components
		regexp.MustCompile(`bash: |sh: .*(not found|No such file)`),          // a subject's shell
	}
}

// lastWords chooses the lines of a log's tail that say why its writer died,
// or its last lines.
func lastWords(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	from := max(0, len(lines)-lastLines)
	to := len(lines)
	if at := tellingLine(lines); at >= 0 && at < from {
		from, to = at, at+1
		if strings.HasPrefix(lines[at], "panic: ") || strings.HasPrefix(lines[at], "fatal error: ") {
			to = min(at+lastLines, len(lines))
		}
	}
	out := make([]string, 0, to-from)
	for _, l := range lines[from:to] {
		if len(l) > lineBytes {
			l = strings.ToValidUTF8(l[:lineBytes], "") + " ..."
		}
		out = append(out, l)
	}
	return out
}

// tellingLine returns the index of the last line that says why, or -1.
func tellingLine(lines []string) int {
	patterns := lastWordPatterns()
	for i := len(lines) - 1; i >= 0; i-- {
		for _, p := range patterns {
			if p.MatchString(lines[i]) {
				return i
			}
		}
	}
	return -1
}
