package scenario

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// subjectChecker checks the programs that run on the plane.
type subjectChecker struct{ *checker }

func (c subjectChecker) checkSubjects() {
	seen, external := map[string]bool{}, false
	for i := range c.s.Subjects {
		x, path := &c.s.Subjects[i], fmt.Sprintf("subjects[%d]", i)
		c.checkLabel(path+".name", "subject.name", x.Name)
		switch {
		case isTaken(x.Name) || x.Name == "plane" && c.s.Plane.Limits != (Limits{}):
			c.reportAt(path+".name", "subject.name: %q is the name of something else in every run", x.Name)
		case seen[x.Name]:
			c.reportAt(path+".name", "subject: name %q stands twice", clipText(x.Name))
		}
		seen[x.Name] = true
		if x.External && external {
			c.reportAt(path+".external", "subject.external: there is one already: who started windtunnel is one program")
		}
		external = external || x.External
		c.checkSubject(path, x)
	}
}

func (c subjectChecker) checkSubject(path string, x *Subject) {
	if len(setFields(x, "command", "build", "windtunnel", "external")) != 1 {
		c.reportAt(path, "subject: exactly one of command, build, windtunnel and external is needed")
	}
	c.checkFields(path, x)
	if x.Count != 0 {
		c.reportAt(path+".count", "subject.count: it is for files, which are read as so many subjects")
	}
	if x.Sharable && len(x.Windtunnel) == 0 {
		c.reportAt(path+".sharable", "subject.sharable: belongs to windtunnel: a worker has no other program")
	}
	if x.Sharable && slices.ContainsFunc(x.Windtunnel, func(arg string) bool { return strings.Contains(arg, "$("+VarMembers+")") }) {
		c.reportAt(path+".sharable", "subject.sharable: $(%s) is a folder of the process that leads the run: workers do not have it", VarMembers)
	}
	c.checkLimits(path+".limits", x.Limits)
	c.checkNotNegative(path+".needs.openFiles", "needs.openFiles", x.Needs.OpenFiles)
	c.checkNotNegative(path+".needs.connections", "needs.connections", x.Needs.Connections)
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		switch {
		case !envName.MatchString(name):
			c.reportAt(path+".env."+name, "subject.env: %q is not the name of a variable", clipText(name))
		case slices.Contains(subjectVariables(), name):
			c.reportAt(path+".env."+name, "subject.env: every subject is given %s", name)
		}
		c.checkUses(path+".env."+name, "subject.env", x.Env[name], nil)
	}
	for i, arg := range x.Args {
		c.checkUses(fmt.Sprintf("%s.args[%d]", path, i), "subject.args", arg, x.Env)
	}
	for i, arg := range x.Windtunnel {
		c.checkUses(fmt.Sprintf("%s.windtunnel[%d]", path, i), "subject.windtunnel", arg, x.Env)
	}
	for _, name := range slices.Sorted(maps.Keys(x.Files)) {
		if strings.ContainsAny(name, "/\\\x00") || name == "" || name[0] == '.' {
			c.reportAt(path+".files."+name, "subject.files: %q is not the name of a file, such as config.yaml", clipText(name))
		}
		c.checkUses(path+".files."+name, "subject.files", x.Files[name], x.Env)
	}
	if x.Build != nil {
		c.checkBuild(path+".build", x.Build)
	}
	c.checkFiles(path+".crds", "subject.crds", x.CRDs)
	c.checkFiles(path+".manifests", "subject.manifests", x.Manifests)
	c.checkFiles(path+".webhooks", "subject.webhooks", x.Webhooks)
	if (len(x.Webhooks) > 0 || x.Build != nil && len(x.Build.Webhooks) > 0) && (x.External || x.Sharable) {
		c.reportAt(path+".webhooks", "subject.webhooks: belongs to a program that windtunnel starts on the machine of the plane")
	}
	if x.Metrics != nil {
		c.checkMetrics(path+".metrics", x.Metrics, x.Env)
	}
	c.checkReady(path+".ready", x)
}

// subjectFields refuses what only a command has.
func (c subjectChecker) checkFields(path string, x *Subject) {
	for _, f := range []struct {
		name        string
		set, forOur bool
	}{
		{"args", len(x.Args) > 0, false}, {"version", len(x.Version) > 0, false}, {"files", len(x.Files) > 0, true},
		{"env", len(x.Env) > 0, true}, {"limits", x.Limits != (Limits{}), true},
		{"ready", x.Ready.HTTP != "" || x.Ready.TCP != "", true},
	} {
		if f.set && (x.External || len(x.Windtunnel) > 0 && !f.forOur) {
			c.reportAt(path+"."+f.name, "subject.%s: belongs to command", f.name)
		}
	}
}

// checkUses checks the variables in a text.
func (c subjectChecker) checkUses(path, name, text string, env map[string]string) {
	known := maps.Clone(env)
	if known == nil {
		known = map[string]string{}
	}
	for _, v := range subjectVariables() {
		known[v] = ""
	}
	if _, err := ExpandVariables(text, known); err != nil {
		c.reportAt(path, "%s: %v (there are %s)", name, err, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
}

func (c *fieldChecker) checkFiles(path, name string, files []string) {
	for i, file := range files {
		if err := checkInside(file); err != nil {
			c.reportAt(fmt.Sprintf("%s[%d]", path, i), "%s: %v", name, err)
		}
	}
}

func (c subjectChecker) checkMetrics(path string, m *Metrics, env map[string]string) {
	if m.Scheme != "" {
		c.checkWord(path+".scheme", "metrics.scheme", m.Scheme)
	}
	switch {
	case m.URL != "" && (m.Port != 0 || m.Scheme != ""):
		c.reportAt(path, "metrics: url says port and scheme already")
	case m.URL != "":
		c.checkURL(path+".url", "metrics.url", m.URL, env)
	case m.Port < 0 || m.Port > 65535:
		c.reportAt(path+".port", "metrics.port: %d is not a port", m.Port)
	}
}

// checkURL checks a URL; its variables are taken for ports.
func (c subjectChecker) checkURL(path, name, text string, env map[string]string) {
	c.checkUses(path, name, text, env)
	u, err := url.Parse(variableUse.ReplaceAllString(text, "1"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		c.reportAt(path, "%s: %q is not a URL such as http://127.0.0.1:8080/metrics", name, clipText(text))
	}
}

func (c subjectChecker) checkReady(path string, x *Subject) {
	r := x.Ready
	if r.HTTP != "" && !strings.HasPrefix(r.HTTP, "/") {
		c.checkURL(path+".http", "ready.http", r.HTTP, x.Env)
	}
	if r.TCP != "" {
		c.checkUses(path+".tcp", "ready.tcp", r.TCP, x.Env)
		if _, port, err := net.SplitHostPort(variableUse.ReplaceAllString(r.TCP, "1")); err != nil || port == "" {
			c.reportAt(path+".tcp", "ready.tcp: %q is not an address such as 127.0.0.1:8080", clipText(r.TCP))
		}
	}
	if r.Wait != nil {
		if r.Wait.Objects == "" || r.Wait.Of != "" {
			c.reportAt(path+".wait", "ready.wait: objects are needed, and no step that made them")
			return
		}
		waitChecker(c).checkWait(path+".wait", r.Wait, createdSteps{})
	}
	c.checkPositiveTime(path+".within", "ready.within", r.Within)
}
