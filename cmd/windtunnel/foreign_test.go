package main

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/repotest/census"
)

// foreignObjects stand in somebody else's cluster, by their collections: each has
// the name of something that a scenario below would make.
var foreignObjects = map[string]string{
	"/api/v1/namespaces":                     `{"metadata":{"name":"taken-1"}}`,
	"/api/v1/namespaces/default/configmaps":  `{"metadata":{"name":"taken-0"},"data":{"theirs":"1"}}`,
	"/apis/storage.k8s.io/v1/storageclasses": `{"metadata":{"name":"windtunnel","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"their.own/volume"}`,
	"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": `{"metadata":{"name":"widgets.example.org"},"spec":{"group":"example.org","scope":"Namespaced",
		"names":{"kind":"Widget","plural":"widgets","singular":"widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
	"/apis/apps/v1/namespaces/default/deployments": `{"metadata":{"name":"operator"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"operator"}},
		"template":{"metadata":{"labels":{"app":"operator"}},"spec":{"containers":[{"name":"c","image":"theirs"}]}}}}`,
}

const foreignHead = `scenario: guest
parameters: {pause: 1ms}
preflight: {wait: 1s, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, host, unread]}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Name }}'}, data: {ours: '1'}}"}
  patch: {text: "{data: {ours: '2'}}"}
  pod: {text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}'}, spec: {containers: [{name: c, image: i}]}}"}
groups: [{name: pods, selector: windtunnel.dev/run}]
`

// guests are the scenarios that are flown there, with their exit codes.
var guests = map[string]struct {
	text string
	code int
	says string
}{
	"pass": {foreignHead + `namespaces: {count: 1}
fleet: {nodes: 3, stages: [fast]}
steps:
- {name: own, create: {body: pod, count: 4, pace: {constant: 20}}}
- {name: wait, wait: {pods: pods, are: running, count: 4, within: 2m}}
- {name: other, create: {body: map, namespace: default, count: 5, pace: {constant: 50}}}
- {name: pause, pause: "${pause}"}
`, exitPass, ""},
	"fail": {foreignHead + `namespaces: {count: 0}
steps:
- {name: taken, create: {body: map, namespace: default, count: 2, pace: {constant: 20}}}
- {name: change, onFailure: continue, update: {step: taken, body: patch, method: merge, pace: {constant: 20}}}
- {name: take, delete: {step: taken, pace: {constant: 20}}}
`, exitFail, "409 AlreadyExists"},
	"class":      {foreignHead + "namespaces: {count: 0}\nfleet: {nodes: 1, stages: [fast, volumes]}\nsteps: [{pause: 1ms}]\n", exitUnknown, "StorageClass windtunnel: it exists already"},
	"definition": {foreignHead + "namespaces: {count: 0}\ncrds: [a-definition.yaml]\nsteps: [{pause: 1ms}]\n", exitUnknown, "--adopt customresourcedefinitions.apiextensions.k8s.io/widgets.example.org"},
	"operator":   {foreignHead + "namespaces: {count: 0}\nmanifests: [a-deployment.yaml]\nsteps: [{pause: 1ms}]\n", exitUnknown, "--adopt deployments.apps/default/operator"},
	"namespace":  {foreignHead + "namespaces: {prefix: taken, count: 1}\nsteps: [{pause: 1ms}]\n", exitUnknown, "namespace taken-1: it exists already"},
	"destructive": {foreignHead + "namespaces: {count: 0}\nsteps: [{name: d, requests: {count: 1, pace: {burst: true}, mix: [{verb: delete, resource: nodes, name: node-000000}]}}]\n",
		exitFault, "--allow-destructive"},
	"narrowed": {foreignHead + "namespaces: {count: 0}\nsteps: [{name: d, requests: {count: 2, pace: {burst: true}, mix: [{verb: deletecollection, resource: nodes}, {verb: deletecollection, resource: configmaps, namespace: default}]}}]\n",
		exitPass, ""},
}

// theirs is somebody else's cluster.
type theirs struct {
	*wire.Client
	t      *testing.T
	config string
	kept   map[string][]byte // objects by their paths, byte by byte
	before census.Census
}

// TestForeignClusterStaysAsItWas flies in a cluster where things stand already that
// have the names of the run's own: each of them is byte by byte as before after a
// run that passes, one that fails, ones that are refused, Ctrl-C and a kill -9 with
// clean, and nothing of the runs is left.
func TestForeignClusterStaysAsItWas(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	config, endUp := u.up("--nodes", "2")
	defer endUp()
	c := openTheirs(t, config)
	for name, file := range map[string]string{"customresourcedefinitions": "a-definition.yaml", "deployments": "a-deployment.yaml"} {
		for collection, body := range foreignObjects {
			if strings.HasSuffix(collection, "/"+name) {
				u.write(map[string]string{file: strings.Replace(body, "{", `{"apiVersion":"`+apiVersionOf(collection)+`","kind":"`+kindOf[name]+`",`, 1)})
			}
		}
	}
	for name, guest := range guests {
		u.write(map[string]string{name + ".yaml": guest.text})
		cmd, said := u.start("run", name+".yaml", "--kubeconfig", config, "--out", "run-"+name)
		// A busy machine has its doubts, also of how long probe writes take.
		if code := exitOf(cmd.Wait()); code != guest.code && (guest.code == exitFault || code != exitUnknown) || !strings.Contains(said.String(), guest.says) {
			t.Errorf("%s: exit code %d, want %d, with %q:\n%s", name, code, guest.code, guest.says, said)
		}
		c.asBefore(name)
		c.nothingOfOurs(name)
	}
	u.interruptedThere(c)
	u.killedThere(c)
}

var kindOf = map[string]string{"customresourcedefinitions": "CustomResourceDefinition", "deployments": "Deployment"}

// apiVersionOf reads it from the path of a collection of a group.
func apiVersionOf(collection string) string {
	parts := strings.Split(collection, "/")
	return parts[2] + "/" + parts[3]
}

// openTheirs makes the objects of others, and keeps them and the nodes as they are.
func openTheirs(t *testing.T, config string) *theirs {
	t.Helper()
	e, err := endpoint.FromKubeconfig(config, "")
	repotest.NoError(t, err)
	client := repotest.Must(wire.New(e, wire.Options{UserAgent: "theirs", Clock: clock.Start()}))(t)
	t.Cleanup(func() { _ = client.Close() })
	c := &theirs{Client: client, t: t, config: config, kept: map[string][]byte{}}
	paths := []string{"/api/v1/nodes/node-000000", "/api/v1/nodes/node-000001"}
	for collection, body := range foreignObjects {
		answer, err := client.Do(t.Context(), &wire.Request{Method: http.MethodPost, Path: collection, ContentType: "application/json", Body: []byte(body)})
		if err != nil || !answer.Success() {
			t.Fatalf("%s: %v, %v", collection, answer, err)
		}
		_, name, _ := strings.Cut(body, `"name":"`)
		name, _, _ = strings.Cut(name, `"`)
		paths = append(paths, collection+"/"+name)
	}
	repotest.Eventually(t, "controllers have done with what is theirs", func() bool {
		before := maps.Clone(c.kept)
		for _, path := range paths {
			c.kept[path] = c.get(path)
		}
		time.Sleep(time.Second) // a look later, nothing may have moved
		return maps.EqualFunc(before, c.kept, bytes.Equal)
	})
	if c.before, err = census.Take(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *theirs) get(path string) []byte {
	c.t.Helper()
	answer, err := c.Do(c.t.Context(), &wire.Request{Method: http.MethodGet, Path: path})
	if err != nil || answer.Code != http.StatusOK {
		c.t.Errorf("%s: %v, %v", path, answer, err)
		return nil
	}
	return bytes.Clone(answer.Body)
}

