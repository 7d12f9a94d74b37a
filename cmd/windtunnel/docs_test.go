package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// pages returns the Markdown files that people read.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, glob := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*/README.md", "../../experiments/*.md", "../../experiments/*/README.md"} {
		some := repotest.Must(filepath.Glob(glob))(t)
		out = append(out, some...)
	}
	if len(out) < 10 {
		t.Fatalf("only %d pages", len(out))
	}
	return out
}

// A link in Markdown; those to other sites are not followed.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		raw := repotest.Must(os.ReadFile(page))(t)
		for _, m := range link.FindAllStringSubmatch(string(raw), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "/") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			there, err := os.ReadFile(path)
			if info, statErr := os.Stat(path); statErr != nil || err != nil && !info.IsDir() {
				t.Errorf("%s: %s is not there", page, m[1])
				continue
			}
			if anchor != "" && strings.HasSuffix(path, ".md") && !slices.Contains(anchors(string(there)), anchor) {
				t.Errorf("%s: %s has no heading %q", page, target, anchor)
			}
		}
	}
}

// anchors returns those of a page's headings, as GitHub and the site make them.
func anchors(text string) (out []string) {
	for line := range strings.Lines(text) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		keep := func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
				return r
			}
			return -1
		}
		out = append(out, strings.Map(keep, strings.ToLower(strings.TrimSpace(title))))
	}
	return out
}

// A line of a code block that calls windtunnel.
var called = regexp.MustCompile(`^\s*(?:\$ )?(?:bin/)?windtunnel ([^#>]*)`)

// TestCommandLinesAreValid looks at every command in a code block that
// TestDocsRun does not run, because it takes long or wants a cluster or files of
// others: the verb is there, it has the flags, and takes so many arguments.
func TestCommandLinesAreValid(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		raw := repotest.Must(os.ReadFile(page))(t)
		inside, console, number := false, false, 0
		for line := range strings.Lines(string(raw)) {
			if number++; strings.HasPrefix(line, "```") {
				inside, console = !inside, strings.HasPrefix(line, "```console")
			}
			for _, command := range shown(line, inside, console) {
				n++
				if err := valid(wordsOf(command)); err != nil {
					t.Errorf("%s:%d: windtunnel %s: %v", page, number, command, err)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands were found", n)
	}
}

// cell is a command in a table's cell: the tables of the published reports have a column
// of them.
var cell = regexp.MustCompile("`windtunnel ((?:run|ab) examples/[^`…]*)`")

// shown returns the commands of windtunnel in a line, without its name: of a code block,
// or in the cells of a table.
func shown(line string, inside, console bool) (commands []string) {
	if !inside {
		if strings.HasPrefix(line, "|") {
			for _, m := range cell.FindAllStringSubmatch(line, -1) {
				commands = append(commands, m[1])
			}
		}
		return commands
	}
	if m := called.FindStringSubmatch(line); m != nil && (!console || strings.HasPrefix(line, "$")) {
		commands = append(commands, m[1])
	}
	return commands
}

// word is one of a command line; in double quotes it may contain spaces.
var word = regexp.MustCompile(`(?:"[^"]*"|[^\s"])+`)

func wordsOf(command string) []string {
	out := word.FindAllString(command, -1)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], `"`, "")
	}
	return out
}

// valid checks a command line without doing what it says.
func valid(args []string) error {
	verb, rest, err := rootVerb(&environment{stdout: io.Discard, stderr: io.Discard}).Find(args)
	if err != nil {
		return err
	}
	if err := verb.ParseFlags(rest); err != nil {
		return err
	}
	if !verb.Runnable() {
		return errors.New("it needs another word")
	}
	return verb.ValidateArgs(verb.Flags().Args())
}

