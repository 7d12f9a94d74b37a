package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
)

// outputForms are the values of --output.
func outputForms() []string { return []string{"text", "markdown", "json"} }

// printAs prints a result in one of outputForms.
func printAs(env *environment, form string, result interface {
	JSON(w io.Writer) error
	Write(w io.Writer, markdown bool) error
},
) error {
	if form == "json" {
		return result.JSON(env.data())
	}
	return result.Write(env.stdout, form == "markdown")
}

// addOutput adds the flag that says in which form a result is printed; the first
// form is the default.
func addOutput(verb *cobra.Command, output *string, forms ...string) {
	verb.Flags().StringVar(output, "output", forms[0], "output `FORMAT`: "+strings.Join(forms, ", "))
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return forms, cobra.ShellCompDirectiveNoFileComp
	}
	if err := verb.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag is there
	}
}

// wantOneOf checks a flag that takes one of some words.
func wantOneOf(flag, value string, words ...string) error {
	if !slices.Contains(words, value) {
		return fmt.Errorf("%s %s: want %s or %s", flag, value, strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
	}
	return nil
}

// checkReplaced refuses to write over a file that begins unlike what is written: it is no earlier
// output but something of the user's, such as the scenario. Empty files and what is no ordinary
// file may be written to.
func checkReplaced(path string, content []byte) error {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written through it
	begin := make([]byte, min(8, len(content)))
	if n, _ := io.ReadFull(f, begin); !bytes.Equal(begin[:n], content[:len(begin)]) {
		return fmt.Errorf("%s: it exists, and is another kind of file than the one to write: give another name, or remove it", path)
	}
	return nil
}

// writeFile writes a file that the user named, in one step: a disk that is full leaves
// the one of before. What is no ordinary file, such as /dev/stdout, is written to.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := checkReplaced(path, content); err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, content, mode)
	}
	return record.Dir(filepath.Dir(path)).WriteMode(filepath.Base(path), content, mode)
}

// printResult prints what a run directory's judgement says in the form asked for.
func printResult(env *environment, dir record.Dir, output string) error {
	switch output {
	case "github":
		return printAnnotations(env.stdout, dir)
	case "json":
		raw, err := dir.Read(record.VerdictFile)
		if err != nil {
			return fmt.Errorf("read verdict: %w", err)
		}
		_, err = env.data().Write(raw)
		return err
	case "markdown":
		return writeMarkdown(string(dir), env.stdout)
	}
	summary, err := dir.Read(record.SummaryFile)
	if err != nil {
		return fmt.Errorf("read summary: %w", err)
	}
	_, err = fmt.Fprint(env.stdout, env.colorVerdicts(string(summary)))
	return err
}

// colour is a code of ECMA-48 for the colour of letters.
type colour string

const (
	green  colour = "32"
	red    colour = "31"
	yellow colour = "33"
)

// data returns stdout for what a program reads, which gets every byte. What stands there for
// people is text, also where it is read later or through a pipe; so is all on a terminal.
func (env *environment) data() io.Writer {
	if screen, ok := env.stdout.(*text.Screen); ok && !isTerminal(screen) {
		return screen.Unwrap()
	}
	return env.stdout
}

func isTerminal(stream any) bool {
	if screen, ok := stream.(*text.Screen); ok {
		stream = screen.Unwrap()
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// newPainter returns what gives a text a colour: nothing where stdout is no terminal
// or NO_COLOR is set (https://no-color.org). No colour says what its text does
// not say.
func (env *environment) newPainter() func(colour, string) string {
	if !isTerminal(env.stdout) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return func(_ colour, text string) string { return text }
	}
	return func(c colour, text string) string { return "\x1b[" + string(c) + "m" + text + "\x1b[0m" }
}

// colorVerdicts paints the verdict at the end of a summary's first line and the
// verdicts at the begin of its lines.
func (env *environment) colorVerdicts(summary string) string {
	paint := env.newPainter()
	words := map[string]colour{"pass": green, "FAIL": red, "UNKNOWN": yellow}
	lines := strings.SplitAfter(summary, "\n")
	for i, l := range lines {
		text := strings.TrimRight(l, "\n")
		end := l[len(text):]
		if i == 0 {
			for _, v := range []slo.Verdict{slo.Pass, slo.Fail, slo.Unknown} {
				if word := strings.ToUpper(string(v)); strings.HasSuffix(text, " "+word) {
					c := map[slo.Verdict]colour{slo.Pass: green, slo.Fail: red, slo.Unknown: yellow}[v]
					lines[i] = strings.TrimSuffix(text, word) + paint(c, word) + end
				}
			}
			continue
		}
		if word, rest, ok := strings.Cut(text, " "); ok && words[word] != "" {
			lines[i] = paint(words[word], word) + " " + rest + end
		}
	}
	return strings.Join(lines, "")
}
