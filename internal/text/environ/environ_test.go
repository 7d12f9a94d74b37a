package environ_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text/environ"
)

func TestSecretsAreWithheld(t *testing.T) {
	e := environ.New([]string{"QPS=5", "AWS_REGION=x", "GH_TOKEN=t", "DB_PASSWORD=p", "API_SECRET=s", "TOKEN=u", "MONKEY=m", "CL2_A=1", "CL2_B=2"}, []string{"API_SECRET"})
	for name, want := range map[string]string{"QPS": "5", "AWS_REGION": "", "GH_TOKEN": "", "DB_PASSWORD": "", "API_SECRET": "s", "TOKEN": "", "MONKEY": "m", "NONE": ""} {
		if got, ok := e.Lookup(name); got != want || ok != (want != "") {
			t.Errorf("%s is %q, %v", name, got, ok)
		}
	}
	want := "[read of the environment: API_SECRET, MONKEY, QPS " +
		"kept from the file, as they look like secrets: AWS_REGION, DB_PASSWORD, GH_TOKEN, TOKEN (--env AWS_REGION lets it have that one)]"
	if got := fmt.Sprint(e.Notes()); got != want {
		t.Errorf("notes are %s", got)
	}
	if got := fmt.Sprint(e.Names("CL2_")); got != "[CL2_A CL2_B]" {
		t.Errorf("names are %s", got)
	}
}

func TestCheckAllowed(t *testing.T) {
	for allowed, want := range map[string]string{
		"": "<nil>", "API_TOKEN": "<nil>",
		"API_TOKENS": `--env API_TOKENS: the environment has no such variable (did you mean "API_TOKEN"?)`,
		"B_TOKEN":    "--env B_TOKEN: c.yml does not read it",
	} {
		e := environ.New([]string{"API_TOKEN=a", "B_TOKEN=b"}, strings.Fields(allowed))
		e.Lookup("API_TOKEN")
		if got := fmt.Sprint(e.CheckAllowed("c.yml")); got != want {
			t.Errorf("--env %s: %s, want %s", allowed, got, want)
		}
	}
	var none *environ.Environ
	if err := none.CheckAllowed("c.yml"); err != nil {
		t.Error(err)
	}
}