// TestDocumentedRunsCanBegin plans every run of an example that a page shows, with its
// flags: --plan refuses what the run would refuse before it starts anything.
func TestDocumentedRunsCanBegin(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "kubeconfig")
	const config = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"u","user":{"token":"t"}}]}`
	repotest.NoError(t, os.WriteFile(cluster, []byte(config), 0o600))
	n := 0
	for _, page := range pages(t) {
		raw := repotest.Must(os.ReadFile(page))(t)
		number := 0
		for line := range strings.Lines(string(raw)) {
			number++
			args := runOf(line)
			if args == nil {
				continue
			}
			args[1] = filepath.Join("../..", args[1])
			for i := range args[:len(args)-1] {
				if args[i] == "--kubeconfig" || args[i] == "--worker-kubeconfig" {
					args[i+1] = cluster
				}
			}
			n++
			var out, fault strings.Builder
			if code := executeVerb(t.Context(), &environment{stdout: &out, stderr: &fault}, append(args, "--plan")); code != 0 && !lacksProgram(fault.String()) {
				t.Errorf("%s:%d: %s: exit code %d: %s", page, number, strings.TrimSpace(line), code, &fault)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d runs were found", n)
	}
}

// runOf returns the arguments of a line, or of a table's first cell, that runs an example
// as it stands there.
func runOf(line string) []string {
	m := called.FindStringSubmatch(line)
	if strings.HasPrefix(line, "|") {
		m = cell.FindStringSubmatch(line)
	}
	if m == nil || strings.ContainsAny(m[1], "[…") {
		return nil
	}
	args := strings.Fields(m[1])
	if len(args) < 2 || args[0] != "run" || !strings.HasPrefix(args[1], "examples/") {
		return nil
	}
	return args
}

// lacksProgram reports whether a plan was refused because the reader has to build, or to
// bring, a program first: of an operator, or of another release.
func lacksProgram(fault string) bool {
	return strings.Contains(fault, "no such program") || strings.Contains(fault, "it is not in the cache: run `windtunnel subject build ") || strings.Contains(fault, "binaries: etcd is missing") || strings.Contains(fault, " is neither beside windtunnel nor in its cache: run `windtunnel plane build ")
}

func TestValid(t *testing.T) {
	for line, ok := range map[string]bool{
		"run a.yaml --set a=b": true, "run": false, "run a.yaml --sett a=b": false, "fly a.yaml": false, "export parquet r -o d": true, "export r": false,
	} {
		if err := valid(strings.Fields(line)); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// command is a line of a console block, and what the page says that it prints.
type command struct {
	line  int
	text  string
	shows []string
}

// commands returns what stands behind $ in the console blocks of a page.
func commands(text string) (out []command) {
	inside := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside && line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			out = append(out, command{line: number, text: line[2:]})
		case len(out) > 0:
			out[len(out)-1].shows = append(out[len(out)-1].shows, line)
		}
	}
	return out
}

func TestCommands(t *testing.T) {
	got := commands("a\n```\n$ no\n```\n```console\n$ windtunnel x\none\n$ y\n```\n$ no\n")
	if len(got) != 2 || got[0].text != "windtunnel x" || got[0].line != 6 || len(got[0].shows) != 1 || got[1].text != "y" {
		t.Errorf("%+v", got)
	}
}

// TestDocsRun runs every command of the console blocks in docs/, page by page,
// and looks for what the page says that it prints: numbers may differ, … stands
// for anything. Verbs that stay are started, must say something, and are
// interrupted at the page's end.
func TestDocsRun(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	all := repotest.Must(filepath.Glob("../../docs/*/*.md"))(t)
	ran := 0
	for _, page := range all {
		raw := repotest.Must(os.ReadFile(page))(t)
		if list := commands(string(raw)); len(list) > 0 {
			ran += len(list)
			t.Run(filepath.Base(page), func(t *testing.T) { u.follow(t, filepath.Base(page), list) })
		}
	}
	if ran < 5 {
		t.Errorf("only %d commands were found", ran)
	}
}

// follow does what a page says, in a folder with the examples.
func (u *tunnel) follow(t *testing.T, page string, list []command) {
	dir := t.TempDir()
	repotest.NoError(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")))
	for _, c := range list {
		args := strings.Fields(c.text)
		if args[0] != "windtunnel" {
			t.Errorf("%s:%d: only windtunnel is run: %s", page, c.line, c.text)
			continue
		}
		cmd := exec.Command(u.bin, args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "NO_COLOR=1")
		var out output
		cmd.Stdout, cmd.Stderr = &out, &out
		repotest.NoError(t, cmd.Start())
		if slices.Contains([]string{"up", "serve", "fleet"}, args[1]) {
			defer interrupt(t, cmd, &out)
			repotest.Eventually(t, c.text+" says something", func() bool { return strings.Contains(out.String(), "\n") })
		} else if code := exitOf(cmd.Wait()); code > 2 || code < 0 {
			t.Fatalf("%s:%d: %s: exit code %d\n%s", page, c.line, c.text, code, &out)
		}
		if missing := absent(c.shows, out.String()); missing != "" {
			t.Errorf("%s:%d: %s does not print %q, but\n%s", page, c.line, c.text, missing, &out)
		}
	}
}

func interrupt(t *testing.T, cmd *exec.Cmd, out *output) {
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}

// absent returns the first of the lines that the output has not, in their order.
func absent(shows []string, output string) string {
	rest := alike(output)
	for _, line := range shows {
		for part := range strings.SplitSeq(line, "…") {
			part = alike(part)
			at := strings.Index(rest, part)
			if at < 0 {
				return line
			}
			rest = rest[at+len(part):]
		}
	}
	return ""
}

var (
	spaces = regexp.MustCompile(`\s+`)
	digits = regexp.MustCompile(`[0-9][0-9.,]*`)
)

// alike makes texts alike that differ in numbers and in how they are laid out.
func alike(s string) string {
	return digits.ReplaceAllString(strings.TrimSpace(spaces.ReplaceAllString(s, " ")), "0")
}

// TestExamplesAreSound plans every example: it is decoded, checked and compiled,
// and what it would send is counted.
func TestExamplesAreSound(t *testing.T) {
	n := 0
	err := filepath.WalkDir("../../examples", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil || !regexp.MustCompile(`(?m)^scenario: `).Match(raw) {
			return err
		}
		n++
		var out, fault strings.Builder
		args := []string{"run", path, "--plan"}
		if filepath.Base(path) == "worker.yaml" {
			args = append(args, "--workers", "1", "--worker-processes") // one answers at the end of its path
		}
		code := executeVerb(t.Context(), &environment{stdout: &out, stderr: &fault}, args)
		if lacksProgram(fault.String()) {
			return nil
		}
		if code != 0 || !strings.Contains(out.String(), "STEP") {
			t.Errorf("%s: exit code %d\n%s%s", path, code, &out, &fault)
		}
		return nil
	})
	if err != nil || n < 5 {
		t.Errorf("%d examples: %v", n, err)
	}
}

// TestSiteIsBuilt builds the documentation's site, which ends at a dead link.
func TestSiteIsBuilt(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("no npm found: in CI the site must be built")
	}
	if err != nil {
		t.Skip("no npm found: the site is not built")
	}
	if testing.Short() {
		t.Skip("npm ci and the site take some seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		raw := repotest.Must(os.ReadFile(filepath.Join("../../docs", name)))(t)
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	for _, name := range []string{".vitepress/config.mts", "images"} {
		from, to := filepath.Join("../../docs", name), filepath.Join(dir, name)
		repotest.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		if out, err := exec.Command("cp", "-r", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var all []string // relative to docs
	for _, glob := range []string{"*.md", "*/*.md"} {
		some, _ := fs.Glob(os.DirFS("../../docs"), glob)
		all = append(all, some...)
	}
	for _, page := range all {
		raw := repotest.Must(os.ReadFile(filepath.Join("../../docs", page)))(t)
		repotest.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(page)), 0o700))
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, page), raw, 0o600))
	}
	for _, args := range [][]string{{"ci", "--no-audit", "--no-fund"}, {"run", "build"}} {
		cmd := exec.Command(npm, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm %v: %v\n%s", args, err, out)
		}
	}
	for _, page := range all {
		html := filepath.Join(dir, ".vitepress/dist", strings.TrimSuffix(strings.Replace(page, "README.md", "index.md", 1), ".md")+".html")
		if _, err := os.Stat(html); err != nil {
			t.Error(err)
		}
	}
}
