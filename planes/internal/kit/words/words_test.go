package words_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

type options struct {
	Owner  string
	Name   string
	Window int
	Wait   time.Duration
	Twice  bool
}

func (o *options) words() words.Set {
	return words.Set{
		words.Of(&o.Owner, "owner", "whose events it handles", words.Default("all", "everybody's"), words.Improved("own", "its own"), words.Or("none", "nobody's")),
		words.Of(&o.Name, "name", "its `NAME`", words.Default("hub", "")),
		words.Of(&o.Window, "window", "messages at a time", words.Default(1, ""), words.Improved(16, "")).AtLeast(1),
		words.Of(&o.Wait, "wait", "before it goes on", words.Default(10*time.Second, ""), words.Improved(time.Duration(0), "at once")).AtLeast(0),
		words.Of(&o.Twice, "twice", "say it twice", words.Default(true, "")).AtLeast(0),
	}
}

func TestDefaultsAndPresets(t *testing.T) {
	var o options
	o.words().Reset()
	if want := (options{"all", "hub", 1, 10 * time.Second, true}); o != want {
		t.Errorf("defaults %+v", o)
	}
	o.words().Apply(words.ImprovedPreset, func(flag string) bool { return flag == "window" })
	if want := (options{"own", "hub", 1, 0, true}); o != want {
		t.Errorf("improved %+v", o)
	}
	o.words().Apply("unheard of", func(string) bool { return false })
	if want := (options{"own", "hub", 1, 0, true}); o != want {
		t.Errorf("a preset of no option changed %+v", o)
	}
}

func TestFlagsAndChecks(t *testing.T) {
	for args, want := range map[string]string{
		"":                          "",
		"--owner none":              "",
		"--owner us":                `owner "us": want one of all, own, none`,
		"--window 0":                "window 0: want at least 1",
		"--wait -1s --window -2":    "window -2: want at least 1\nwait -1s: want at least 0",
		"--name anything --twice=0": "",
	} {
		var o options
		o.words().Reset()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.words().AddFlags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := o.words().Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

func TestHelpAndTable(t *testing.T) {
	var o options
	o.words().Reset()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.words().AddFlags(fs)
	if help := fs.FlagUsages(); !strings.Contains(help, "--owner string    whose events it handles: all, own, none (default \"all\")") || !strings.Contains(help, "--name NAME") {
		t.Error(help)
	}
	const want = "| option | theirs | improved |\n|---|---|---|\n" +
		"| `owner` | all: everybody's | own: its own |\n| `window` | 1 | 16 |\n| `wait` | 10s | 0s: at once |\n"
	if got := o.words().Table(words.ImprovedPreset, "theirs"); got != want {
		t.Error(got)
	}
}

func TestBounds(t *testing.T) {
	n := 3.0
	for _, c := range []struct {
		option words.Option
		want   string
	}{
		{words.Of(&n, "n", "").Above(3), "n 3: want more than 3"},
		{words.Of(&n, "n", "").AtMost(2), "n 3: want at most 2"},
		{words.Of(&n, "n", "").AtLeast(3).AtMost(3), ""},
	} {
		got := ""
		if err := (words.Set{c.option}).Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