// asBefore compares what others have made with what it was, resourceVersion and
// managedFields included.
func (c *theirs) asBefore(after string) {
	c.t.Helper()
	for path, was := range c.kept {
		if is := c.get(path); !bytes.Equal(is, was) {
			c.t.Errorf("after %s: %s was\n%s\nand is\n%s", after, path, was, is)
		}
	}
}

// nothingOfOurs counts every object there is, whatever its labels: there are those of
// before, and no other.
func (c *theirs) nothingOfOurs(after string) {
	c.t.Helper()
	var differences []string
	repotest.Eventually(c.t, "the census after "+after+" is that of before", func() bool {
		now, err := census.Take(c.t.Context(), c.config)
		if err != nil {
			differences = []string{err.Error()}
			return false
		}
		differences = c.before.Differences(now)
		return len(differences) == 0
	}, func() any { return strings.Join(differences, "\n") })
}

// interruptedThere ends a run by Ctrl-C in its midst.
func (u *tunnel) interruptedThere(c *theirs) {
	cmd, said := u.start("run", "pass.yaml", "--kubeconfig", c.config, "--out", "run", "--set", "pause=10m")
	u.reach("other")
	_ = cmd.Process.Signal(os.Interrupt)
	if code := exitOf(cmd.Wait()); code != exitUnknown || strings.Contains(said.String(), "left behind") {
		u.t.Errorf("interrupted: exit code %d\n%s", code, said)
	}
	c.asBefore("Ctrl-C")
	c.nothingOfOurs("Ctrl-C")
}

// killedThere kills a run, and cleans up after it; a run that is being flown is left
// alone meanwhile.
func (u *tunnel) killedThere(c *theirs) {
	repotest.NoError(u.t, os.RemoveAll(filepath.Join(u.dir, "run")))
	cmd, _ := u.start("run", "pass.yaml", "--kubeconfig", c.config, "--out", "run", "--set", "pause=10m")
	u.reach("other")
	clean := func(code int, says string, args ...string) {
		u.t.Helper()
		cmd, said := u.start(append([]string{"clean", "--kubeconfig", c.config}, args...)...)
		if got := exitOf(cmd.Wait()); got != code || !strings.Contains(said.String(), says) {
			u.t.Errorf("clean %v: exit code %d, want %d, with %q:\n%s", args, got, code, says, said)
		}
	}
	clean(exitFail, "it is being flown now")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_, manifest, err := record.OpenDir(filepath.Join(u.dir, "run"))
	repotest.NoError(u.t, err)
	clean(exitPass, "nothing was left by another", "--run", "another")
	clean(exitPass, "configmaps default/other-0", "--dry-run", "--run", manifest.Run)
	clean(exitFault, "add --yes to delete these objects", "--run", manifest.Run)
	clean(exitPass, "run "+manifest.Run+": ", "--run", manifest.Run, "--yes")
	clean(exitPass, "nothing was left by any run")
	c.asBefore("kill -9 and clean")
	c.nothingOfOurs("kill -9 and clean")
}
