package repotest

import (
	"os"
	"strings"
	"testing"
)

// Step is one block of a trace: a command, what it is given, and what came of it.
type Step struct {
	Line  string            // the command as it stands there
	Name  string            // the command's first word
	Args  map[string]string // its key=value words
	Words []string          // its other words, in their order
	Input string            // the lines between the command and ----
	Want  string            // what the file says that it does
}

// Trace plays a file of commands and holds that each does what the file says,
// as cockroachdb/datadriven does. A block is a command, its input, a line ----,
// and the output up to an empty line; # begins a comment outside of blocks.
// Under -update what the commands do is written into the file.
func Trace(t *testing.T, path string, do func(t *testing.T, s Step) string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i] + "\n")
		if lines[i] == "" || strings.HasPrefix(lines[i], "#") {
			continue
		}
		step := parseCommand(lines[i])
		for i++; i < len(lines) && lines[i] != "----"; i++ {
			out.WriteString(lines[i] + "\n")
			step.Input += lines[i] + "\n"
		}
		if i == len(lines) {
			t.Fatalf("%s: %s has no ----", path, step.Name)
		}
		for i++; i < len(lines) && lines[i] != ""; i++ { // what it did when the file was written
			step.Want += lines[i] + "\n"
		}
		out.WriteString("----\n")
		if said := strings.TrimSpace(do(t, step)); said != "" {
			out.WriteString(said + "\n")
		}
		if i < len(lines) {
			out.WriteString("\n")
		}
	}
	Golden(t, path, out.String())
}

func parseCommand(line string) Step {
	words := strings.Fields(line)
	s := Step{Line: line, Name: words[0], Args: map[string]string{}}
	for _, word := range words[1:] {
		if key, value, ok := strings.Cut(word, "="); ok && word[0] != '/' { // a path may have a query
			s.Args[key] = value
		} else {
			s.Words = append(s.Words, word)
		}
	}
	return s
}
