package words_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/repotest"
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
	set := o.words()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.AddFlags(fs)
	repotest.NoError(t, fs.Parse([]string{"--window=2"}))
	set.Apply(words.ImprovedPreset)
	if want := (options{"own", "hub", 2, 0, true}); o != want {
		t.Errorf("improved, but for the window: %+v", o)
	}
	set.Apply("unheard of")
	if want := (options{"own", "hub", 2, 0, true}); o != want {
		t.Errorf("a preset of no option changed %+v", o)
	}
	repotest.Equal(t, set.Presets(), []string{words.ImprovedPreset}, "presets")
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
		repotest.NoError(t, fs.Parse(strings.Fields(args)))
		got := ""
		if err := o.words().Check(); err != nil {
			got = err.Error()
		}
		repotest.Equal(t, got, want, "%q", args)
	}
}

func TestHelpAndTable(t *testing.T) {
	var o options
	o.words().Reset()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.words().AddFlags(fs)
	const help = `      --name NAME       its NAME (default hub)
      --owner WORD      whose events it handles: all, own, none (default all)
      --twice           say it twice (default true)
      --wait DURATION   before it goes on (default 10s)
      --window NUMBER   messages at a time (default 1)
`
	if got := fs.FlagUsages(); got != help {
		t.Errorf("got\n%swant\n%s", got, help)
	}
	const want = "| option | theirs | improved |\n|---|---|---|\n" +
		"| `owner` | all: everybody's | own: its own |\n| `window` | 1 | 16 |\n| `wait` | 10s | 0s: at once |\n"
	if got := o.words().Table("theirs", words.ImprovedPreset); got != want {
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

// sum adds up what it is given, as an option that takes several texts.
type sum struct{ total *int }

func (s sum) String() string { return fmt.Sprint(*s.total) }

func (s sum) Set(text string) error {
	n, err := strconv.Atoi(text)
	*s.total += n
	return err
}

func (s sum) Type() string { return "SUM" }

// TestGivenBesidePreset holds that what the user gives comes after what the preset gives.
func TestGivenBesidePreset(t *testing.T) {
	total, list := 0, []string(nil)
	set := words.Set{words.Custom(sum{&total}, "sum", "a sum", words.In("large", "100", "")), words.Texts(&list, "list", "a list")}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.AddFlags(fs)
	repotest.NoError(t, fs.Parse([]string{"--sum=1", "--sum=2", "--list=a,b"}))
	if set.Apply("large"); total != 1+2+100+1+2 || !slices.Equal(list, []string{"a", "b"}) {
		t.Errorf("the sum is %d, the list %v", total, list)
	}
	if help := fs.FlagUsages(); strings.Contains(help, "[]") || !strings.Contains(help, "--sum SUM") {
		t.Error(help)
	}
}
